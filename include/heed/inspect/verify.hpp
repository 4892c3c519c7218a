#pragma once

// Properties of attention, measured on a model as it stands: each probe returns what it found, and the
// verdict.
//
//   const heed::CausalReport causal = heed::verify_causal(module, x);  // does a token see later ones?
//   const heed::RowSumReport sums = heed::rows_sum_to_one(weights);
//   const bool sound = causal.passed && sums.passed;

#include "heed/core/config.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/core/random.hpp"
#include "heed/layers/multi_head_attention.hpp"

namespace heed {

/// How closely verify_causal() looks.
struct CausalOptions {
  double tolerance = 1e-9;      ///< A larger difference fails.
  std::uint64_t seed = 0xCAFE;  ///< The seed of the values that replace the future.
  Index max_cuts = 64;          ///< How many places to cut at; evenly spread if there are more positions.
};

/// What verify_causal() found.
struct CausalReport {
  bool passed = true;
  double largest_difference =
      0;  ///< Largest difference of an output before the cut, between two futures; NaN: infinite.
  Index position = -1;  ///< The row of the output where it was found, -1 if there was no difference.
  Index column = -1;
  Index cut = -1;  ///< The rows from here on had been replaced.
  Index cuts = 0;  ///< How many places were tried.
  double tolerance = 0;
};

namespace detail {

template <class Module, class Scalar>
auto apply_module(Module&& module, const Matrix<Scalar>& x) {
  if constexpr (std::invocable<Module&, const Matrix<Scalar>&>) {
    return Matrix<Scalar>(module(x));
  } else {
    return Matrix<Scalar>(module.forward(x));
  }
}

}  // namespace detail

/// Tells whether the output at a position depends on later positions. For several cuts, every row of x from
/// the cut on is replaced by uniform(-1, 1), and the outputs before the cut are compared: a causal module
/// shows no difference. module is called as module(x) or module.forward(x), x being seq_len x d_model, and
/// must return seq_len rows (else ShapeError). Time: one call for each cut. Throws ArgumentError for a
/// negative or NaN tolerance or max_cuts below 1.
template <class Module, class X>
CausalReport verify_causal(Module&& module, const Eigen::DenseBase<X>& x, const CausalOptions& options = {}) {
  static_assert(std::is_floating_point_v<typename X::Scalar>,
                "verify_causal takes float, double or long double: its report is in double");
  using Scalar = typename X::Scalar;
  if (detail::is_nan(options.tolerance) || options.tolerance < 0) {
    throw_argument_error("tolerance is " + detail::number_text(options.tolerance) +
                         ", it must not be negative");
  }
  if (options.max_cuts < 1) {
    throw_argument_error("max_cuts is " + std::to_string(options.max_cuts) + ", it must be at least 1");
  }
  CausalReport report;
  report.tolerance = options.tolerance;
  const Matrix<Scalar> original = x.derived().template cast<Scalar>();
  const Matrix<Scalar> before = detail::apply_module(module, original);
  if (before.rows() != original.rows()) {
    throw_shape_error("x has " + std::to_string(original.rows()) + " rows, the module returned " +
                      std::to_string(before.rows()));
  }
  const Index possible = (std::max<Index>)(0, original.rows() - 1);
  report.cuts = (std::min)(possible, options.max_cuts);
  Random random(options.seed);
  for (Index i = 0; i < report.cuts; ++i) {
    const Index cut = 1 + i * possible / report.cuts;
    Matrix<Scalar> other = original;
    for (Index row = cut; row < other.rows(); ++row) {
      for (Index col = 0; col < other.cols(); ++col)
        other(row, col) = static_cast<Scalar>(random.uniform(-1, 1));
    }
    const Matrix<Scalar> after = detail::apply_module(module, other);
    if (after.rows() != before.rows() || after.cols() != before.cols()) {
      throw_shape_error("the module returned " + size_text(view(before)) + " and then " +
                        size_text(view(after)));
    }
    for (Index row = 0; row < cut; ++row) {
      for (Index col = 0; col < before.cols(); ++col) {
        // Outputs that are NaN in both futures say nothing; one that is NaN in one future only has changed.
        // NaN is asked for first: under -ffast-math it may be equal to anything.
        const bool was_nan = detail::is_nan(before(row, col));
        const bool is_nan = detail::is_nan(after(row, col));
        if (was_nan && is_nan) continue;
        if (!was_nan && !is_nan && before(row, col) == after(row, col)) continue;
        const auto difference = static_cast<double>((std::abs)(before(row, col) - after(row, col)));
        const double size = detail::is_nan(difference) ? std::numeric_limits<double>::infinity() : difference;
        if (size > report.largest_difference) {
          report.largest_difference = size;
          report.position = row;
          report.column = col;
          report.cut = cut;
        }
      }
    }
  }
  report.passed = report.largest_difference <= options.tolerance;
  return report;
}

/// Tells whether the output of a layer of attention under a mask depends on later positions. A layer's mask
/// belongs to the call, so it is given here too.
template <class Scalar, class X>
CausalReport verify_causal(const MultiHeadAttention<Scalar>& layer, const Eigen::DenseBase<X>& x,
                           const Mask& mask, const CausalOptions& options = {}) {
  LayerOptions layer_options;
  layer_options.mask = mask;
  return verify_causal([&](const Matrix<Scalar>& input) { return layer.forward(input, layer_options); }, x,
                       options);
}

/// What rows_sum_to_one() found.
struct RowSumReport {
  bool passed = true;
  double largest_error = 0;  ///< Largest |row sum - 1| of the rows that are not empty; infinite for NaN.
  Index row = -1;            ///< The row where it was found, -1 if every sum is exact.
  Index empty_rows = 0;      ///< Rows of zeros: queries that see no key.
  Index negative = 0;        ///< How many weights are below 0.
  double tolerance = 0;
};

/// Tells whether every row of `weights` is a distribution: no weight below 0, and a sum of 1, or a row of
/// zeros for a query that sees no key. tolerance defaults to 8 eps of the scalar type, times the root of
/// (columns / 128) if there are more columns, as rounding grows with the sum. A weight of NaN fails.
template <class W>
RowSumReport rows_sum_to_one(const Eigen::DenseBase<W>& weights, double tolerance = -1) {
  using Scalar = typename W::Scalar;
  static_assert(std::is_floating_point_v<Scalar>,
                "rows_sum_to_one takes float, double or long double: its report is in double");
  RowSumReport report;
  const double terms = (std::max)(1.0, static_cast<double>(weights.cols()) / 128);
  const double eps = static_cast<double>(std::numeric_limits<Scalar>::epsilon());
  report.tolerance = tolerance < 0 ? 8 * eps * std::sqrt(terms) : tolerance;
  for (Index row = 0; row < weights.rows(); ++row) {
    long double sum = 0;
    bool empty = true;
    for (Index col = 0; col < weights.cols(); ++col) {
      const auto weight = static_cast<long double>(weights.derived()(row, col));
      sum += weight;
      empty = empty && !detail::is_nan(weights.derived()(row, col)) && weight == 0;
      if (weight < 0) ++report.negative;
    }
    if (empty) {
      ++report.empty_rows;
      continue;
    }
    double error = static_cast<double>((std::abs)(sum - 1));
    if (detail::is_nan(error)) error = std::numeric_limits<double>::infinity();
    if (error > report.largest_error) {
      report.largest_error = error;
      report.row = row;
    }
  }
  report.passed = report.largest_error <= report.tolerance && report.negative == 0;
  return report;
}

}  // namespace heed
