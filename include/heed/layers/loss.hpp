#pragma once

// The loss of scores for classes, and its gradient.
//
//   const double loss = heed::cross_entropy(logits, targets);
//   const auto both = heed::cross_entropy_with_gradient(logits, targets, {.label_smoothing = 0.1});

#include "heed/core/config.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/core/float_bits.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/token.hpp"
#include "heed/layers/detail/engine.hpp"
#include "heed/layers/parameters.hpp"

namespace heed {

/// What becomes of the losses of the rows.
enum class LossReduction {
  mean,  ///< The sum of the losses, divided by the sum of the weights of the targets that count.
  sum,
  none,  ///< Each row keeps its loss.
};

/// What cross_entropy() can do beside the plain mean, each as PyTorch and ONNX define it.
struct CrossEntropyOptions {
  TokenId ignored = kIgnoredTarget;        ///< A row with this target has loss 0 and gradient 0.
  std::vector<double> class_weights = {};  ///< One for each class, not negative; empty: 1 each.
  double label_smoothing = 0;              ///< In [0, 1]: the part of the target that all classes share.
  LossReduction reduction = LossReduction::mean;
};

/// A loss with the losses of the rows and the gradient with respect to the logits.
template <class Scalar>
struct CrossEntropy {
  double loss = 0;             ///< The mean over the rows that count, 0 if none does; or the sum.
  Index counted = 0;           ///< Rows whose target is not ignored.
  std::vector<double> losses;  ///< The weighted loss of each row.
  Matrix<Scalar> grad_logits;  ///< The gradient of the loss; with LossReduction::none, row i is of losses[i].
};

namespace detail {

/// Returns how many targets count. Throws RangeError if one is neither a column nor ignored.
inline Index count_targets(std::span<const TokenId> targets, Index cols, TokenId ignored = kIgnoredTarget) {
  Index counted = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    if (targets[i] < 0 || targets[i] >= cols) {
      throw_range_error("target " + std::to_string(targets[i]) + " at position " + std::to_string(i) +
                        " is no column of the logits, which have " + std::to_string(cols));
    }
    ++counted;
  }
  return counted;
}

/// Returns the sum over rows in ascending order, on whichever threads they were computed, divided by a
/// divisor; 0 if that is 0.
inline double mean_of(std::span<const double> losses, double divisor) {
  if (divisor == 0) return 0;
  double sum = 0;
  for (const double loss : losses) sum += loss;
  if (is_finite(sum)) return sum / divisor;
  // The sum of finite losses may be no number although their mean is one.
  double mean = 0;
  for (const double loss : losses) mean += loss / divisor;
  return mean;
}

inline void check_loss_options(const CrossEntropyOptions& options, Index cols) {
  const std::vector<double>& weights = options.class_weights;
  if (!weights.empty() && std::ssize(weights) != cols) {
    throw_shape_error("there are " + std::to_string(weights.size()) + " class_weights, logits have " +
                      std::to_string(cols) + " columns: one for each is needed");
  }
  for (std::size_t c = 0; c < weights.size(); ++c) {
    if (is_finite(weights[c]) && weights[c] >= 0) continue;
    throw_argument_error("class_weights[" + std::to_string(c) + "] is " + number_text(weights[c]) +
                         ", it must be finite and not negative");
  }
  if (!is_finite(options.label_smoothing) || options.label_smoothing < 0 || options.label_smoothing > 1) {
    throw_argument_error("label_smoothing is " + number_text(options.label_smoothing) +
                         ", it must be in [0, 1]");
  }
  switch (options.reduction) {
    case LossReduction::mean:
    case LossReduction::sum:
    case LossReduction::none:
      return;
  }
  throw_argument_error("reduction is " + std::to_string(static_cast<int>(options.reduction)) +
                       ", it must be mean, sum or none");
}

/// Returns what the mean divides by: the sum of the weights of the targets that count.
inline double weight_of_targets(std::span<const TokenId> targets, const RowLoss& loss) {
  double sum = 0;
  for (const TokenId target : targets) sum += target == loss.ignored ? 0 : loss.weight(target);
  return sum;
}

template <class X>
CrossEntropy<typename X::Scalar> cross_entropy(const Eigen::DenseBase<X>& logits,
                                               std::span<const TokenId> targets,
                                               const CrossEntropyOptions& options, bool with_gradient,
                                               Executor* executor) {
  using Scalar = typename X::Scalar;
  static_assert(detail::require_number<Scalar>());
  static_assert(std::is_floating_point_v<Scalar>,
                "cross_entropy is for float, double and long double: the loss is a double");
  check_loss_options(options, logits.cols());
  if (logits.rows() != static_cast<Index>(targets.size())) {
    throw_shape_error("logits is " + size_text(view(logits)) + ", there are " +
                      std::to_string(targets.size()) + " targets: one for each row is needed");
  }
  CrossEntropy<Scalar> result;
  result.counted = count_targets(targets, logits.cols(), options.ignored);
  result.losses.resize(targets.size());
  if (with_gradient) result.grad_logits.resize(logits.rows(), logits.cols());
  RowLoss loss{options.ignored, 1, options.class_weights.empty() ? nullptr : options.class_weights.data(),
               options.label_smoothing};
  double divisor = 1;
  if (options.reduction == LossReduction::mean) {
    divisor = weight_of_targets(targets, loss);
    if (divisor == 0) {  // Nothing counts: no row is looked at.
      result.grad_logits.setZero();
      return result;
    }
    loss.factor = 1 / divisor;
  }
  Rows<Scalar>::cross_entropy(view(logits), targets.data(), loss, result.losses.data(),
                              with_gradient ? mutable_view(result.grad_logits) : MatrixView<Scalar>{},
                              executor);
  result.loss = mean_of(result.losses, divisor);
  return result;
}

}  // namespace detail

/// Returns the mean over rows of -log softmax(logits)[target], in nats: how surprising the targets are.
/// logits is rows x classes, targets has one class for each row, or kIgnoredTarget. The loss is computed from
/// logits, so that a sure model has a finite loss, never NaN (but for logits that are NaN, or infinite where
/// the target is). If all targets are ignored, the loss is 0. Throws ShapeError or RangeError before any
/// work. Memory: a number for each row.
template <class X>
double cross_entropy(const Eigen::DenseBase<X>& logits, std::span<const TokenId> targets,
                     Executor* executor = nullptr) {
  return detail::cross_entropy(logits, targets, {}, false, executor).loss;
}

/// Returns the loss with class weights, label smoothing, another ignored target or the sum in place of the
/// mean: with weights w and smoothing e a row with target t has the loss -(1 - e) w_t log p_t - e / classes *
/// sum over c of w_c log p_c, and the mean divides by the sum of w_t over the rows that count. Where that sum
/// is 0, the loss is 0. Throws ShapeError or RangeError before any work, ArgumentError for an option out of
/// range, and for LossReduction::none, which has no one number: cross_entropy_with_gradient() returns the
/// losses of the rows.
template <class X>
double cross_entropy(const Eigen::DenseBase<X>& logits, std::span<const TokenId> targets,
                     const CrossEntropyOptions& options, Executor* executor = nullptr) {
  if (options.reduction == LossReduction::none) {
    throw_argument_error(
        "reduction is none: call cross_entropy_with_gradient(), whose losses has one for each row");
  }
  return detail::cross_entropy(logits, targets, options, false, executor).loss;
}

/// Returns the mean loss, the losses of the rows and the gradient with respect to the logits:
/// (softmax(logits) - one at the target) / counted. A row that does not count has gradient 0, whatever its
/// logits are.
template <class X>
CrossEntropy<typename X::Scalar> cross_entropy_with_gradient(const Eigen::DenseBase<X>& logits,
                                                             std::span<const TokenId> targets,
                                                             Executor* executor = nullptr) {
  return detail::cross_entropy(logits, targets, {}, true, executor);
}

/// Returns the loss, the losses of the rows and the gradient, with class weights, label smoothing, another
/// ignored target or another reduction. With LossReduction::none, `loss` is the sum of `losses`.
template <class X>
CrossEntropy<typename X::Scalar> cross_entropy_with_gradient(const Eigen::DenseBase<X>& logits,
                                                             std::span<const TokenId> targets,
                                                             const CrossEntropyOptions& options,
                                                             Executor* executor = nullptr) {
  return detail::cross_entropy(logits, targets, options, true, executor);
}

}  // namespace heed
