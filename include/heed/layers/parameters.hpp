#pragma once

// The weights of a layer or model, one after another and by name: what an optimizer is handed, what a
// checkpoint stores.
//
//   heed::Gpt<float> gradients = heed::zeros_like(model);
//   const auto weights = heed::parameters(model, gradients);
//   for (const auto& w : weights) std::cout << w.name << ": " << w.value.rows << " x " << w.value.cols <<
//   '\n';
//
// Each layer has for_each_parameter(f), which calls f(name, matrix) for each of its Eigen matrices, in an
// order that never changes; a model does so for its layers, with their names in front:
// "blocks.0.norm1.weight". The gradients of a layer are an object of the layer's own type.

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "heed/core/config.hpp"
#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/memory.hpp"
#include "heed/layers/detail/parameter_walk.hpp"
#include "heed/layers/parameter.hpp"

namespace heed {

/// All weights of a layer with their gradients. Throws ShapeError, naming the matrix, if the gradients are
/// not those of a layer of the same sizes.
template <template <class> class Layer, class Scalar>
std::vector<Parameter<Scalar>> parameters(Layer<Scalar>& layer, Layer<Scalar>& gradients) {
  std::vector<Parameter<Scalar>> list;
  layer.for_each_parameter([&](const std::string& name, auto& matrix) {
    const bool decays = !std::remove_reference_t<decltype(matrix)>::IsVectorAtCompileTime;
    list.push_back({name, mutable_view(matrix), {}, decays});
  });
  std::size_t next = 0;
  gradients.for_each_parameter([&](const std::string& name, auto& matrix) {
    const bool fits = next < list.size() && list[next].name == name &&
                      list[next].value.rows == matrix.rows() && list[next].value.cols == matrix.cols();
    if (!fits)
      throw_shape_error("the gradient " + name + " (" + size_of(view(matrix)) + ") belongs to no weight");
    list[next++].grad = mutable_view(matrix);
  });
  if (next != list.size()) throw_shape_error("the weight " + list[next].name + " has no gradient");
  return list;
}

/// All weights without gradients, to be read or set.
template <template <class> class Layer, class Scalar>
std::vector<Parameter<Scalar>> parameters(Layer<Scalar>& layer) {
  std::vector<Parameter<Scalar>> list = parameters(layer, layer);
  for (Parameter<Scalar>& parameter : list) parameter.grad = {};
  return list;
}

/// How many numbers a layer has to learn.
template <class Layer>
Index num_parameters(const Layer& layer) {
  Index count = 0;
  layer.for_each_parameter([&](const std::string&, const auto& matrix) { count += matrix.size(); });
  return count;
}

template <class Layer>
void set_zero(Layer& layer) {
  layer.for_each_parameter([](const std::string&, auto& matrix) { matrix.setZero(); });
}

/// A layer of the same sizes, all weights 0: room for gradients.
template <class Layer>
Layer zeros_like(const Layer& layer) {
  Layer zeros = layer;
  set_zero(zeros);
  return zeros;
}

namespace detail {

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
    throw_shape_error(std::string(name) + " is " + size_of(matrix) + ", " + std::string(because) + " needs " +
                      std::to_string(rows) + " x " + std::to_string(cols));
  }
}

/// The view of a row of weights, or an empty one where a layer has none.
template <class Scalar>
MatrixView<const Scalar> view_unless_empty(const RowVector<Scalar>& row) {
  return row.size() > 0 ? view(row) : MatrixView<const Scalar>{};
}
template <class Scalar>
MatrixView<Scalar> mutable_view_unless_empty(RowVector<Scalar>& row) {
  return row.size() > 0 ? mutable_view(row) : MatrixView<Scalar>{};
}

}  // namespace detail

}  // namespace heed
