#pragma once

// How layers make their weights, look at them and check what fits them.

#include "heed/core/config.hpp"

#include <string>
#include <string_view>

#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/memory.hpp"

namespace heed::detail {

/// Returns rows filled one after another with uniform(-bound, bound): the same numbers on every platform.
/// Throws ArgumentError for more bytes than the machine has.
template <class Scalar, class Random>
Matrix<Scalar> uniform_matrix(Index rows, Index cols, Random& random, double bound) {
  require_matrix_memory<Scalar>(rows, cols);
  Matrix<Scalar> matrix(rows, cols);
  for (Index i = 0; i < matrix.rows(); ++i) {
    for (Index j = 0; j < matrix.cols(); ++j)
      matrix(i, j) = static_cast<Scalar>(random.uniform(-bound, bound));
  }
  return matrix;
}

/// Throws ArgumentError if the gradients are the layer itself, whose weights they would overwrite.
inline void require_other(const void* layer, const void* gradients) {
  if (layer == gradients) {
    throw_argument_error(
        "gradients is the layer itself: it must be another object, as zeros_like() makes it");
  }
}

inline void require_sizes_at_least_one(Index in, const char* in_name, Index out, const char* out_name) {
  if (in < 1 || out < 1) {
    throw_shape_error(std::string(in_name) + " is " + std::to_string(in) + ", " + out_name + " is " +
                      std::to_string(out) + ": both must be at least 1");
  }
}

/// Throws ShapeError unless the matrix is rows x cols. `because` says what needs them: "a norm of 8 columns".
template <class Scalar>
void require_matrix(const MatrixView<Scalar>& matrix, const char* name, Index rows, Index cols,
                    std::string_view because) {
  if (matrix.rows != rows || matrix.cols != cols) {
    throw_shape_error(std::string(name) + " is " + size_text(matrix) + ", " + std::string(because) +
                      " needs " + std::to_string(rows) + " x " + std::to_string(cols));
  }
}

/// Returns the view of a row of weights, or an empty one where a layer has none.
template <class Scalar>
MatrixView<const Scalar> view_unless_empty(const RowVector<Scalar>& row) {
  return row.size() > 0 ? view(row) : MatrixView<const Scalar>{};
}

/// Returns the writable view of a row of weights, or an empty one where a layer has none.
template <class Scalar>
MatrixView<Scalar> mutable_view_unless_empty(RowVector<Scalar>& row) {
  return row.size() > 0 ? mutable_view(row) : MatrixView<Scalar>{};
}

}  // namespace heed::detail
