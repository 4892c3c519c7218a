#pragma once

// From Eigen to views, without a copy. Header-only: Eigen objects are created, resized and freed in the
// caller's translation unit alone, so caller and library may be built with different flags and different
// versions of Eigen.

#include "heed/core/config.hpp"

#include <Eigen/Core>
#include <type_traits>

#include "heed/core/view.hpp"

namespace heed {

/// What Heed returns matrices as: row-major, since rows are positions. It assigns to any Eigen matrix.
template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// One number for each column: a bias, or the weights of a normalization.
template <class Scalar>
using RowVector = Eigen::Matrix<Scalar, 1, Eigen::Dynamic, Eigen::RowMajor>;

/// Returns the view of any Eigen expression that has memory: a matrix of either storage order, Block, Map,
/// Ref, with any strides. An expression without memory, such as a product, is a compile error: call .eval()
/// on it.
template <class Derived>
MatrixView<const typename Derived::Scalar> view(const Eigen::DenseBase<Derived>& matrix) {
  static_assert((static_cast<unsigned>(Derived::Flags) & Eigen::DirectAccessBit) != 0,
                "this Eigen expression has no memory of its own: call .eval() on it and keep the result");
  const Derived& m = matrix.derived();
  return {m.data(), m.rows(), m.cols(), m.rowStride(), m.colStride()};
}

/// Refuses a temporary, which would be gone before its view is looked at: keep the matrix in a variable.
template <class Scalar, int Rows, int Cols, int Options, int MaxRows, int MaxCols>
MatrixView<const Scalar> view(Eigen::Matrix<Scalar, Rows, Cols, Options, MaxRows, MaxCols>&& matrix) = delete;

/// Returns a writable view of an Eigen expression that has memory.
template <class Derived>
MatrixView<typename Derived::Scalar> mutable_view(Eigen::DenseBase<Derived>& matrix) {
  static_assert((static_cast<unsigned>(Derived::Flags) & Eigen::DirectAccessBit) != 0 &&
                    (static_cast<unsigned>(Derived::Flags) & Eigen::LvalueBit) != 0,
                "this Eigen expression cannot be written to");
  Derived& m = matrix.derived();
  return {m.data(), m.rows(), m.cols(), m.rowStride(), m.colStride()};
}

}  // namespace heed
