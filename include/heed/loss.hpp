#pragma once

#include "heed/config.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/layer_functions.hpp"
#include "heed/parameters.hpp"
#include "heed/token.hpp"

namespace heed {

template <class Scalar>
struct CrossEntropy {
  double loss = 0;             // the mean over the rows that count; 0 if none does
  Index counted = 0;           // how many those are
  Matrix<Scalar> grad_logits;  // of the mean loss
};

namespace detail {

/// How many targets count. Throws RangeError if one is neither a column nor ignored.
inline Index count_targets(std::span<const TokenId> targets, Index cols) {
  Index counted = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored_target) continue;
    if (targets[i] < 0 || targets[i] >= cols) {
      throw_range_error("target " + std::to_string(targets[i]) + " at position " + std::to_string(i) +
                        " is no column of the logits, which have " + std::to_string(cols));
    }
    ++counted;
  }
  return counted;
}

/// One sum over rows in ascending order, whoever computed them.
inline double mean_of(std::span<const double> losses, Index counted) {
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return counted > 0 ? sum / static_cast<double>(counted) : 0;
}

template <class X>
double cross_entropy(const Eigen::DenseBase<X>& logits, std::span<const TokenId> targets,
                     CrossEntropy<typename X::Scalar>& result, bool with_gradient, Executor* executor) {
  using Scalar = typename X::Scalar;
  if (logits.rows() != static_cast<Index>(targets.size())) {
    throw_shape_error("logits is " + size_of(view(logits)) + ", there are " + std::to_string(targets.size()) +
                      " targets: one for each row is needed");
  }
  result.counted = count_targets(targets, logits.cols());
  std::vector<double> losses(targets.size());
  if (with_gradient) result.grad_logits.resize(logits.rows(), logits.cols());
  const double factor = result.counted > 0 ? 1.0 / static_cast<double>(result.counted) : 0;
  Rows<Scalar>::cross_entropy(view(logits), targets.data(), ignored_target, factor, losses.data(),
                              with_gradient ? mutable_view(result.grad_logits) : MatrixView<Scalar>{},
                              executor);
  return result.loss = mean_of(losses, result.counted);
}

}  // namespace detail

/// The mean over rows of -log softmax(logits)[target], in nats: how surprising the targets are. logits is
/// rows x classes, targets has one class for each row, or ignored_target. From logits, so that a sure model
/// has a finite loss, never NaN (but for logits that are NaN, or infinite where the target is). Throws
/// ShapeError or RangeError before any work. Memory: a number for each row.
template <class X>
double cross_entropy(const Eigen::DenseBase<X>& logits, std::span<const TokenId> targets,
                     Executor* executor = nullptr) {
  CrossEntropy<typename X::Scalar> result;
  return detail::cross_entropy(logits, targets, result, false, executor);
}

/// The same with the gradient: (softmax(logits) - one at the target) / counted.
template <class X>
CrossEntropy<typename X::Scalar> cross_entropy_with_gradient(const Eigen::DenseBase<X>& logits,
                                                             std::span<const TokenId> targets,
                                                             Executor* executor = nullptr) {
  CrossEntropy<typename X::Scalar> result;
  detail::cross_entropy(logits, targets, result, true, executor);
  return result;
}

}  // namespace heed
