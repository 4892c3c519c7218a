#pragma once

// The layers around attention on views instead of Eigen matrices, forward and backward: what the layer
// classes (norm.hpp, feed_forward.hpp, loss.hpp, ...) and the training of gpt_trainer.hpp are made of.

#include "heed/core/config.hpp"

#include <cstdint>

#include "heed/core/executor.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/view.hpp"
#include "heed/layers/options.hpp"

namespace heed {

/// What the loss of a row is made of.
struct RowLoss {
  std::int32_t ignored;                   ///< The target that asks for nothing.
  double factor = 1;                      ///< Multiplies the gradient.
  const double* class_weights = nullptr;  ///< One for each column of logits; nullptr: 1 each.
  double label_smoothing = 0;             ///< The part of the target that all classes share, in [0, 1].

  double weight(Index column) const { return class_weights == nullptr ? 1 : class_weights[column]; }
  /// Returns how much log p_t and log p_c of every c count in the loss.
  double of_target(Index target) const { return (1 - label_smoothing) * weight(target); }
  double of_class(Index column, Index cols) const {
    return label_smoothing / static_cast<double>(cols) * weight(column);
  }
  bool leaves_out(std::int32_t target) const {
    return target == ignored || (label_smoothing == 0 && weight(target) == 0);
  }
};

/// T is float or double. Views have the sizes that the comments give; nothing is checked. Any strides.
/// A row of grad_out that is 0 throughout is one that nothing depends on, such as padding: its gradient is 0
/// and it adds none to weights, whatever the other arguments hold in that row, NaN included.
/// Nothing is allocated, and nothing thrown but the ArgumentError of isa() for an unknown HEED_ISA, before
/// anything is written. A row's bits depend on that row alone, a sum over rows is one chain over ascending
/// rows: no bit depends on the number of threads. An output may be an input itself, but may not overlap one
/// in another way. Threads: the caller's, or the executor's.
template <class T>
struct HEED_EXPORT RowFunctions {
  static_assert(detail::require_kernels<T>());

  using Input = MatrixView<const T>;
  using Output = MatrixView<T>;

  /// Computes out = normalized x, times weight, plus bias (each 1 x cols, or empty).
  static void norm(Input x, Input weight, Input bias, const NormOptions& options, Output out,
                   Executor* executor = nullptr);

  /// Computes grad_x = base (or 0, if it is empty) + the gradient with respect to x.
  static void norm_backward(Input x, Input weight, const NormOptions& options, Input grad_out, Input base,
                            Output grad_x, Executor* executor = nullptr);

  /// Adds the gradients of weight and bias (1 x cols, or empty: not wanted).
  static void norm_weight_gradient(Input x, const NormOptions& options, Input grad_out, Output grad_weight,
                                   Output grad_bias);

  /// Computes out = f(x), element by element.
  static void activation(Activation kind, Input x, Output out, Executor* executor = nullptr);

  /// Computes grad_x = grad_out f'(x).
  static void activation_backward(Activation kind, Input x, Input grad_out, Output grad_x,
                                  Executor* executor = nullptr);

  /// Computes out = f(gate) up, element by element: with silu SwiGLU (Shazeer 2020).
  static void gated(Activation kind, Input gate, Input up, Output out, Executor* executor = nullptr);

  /// Computes grad_gate = grad_out up f'(gate) and grad_up = grad_out f(gate).
  static void gated_backward(Activation kind, Input gate, Input up, Input grad_out, Output grad_gate,
                             Output grad_up, Executor* executor = nullptr);

  /// Computes the loss of each row, -(1 - label_smoothing) w_t log p_t - label_smoothing / cols * sum over c
  /// of w_c log p_c, with p the softmax of its logits, t its target and w the class weights, from logits, so
  /// that nothing underflows. A row whose target is ignored, or has weight 0 where nothing is smoothed, has
  /// loss 0 and gradient 0, whatever is in it. grad (as logits, or empty: not wanted) = factor * the gradient
  /// of the row's loss. targets and losses: as many as rows. Other targets are columns of logits.
  static void cross_entropy(Input logits, const std::int32_t* targets, const RowLoss& loss, double* losses,
                            Output grad, Executor* executor = nullptr);

  /// Returns true if row `row` of grad_out is 0 while x holds NaN or infinity there: a product of the two
  /// would be NaN, where the row adds nothing.
  static bool adds_nothing(Input x, Input grad_out, Index row) noexcept;

  /// Computes out = a + b.
  static void add(Input a, Input b, Output out, Executor* executor = nullptr);

  /// Returns the sum of the squares of all elements, summed up row by row; infinite or 0 where a square is
  /// beyond all numbers or below the smallest.
  static double sum_of_squares(Input x);

  /// Adds the sum of the rows of x to sums (1 x cols): the gradient of a bias.
  static void column_sums(Input x, Output sums);

  /// Copies row ids[i] of table to row i of out.
  static void gather(Input table, const std::int32_t* ids, Output out) noexcept;

  /// Adds row i of grad_out to row ids[i] of grad_table, one after another.
  static void scatter_add(Input grad_out, const std::int32_t* ids, Output grad_table);

  /// Computes out = x / (1 - rate) where an element is kept, else 0 (Srivastava et al. 2014). The backward
  /// pass is this call on gradients. x may be some rows of a matrix, from first_row on.
  static void dropout(const DropoutOptions& options, Input x, Output out, Index first_row = 0,
                      Executor* executor = nullptr);
};

extern template struct RowFunctions<float>;
extern template struct RowFunctions<double>;

}  // namespace heed
