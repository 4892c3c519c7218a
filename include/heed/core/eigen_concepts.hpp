#pragma once

// What an Eigen matrix is, said without a header of Eigen's.

#include "heed/core/config.hpp"

#include <type_traits>

#include "heed/core/view.hpp"

namespace heed {

namespace detail {

template <class Matrix>
concept EigenMatrix = requires {
  typename std::remove_cvref_t<Matrix>::Scalar;
};

/// Returns the view of an Eigen expression that is looked at later.
template <class Matrix>
auto lasting_view(Matrix&& matrix) {
  using Plain = std::remove_cvref_t<Matrix>;
  using Scalar = typename Plain::Scalar;
  static_assert(
      requires(const Plain& m) { m.data(); },
      "this Eigen expression has no memory of its own: call .eval() on it and keep the result");
  static_assert(std::is_lvalue_reference_v<Matrix> || !std::is_same_v<Plain, typename Plain::PlainObject>,
                "this matrix dies before attention runs: keep it in a variable");
  return MatrixView<const Scalar>{matrix.data(), matrix.rows(), matrix.cols(), matrix.rowStride(),
                                  matrix.colStride()};
}

}  // namespace detail

}  // namespace heed
