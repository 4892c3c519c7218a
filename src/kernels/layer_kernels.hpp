#pragma once

// The part of the table that layers around attention use: normalization, activations, losses, dropout and
// optimizers, each on some rows of a matrix. An element's bits depend on its row alone, except where rows are
// summed up: there they follow one another.

#include <cstdint>

#include "kernels/strided.hpp"

namespace heed::kernels {

/// Normalized rows: (x - mean) / sqrt(variance + epsilon) * weight + bias, or without the mean.
template <class T>
struct NormRows {
  Strided<const T> x;       ///< rows x cols.
  Strided<const T> weight;  ///< 1 x cols; data == nullptr: 1.
  Index rows;
  Index cols;
  T epsilon;
  bool centered;  ///< LayerNorm, else RMSNorm.
};

enum class Activation { gelu, gelu_tanh, silu, relu };

/// Where dropout finds its random bits: element (row, col) of a matrix has number row * cols + col of the
/// stream.
struct DropoutStream {
  std::uint32_t key[2];
  std::uint32_t stream[2];
  std::uint32_t threshold;  ///< Elements with smaller numbers are dropped.
};

/// A step of Adam with decoupled decay.
template <class T>
struct AdamStep {
  T rate;
  T decay;  ///< Multiplies the value: rate * weight_decay.
  T beta1;
  T beta2;
  T correction1;  ///< 1 / (1 - beta1^t).
  T correction2;  ///< 1 / sqrt(1 - beta2^t).
  T epsilon;
  T grad_factor;
};

/// A step of gradient descent with momentum.
template <class T>
struct SgdStep {
  T rate;
  T weight_decay;  ///< Added to the gradient.
  T momentum;
  T grad_factor;
};

template <class T>
struct LayerKernels {
  void (*norm)(const NormRows<T>& rows, Strided<const T> bias, Strided<T> out) noexcept;
  /// grad_x = base (data == nullptr: 0) + the gradient; it may be base itself.
  void (*norm_backward)(const NormRows<T>& rows, Strided<const T> grad_out, Strided<const T> base,
                        Strided<T> grad_x) noexcept;
  /// Adds the rows' gradients, row after row; either may be without data: not wanted.
  void (*norm_weight_gradient)(const NormRows<T>& rows, Strided<const T> grad_out, Strided<T> grad_weight,
                               Strided<T> grad_bias) noexcept;
  void (*activation)(Activation kind, Strided<const T> x, Strided<T> out, Index rows, Index cols) noexcept;
  void (*activation_backward)(Activation kind, Strided<const T> x, Strided<const T> grad_out,
                              Strided<T> grad_x, Index rows, Index cols) noexcept;
  /// out = activation(gate) * up
  void (*gated)(Activation kind, Strided<const T> gate, Strided<const T> up, Strided<T> out, Index rows,
                Index cols) noexcept;
  void (*gated_backward)(Activation kind, Strided<const T> gate, Strided<const T> up,
                         Strided<const T> grad_out, Strided<T> grad_gate, Strided<T> grad_up, Index rows,
                         Index cols) noexcept;
  /// Of one row: its largest element, the sum of exp(x - max), and, unless grad has no data, grad =
  /// exp(x - max) / sum * factor.
  void (*softmax_row)(Strided<const T> x, Index cols, Strided<T> grad, T factor, T& max, T& sum) noexcept;
  void (*add)(Strided<const T> a, Strided<const T> b, Strided<T> out, Index rows, Index cols) noexcept;
  void (*scale)(Strided<const T> x, T factor, Strided<T> out, Index rows, Index cols) noexcept;
  /// sums += each row of x, one after another
  void (*column_sums)(Strided<const T> x, Index rows, Index cols, Strided<T> sums) noexcept;
  double (*sum_of_squares)(Strided<const T> x, Index rows, Index cols) noexcept;
  /// out = x * factor where the stream keeps an element, else 0. first_row: of the rows within their matrix.
  void (*dropout)(const DropoutStream& stream, T factor, Strided<const T> x, Strided<T> out, Index first_row,
                  Index rows, Index cols) noexcept;
  /// moments: rows x cols, contiguous.
  void (*adam)(const AdamStep<T>& step, Strided<T> value, Strided<const T> grad, T* first_moment,
               T* second_moment, Index rows, Index cols) noexcept;
  void (*sgd)(const SgdStep<T>& step, Strided<T> value, Strided<const T> grad, T* velocity, Index rows,
              Index cols) noexcept;
};

}  // namespace heed::kernels
