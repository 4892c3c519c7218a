#pragma once

// The layers around attention as naive loops, any scalar, forward and backward: what RowFunctions computes
// with vectors, one obvious line after another. docs/training.md derives the gradients.

#include "heed/config.hpp"

#include <cmath>
#include <cstdint>

#include "heed/row_functions.hpp"

namespace heed::reference {

/// x weight, where a weight of 0 makes an infinite x 0 too.
template <class T>
T weighted(T x, T weight) {
  return weight == T(0) ? weight : x * weight;
}

/// The value of an activation at one number, and its derivative.
template <class T>
T activation_value(Activation kind, T x) {
  using std::erfc;
  using std::exp;
  using std::sqrt;
  using std::tanh;
  switch (kind) {
    case Activation::gelu:
      return weighted<T>(x, erfc(-x / sqrt(T(2))) / T(2));
    case Activation::gelu_tanh: {
      const T u = T(0.79788456080286535588L) * (x + T(0.044715L) * x * x * x);
      return weighted<T>(x, (T(1) + tanh(u)) / T(2));
    }
    case Activation::silu:
      return weighted<T>(x, T(1) / (T(1) + exp(-x)));
    case Activation::relu:
      break;
  }
  return x <= T(0) ? T(0) : x;
}

template <class T>
T activation_slope(Activation kind, T x) {
  using std::erfc;
  using std::exp;
  using std::sqrt;
  using std::tanh;
  switch (kind) {
    case Activation::gelu:
      return erfc(-x / sqrt(T(2))) / T(2) + weighted<T>(x, exp(-x * x / T(2))) * T(0.39894228040143267794L);
    case Activation::gelu_tanh: {
      const T u = T(0.79788456080286535588L) * (x + T(0.044715L) * x * x * x);
      const T du = T(0.79788456080286535588L) * (T(1) + T(3) * T(0.044715L) * x * x);
      const T t = tanh(u);
      return (T(1) + t) / T(2) + weighted<T>(x * du, T(1) - t * t) / T(2);
    }
    case Activation::silu: {
      const T s = T(1) / (T(1) + exp(-x));
      return s + weighted<T>(x, s * (T(1) - s));
    }
    case Activation::relu:
      break;
  }
  return x > T(0) ? T(1) : x <= T(0) ? T(0) : x;  // NaN is neither
}

/// The functions of RowFunctions for any scalar, but for dropout and sum_of_squares; executors are not used.
template <class T>
struct RowFunctions {
  using Input = MatrixView<const T>;
  using Output = MatrixView<T>;

  /// What normalises row i: (x - mean) * factor.
  struct RowScale {
    T mean = T(0);
    T factor = T(0);

    RowScale(const Input& x, const NormOptions& options, Index i) {
      using std::sqrt;
      const T count = T(x.cols);
      for (Index j = 0; options.centred && j < x.cols; ++j) mean += x(i, j) / count;
      T variance = T(0);
      for (Index j = 0; j < x.cols; ++j) variance += (x(i, j) - mean) * (x(i, j) - mean) / count;
      factor = T(1) / sqrt(variance + T(options.epsilon));
    }
  };

  static T at(const Input& row, Index col, T otherwise) { return row.empty() ? otherwise : row(0, col); }

  static void norm(Input x, Input weight, Input bias, const NormOptions& options, Output out,
                   Executor* = nullptr) {
    for (Index i = 0; i < x.rows; ++i) {
      const RowScale scale(x, options, i);
      for (Index j = 0; j < x.cols; ++j)
        out(i, j) = (x(i, j) - scale.mean) * scale.factor * at(weight, j, T(1)) + at(bias, j, T(0));
    }
  }

  static void norm_backward(Input x, Input weight, const NormOptions& options, Input grad_out, Input base,
                            Output grad_x, Executor* = nullptr) {
    const T count = T(x.cols);
    for (Index i = 0; i < x.rows; ++i) {
      const RowScale scale(x, options, i);
      T mean = T(0);
      T slope = T(0);
      for (Index j = 0; j < x.cols; ++j) {
        const T n = (x(i, j) - scale.mean) * scale.factor;
        const T g = grad_out(i, j) * at(weight, j, T(1));
        if (options.centred) mean += g / count;
        slope += g * n / count;
      }
      for (Index j = 0; j < x.cols; ++j) {
        const T n = (x(i, j) - scale.mean) * scale.factor;
        const T g = grad_out(i, j) * at(weight, j, T(1));
        grad_x(i, j) = (base.empty() ? T(0) : base(i, j)) + scale.factor * (g - mean - n * slope);
      }
    }
  }

  static void norm_weight_gradient(Input x, const NormOptions& options, Input grad_out, Output grad_weight,
                                   Output grad_bias) {
    for (Index i = 0; i < x.rows; ++i) {
      const RowScale scale(x, options, i);
      for (Index j = 0; j < x.cols; ++j) {
        if (!grad_weight.empty()) grad_weight(0, j) += grad_out(i, j) * (x(i, j) - scale.mean) * scale.factor;
        if (!grad_bias.empty()) grad_bias(0, j) += grad_out(i, j);
      }
    }
  }

  static void activation(Activation kind, Input x, Output out, Executor* = nullptr) {
    for (Index i = 0; i < x.rows; ++i) {
      for (Index j = 0; j < x.cols; ++j) out(i, j) = activation_value<T>(kind, x(i, j));
    }
  }

  static void activation_backward(Activation kind, Input x, Input grad_out, Output grad_x,
                                  Executor* = nullptr) {
    for (Index i = 0; i < x.rows; ++i) {
      for (Index j = 0; j < x.cols; ++j) grad_x(i, j) = grad_out(i, j) * activation_slope<T>(kind, x(i, j));
    }
  }

  static void gated(Activation kind, Input gate, Input up, Output out, Executor* = nullptr) {
    for (Index i = 0; i < gate.rows; ++i) {
      for (Index j = 0; j < gate.cols; ++j) out(i, j) = activation_value<T>(kind, gate(i, j)) * up(i, j);
    }
  }

  static void gated_backward(Activation kind, Input gate, Input up, Input grad_out, Output grad_gate,
                             Output grad_up, Executor* = nullptr) {
    for (Index i = 0; i < gate.rows; ++i) {
      for (Index j = 0; j < gate.cols; ++j) {
        const T g = grad_out(i, j);
        const T value = activation_value<T>(kind, gate(i, j));
        grad_gate(i, j) = g * up(i, j) * activation_slope<T>(kind, gate(i, j));
        grad_up(i, j) = g * value;
      }
    }
  }

  static void cross_entropy(Input logits, const std::int32_t* targets, std::int32_t ignored, double factor,
                            double* losses, Output grad, Executor* = nullptr) {
    using std::exp;
    using std::log;
    for (Index i = 0; i < logits.rows; ++i) {
      if (targets[i] == ignored) {
        losses[i] = 0;
        for (Index j = 0; j < grad.cols; ++j) grad(i, j) = T(0);
        continue;
      }
      const T logit = logits(i, targets[i]);
      T max = logits(i, 0);
      for (Index j = 1; j < logits.cols; ++j) max = logits(i, j) > max ? logits(i, j) : max;
      T sum = T(0);
      for (Index j = 0; j < logits.cols; ++j) sum += exp(logits(i, j) - max);
      losses[i] = static_cast<double>(log(sum) + (max - logit));
      for (Index j = 0; j < grad.cols; ++j) {
        const T softmax = exp(logits(i, j) - max) / sum;
        grad(i, j) = T(factor) * (softmax - (j == targets[i] ? T(1) : T(0)));
      }
    }
  }

  static void add(Input a, Input b, Output out, Executor* = nullptr) {
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < a.cols; ++j) out(i, j) = a(i, j) + b(i, j);
    }
  }

  static void scale(Input x, T factor, Output out, Executor* = nullptr) {
    for (Index i = 0; i < x.rows; ++i) {
      for (Index j = 0; j < x.cols; ++j) out(i, j) = factor * x(i, j);
    }
  }

  static void column_sums(Input x, Output sums) {
    for (Index i = 0; i < x.rows; ++i) {
      for (Index j = 0; j < x.cols; ++j) sums(0, j) += x(i, j);
    }
  }

  static void gather(Input table, const std::int32_t* ids, Output out) {
    for (Index i = 0; i < out.rows; ++i) {
      for (Index j = 0; j < out.cols; ++j) out(i, j) = table(ids[i], j);
    }
  }

  static void scatter_add(Input grad_out, const std::int32_t* ids, Output grad_table) {
    for (Index i = 0; i < grad_out.rows; ++i) {
      for (Index j = 0; j < grad_out.cols; ++j) grad_table(ids[i], j) += grad_out(i, j);
    }
  }
};

}  // namespace heed::reference
