#pragma once

// Dropout, which is alike on every machine: heed::dropout(x, {.rate = 0.1, .seed = 1, .stream = step}).

#include "heed/core/config.hpp"

#include <cmath>
#include <string>

#include "heed/core/float_bits.hpp"
#include "heed/layers/detail/engine.hpp"
#include "heed/layers/parameters.hpp"

namespace heed {

namespace detail {

inline void require_rate(double rate) {
  if (!is_finite(rate) || rate < 0 || rate >= 1)
    throw_argument_error("the dropout rate is " + detail::number_text(rate) + ", it must be in [0, 1)");
}

}  // namespace detail

/// Returns x / (1 - rate) where an element is kept, 0 where it is dropped; an element is dropped with
/// probability `rate`, decided by its place, seed and stream alone. The backward pass is this call on the
/// gradient. Scalars are float or double. Throws ArgumentError unless the rate is in [0, 1).
template <class X>
Matrix<typename X::Scalar> dropout(const Eigen::DenseBase<X>& x, const DropoutOptions& options,
                                   Executor* executor = nullptr) {
  using Scalar = typename X::Scalar;
  static_assert(has_kernels<Scalar>, "dropout is for float and double");
  detail::require_rate(options.rate);
  Matrix<Scalar> out(x.rows(), x.cols());
  RowFunctions<Scalar>::dropout(options, view(x), mutable_view(out), 0, executor);
  return out;
}

}  // namespace heed
