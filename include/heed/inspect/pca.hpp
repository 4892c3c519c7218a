#pragma once

// Principal component analysis: the directions in which a set of points differs most. What two of them show
// of an embedding table is the usual picture of it:
//
//   const auto two = heed::pca(embedding, 2);          // embedding: words x dimensions
//   two.projected                                      // words x 2: hand it to plot_scatter()
//
// Method: the mean row is taken off, the matrix is reduced to a small triangular one by a Householder QR
// decomposition, and the singular value decomposition of that (one-sided Jacobi) gives the directions. The
// squared covariance matrix, which would lose half of the digits, is never formed.
//
// Signs. A direction and its opposite serve equally well. Here the coefficient of a component that is largest
// in magnitude is positive; among coefficients that are equal but for rounding, the first one. Components of
// equal variance may come out as any basis of the space they span.

#include "heed/core/config.hpp"

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>

#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/core/index.hpp"
#include "heed/inspect/detail/principal_directions.hpp"

namespace heed {

/// The components that pca() finds, and the points in them.
template <class Scalar>
struct PcaResult {
  using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

  Matrix projected;           ///< n x k: each row's coordinates along the components, mean taken off.
  Matrix components;          ///< k x d: one direction per row, of length 1, at right angles to each other.
  Vector explained_variance;  ///< k: the variance along each, divided by n - 1; never increasing.
  Vector mean;                ///< d: the mean row.
  Scalar
      total_variance;  ///< Over all d directions: explained_variance(i) / total_variance is the share of i.
};

namespace pca_detail {

// A power of two near the largest magnitude. Dividing by it is exact and keeps all squares within range.
template <class Matrix>
typename Matrix::Scalar scale_of(const Matrix& values) {
  using Scalar = typename Matrix::Scalar;
  const Scalar largest = values.cwiseAbs().maxCoeff();
  int exponent = 0;
  std::frexp(largest, &exponent);
  constexpr int top = std::numeric_limits<Scalar>::max_exponent - 1;
  constexpr int bottom = std::numeric_limits<Scalar>::min_exponent;
  return std::ldexp(Scalar(1), exponent > top ? top : exponent < bottom ? bottom : exponent);
}

template <class Matrix>
void require_finite(const Matrix& values) {
  for (Index i = 0; i < values.rows(); ++i) {
    for (Index j = 0; j < values.cols(); ++j) {
      if (detail::is_finite(values(i, j))) continue;
      throw_argument_error("rows(" + std::to_string(i) + ", " + std::to_string(j) + ") is " +
                           detail::number_text(static_cast<double>(values(i, j))) +
                           ", all values must be finite");
    }
  }
}

// Makes the first of the coefficients of largest magnitude positive.
template <class Column>
void fix_sign(Column&& axis) {
  using Scalar = typename std::decay_t<Column>::Scalar;
  const Scalar nearly_largest =
      axis.cwiseAbs().maxCoeff() * (1 - 1000 * std::numeric_limits<Scalar>::epsilon());
  for (Index i = 0; i < axis.size(); ++i) {
    if ((std::abs)(axis(i)) < nearly_largest) continue;
    if (axis(i) < 0) axis = -axis;
    return;
  }
}

}  // namespace pca_detail

/// Returns the first `components` principal components of n points in d dimensions, one point per row; any
/// Eigen expression of float, double or long double. Computed in double at least, with the same bits for any
/// storage order of the input.
///
/// No size is an error. What does not exist is zero: the mean of no rows, the variance of one, and every
/// component beyond the rank of the data (so at most min(n - 1, d) are not zero; constant data has none),
/// with its variance and its coordinates. A plot of two components can so be drawn for any data.
///
/// Throws ArgumentError for a negative count and for a value that is NaN or infinite, naming its place.
/// Variances beyond the range of Scalar are returned as infinity. Time O(n d min(n, d)), memory O(n d); the
/// calling thread alone.
template <class Derived>
PcaResult<typename Derived::Scalar> pca(const Eigen::MatrixBase<Derived>& rows, Index components) {
  using Scalar = typename Derived::Scalar;
  static_assert(std::is_floating_point_v<Scalar>,
                "pca() takes float, double or long double; use .cast<double>()");
  using Wide = std::common_type_t<Scalar, double>;
  using Matrix = Eigen::Matrix<Wide, Eigen::Dynamic, Eigen::Dynamic,
                               Eigen::ColMajor>;  // whatever EIGEN_DEFAULT_TO_ROW_MAJOR says

  if (components < 0) {
    throw_argument_error("components is " + std::to_string(components) + ", it must not be negative");
  }
  const Index n = rows.rows();
  const Index d = rows.cols();
  PcaResult<Scalar> result;
  result.projected = PcaResult<Scalar>::Matrix::Zero(n, components);
  result.components = PcaResult<Scalar>::Matrix::Zero(components, d);
  result.explained_variance = PcaResult<Scalar>::Vector::Zero(components);
  result.mean = PcaResult<Scalar>::Vector::Zero(d);
  result.total_variance = 0;
  if (n == 0 || d == 0) return result;

  Matrix centered = rows.template cast<Wide>();
  pca_detail::require_finite(centered);
  const Wide scale = pca_detail::scale_of(centered);
  centered /= scale;
  Eigen::Matrix<Wide, 1, Eigen::Dynamic> mean = centered.colwise().sum() / static_cast<Wide>(n);
  centered.rowwise() -= mean;
  const Eigen::Matrix<Wide, 1, Eigen::Dynamic> rest = centered.colwise().sum() / static_cast<Wide>(n);
  centered.rowwise() -= rest;  // what rounding left of the mean
  mean += rest;
  result.mean = (mean.transpose() * scale).template cast<Scalar>();
  if (n == 1) return result;

  // The rows are at most 1 in magnitude, so what rounding leaves of a direction without variance is below
  // this.
  const auto size = static_cast<Wide>(n > d ? n : d);
  const Wide noise = size * std::numeric_limits<Wide>::epsilon();
  const Index r = n < d ? n : d;
  Matrix axes(d, r);
  Eigen::Matrix<Wide, Eigen::Dynamic, 1> singular_values(r);
  pca_detail::principal_directions(centered.data(), n, d, axes.data(), singular_values.data());
  const Wide degrees = static_cast<Wide>(n - 1);
  const auto variance_of = [&](Wide singular) { return singular * scale * (singular * scale / degrees); };
  Wide total = 0;
  for (Index i = 0; i < r; ++i) {
    const Wide singular = singular_values(i);
    if (!(singular > noise)) break;  // they never increase
    total += variance_of(singular);
    if (i >= components) continue;
    Eigen::Matrix<Wide, Eigen::Dynamic, 1> axis = axes.col(i);
    pca_detail::fix_sign(axis);
    result.components.row(i) = axis.transpose().template cast<Scalar>();
    result.projected.col(i) = (centered * axis * scale).template cast<Scalar>();
    result.explained_variance(i) = static_cast<Scalar>(variance_of(singular));
  }
  result.total_variance = static_cast<Scalar>(total);
  return result;
}

}  // namespace heed
