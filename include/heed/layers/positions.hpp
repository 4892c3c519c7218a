#pragma once

// Sinusoidal positions, and adding them to embeddings.
//
//   const heed::SinusoidalPositions<float> positions(1024, 64);
//   const heed::Matrix<float> x = heed::add_positions(embedded, positions);

#include "heed/core/config.hpp"

#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/memory.hpp"
#include "heed/core/scalar.hpp"

namespace heed {

/// Sinusoidal positions (Vaswani et al. 2017, section 3.5), computed once for max_len positions:
///   table(p, 2i) = sin(p / 10000^(2i / d_model)),  table(p, 2i + 1) = cos(p / 10000^(2i / d_model)).
/// An odd d_model has one sine more than cosines.
template <class Scalar>
class SinusoidalPositions {
  static_assert(detail::require_number<Scalar>());

 public:
  /// Throws ShapeError if max_len is negative or d_model below 1, ArgumentError for more bytes than the
  /// machine has.
  SinusoidalPositions(Index max_len, Index d_model) {
    using std::cos;
    using std::pow;
    using std::sin;
    if (max_len < 0 || d_model < 1) {
      throw_shape_error("positions with max_len " + std::to_string(max_len) + " and d_model " +
                        std::to_string(d_model) + ": max_len must not be negative and d_model at least 1");
    }
    detail::require_matrix_memory<Scalar>(max_len, d_model);
    table_.resize(max_len, d_model);
    for (Index j = 0; j < d_model; ++j) {
      // In double even for float: at position 10000 a float angle would be off by 1e-3.
      using Angle = std::conditional_t<(sizeof(Scalar) > sizeof(double)), long double, double>;
      const Index even = j - j % 2;
      const Angle wavelength = pow(Angle(10000), Angle(even) / Angle(d_model));
      for (Index p = 0; p < max_len; ++p) {
        const Angle angle = Angle(p) / wavelength;
        table_(p, j) = detail::number<Scalar>(j % 2 == 0 ? sin(angle) : cos(angle));
      }
    }
  }

  Index max_len() const noexcept { return table_.rows(); }
  Index d_model() const noexcept { return table_.cols(); }
  const Matrix<Scalar>& table() const& noexcept { return table_; }
  /// Gives the table away.
  Matrix<Scalar> table() && { return std::move(table_); }

  /// Returns positions [first, first + count): count x d_model. Throws RangeError if they are not all in the
  /// table.
  auto rows(Index first, Index count) const {
    if (first < 0 || count < 0 || first > max_len() || count > max_len() - first) {
      throw_range_error("positions " + std::to_string(first) + " and the following, " +
                        std::to_string(count) + " in all, are wanted, max_len is " +
                        std::to_string(max_len()));
    }
    return table_.middleRows(first, count);
  }

 private:
  Matrix<Scalar> table_;
};

/// Returns x + positions: row i of each sequence gets position first + i. x is (batch_size * seq_len) x
/// d_model, and so is the result. Throws ShapeError if the widths differ or the rows cannot be split into
/// sequences, RangeError beyond max_len.
template <class X>
Matrix<typename X::Scalar> add_positions(const Eigen::DenseBase<X>& x,
                                         const SinusoidalPositions<typename X::Scalar>& positions,
                                         Index first = 0, Index batch_size = 1) {
  if (x.cols() != positions.d_model()) {
    throw_shape_error("x has " + std::to_string(x.cols()) + " columns, the positions have d_model " +
                      std::to_string(positions.d_model()));
  }
  if (batch_size < 1 || x.rows() % batch_size != 0) {
    throw_shape_error("x has " + std::to_string(x.rows()) + " rows, they cannot be split into " +
                      std::to_string(batch_size) + " sequences");
  }
  const Index seq_len = x.rows() / batch_size;
  const auto rows = positions.rows(first, seq_len);
  Matrix<typename X::Scalar> sum = x.derived();
  for (Index b = 0; b < batch_size; ++b) sum.middleRows(b * seq_len, seq_len) += rows;
  return sum;
}

}  // namespace heed
