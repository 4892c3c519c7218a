#pragma once

// Masks that are Eigen matrices, read where they lie.
//
//   const Eigen::MatrixXf distances = ...;  // query_len x kv_len
//   out = heed::scaled_dot_product_attention(query, key, value, {.mask = heed::bias(distances)});

#include "heed/core/config.hpp"

#include <Eigen/Core>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "heed/attention/mask.hpp"
#include "heed/core/eigen.hpp"
#include "heed/core/eigen_concepts.hpp"
#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/core/scalar.hpp"

namespace heed {

namespace detail {

template <class Matrix>
inline constexpr bool holds_bool = std::is_same_v<typename std::remove_cvref_t<Matrix>::Scalar, bool>;

}  // namespace detail

/// Makes bias() of any Eigen expression with memory, without a copy.
template <detail::EigenMatrix Matrix>
Mask bias(Matrix&& matrix, MaskRows per = MaskRows::nothing) {
  static_assert(!std::is_integral_v<typename std::remove_cvref_t<Matrix>::Scalar>,
                "a bias is added to scores; a matrix of bool or int is not one");
  return bias(detail::lasting_view(std::forward<Matrix>(matrix)), per);
}

/// Makes keep_where() of any Eigen expression of bool with memory, without a copy.
template <detail::EigenMatrix Matrix>
Mask keep_where(Matrix&& matrix, MaskRows per = MaskRows::nothing) {
  static_assert(detail::holds_bool<Matrix>, "keep_where takes a matrix of bool: compare the numbers first");
  return keep_where(detail::lasting_view(std::forward<Matrix>(matrix)), per);
}

/// Makes drop_where() of any Eigen expression of bool with memory, without a copy.
template <detail::EigenMatrix Matrix>
Mask drop_where(Matrix&& matrix, MaskRows per = MaskRows::nothing) {
  static_assert(detail::holds_bool<Matrix>, "drop_where takes a matrix of bool: compare the numbers first");
  return drop_where(detail::lasting_view(std::forward<Matrix>(matrix)), per);
}

/// Returns the causal mask as a matrix to add to n x n scores: 0 where key j <= query i, -inf elsewhere.
/// causal() does it without the matrix, and skips what it hides. Throws ShapeError if n is negative.
template <class Scalar = double>
Matrix<Scalar> causal_mask(Index n) {
  static_assert(detail::require_number<Scalar>());
  if (n < 0) throw_shape_error("a causal mask of " + std::to_string(n) + " positions");
  Matrix<Scalar> mask = Matrix<Scalar>::Zero(n, n);
  mask.template triangularView<Eigen::StrictlyUpper>().setConstant(-std::numeric_limits<Scalar>::infinity());
  return mask;
}

/// Makes bias(matrix) of a matrix that is meant as a mask, 0 where a query may see a key and -inf where it
/// may not: throws ArgumentError if it holds anything else, such as the 1 of a matrix of zeros and ones.
template <class M>
Mask additive_mask(const Eigen::DenseBase<M>& matrix) {
  using Scalar = typename M::Scalar;
  static_assert(!std::is_integral_v<Scalar>,
                "an additive mask holds 0 and -inf; a matrix of bool or int is not one");
  const MatrixView<const Scalar> entries = view(matrix);
  for (Index i = 0; i < entries.rows; ++i) {
    for (Index j = 0; j < entries.cols; ++j) {
      const Scalar entry = entries(i, j);
      if (detail::is_nan(entry) || !(entry == Scalar(0) || detail::is_minus_infinity(entry))) {
        throw_argument_error("an additive mask holds 0 (visible) and -inf (hidden), this one (" +
                             size_text(entries) + ") has another value at row " + std::to_string(i) +
                             ", column " + std::to_string(j) +
                             "; to add other values to the scores, say bias(matrix)");
      }
    }
  }
  return bias(entries);
}

/// Refuses a matrix that would be gone before attention looks at it.
template <class Scalar, int Rows, int Cols, int Options, int MaxRows, int MaxCols>
Mask additive_mask(Eigen::Matrix<Scalar, Rows, Cols, Options, MaxRows, MaxCols>&& matrix) = delete;

}  // namespace heed
