#pragma once

// The layers around attention as naive loops, any scalar, forward and backward: what RowFunctions computes
// with vectors, one obvious line after another. docs/training.md derives the gradients.

#include "heed/core/config.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "heed/core/scalar.hpp"
#include "heed/layers/rows.hpp"

namespace heed::reference {

/// Returns x weight, where a weight of 0 makes an infinite x 0 too.
template <class T>
T weighted(T x, T weight) {
  return weight == T(0) ? weight : x * weight;
}

/// True for scalars that have a complementary error function of their own.
template <class T>
concept HasErfc = std::is_floating_point_v<T>;

/// Returns Phi(x), the normal distribution. Where there is no erfc: by its continued fraction where x is far
/// from 0 (Laplace), else by its series (Marsaglia 2004), so that any scalar with an exponential has it.
template <class T>
T normal_distribution(const T& x) {
  using std::erfc;
  using std::exp;
  using std::sqrt;
  if constexpr (HasErfc<T>) {
    return erfc(-x / sqrt(T(2))) / T(2);
  } else {
    const T density = exp(-x * x / T(2)) * detail::number<T>(0.39894228040143267794L);
    const T size = x < T(0) ? T(-x) : x;
    if (size > T(2)) {
      constexpr int terms = 120;
      T fraction = size;
      for (int k = terms; k > 0; --k) fraction = size + detail::number<T>(k) / fraction;
      const T tail = density / fraction;
      return x < T(0) ? tail : T(T(1) - tail);
    }
    constexpr int terms = 40;  // 2^81 / 81!! is below any rounding error
    T term = x;
    T sum = x;
    for (int k = 1; k < terms; ++k) {
      term *= x * x / detail::number<T>(2 * k + 1);
      sum += term;
    }
    return detail::number<T>(0.5) + density * sum;
  }
}

/// Returns the value of an activation at one number, and its derivative.
template <class T>
T activation_value(Activation kind, T x) {
  using std::exp;
  switch (kind) {
    case Activation::gelu:
      return weighted<T>(x, normal_distribution<T>(x));
    case Activation::gelu_tanh: {
      // x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)), which keeps its digits where tanh(u) is near -1.
      const T u = detail::number<T>(0.79788456080286535588L) * (x + detail::number<T>(0.044715L) * x * x * x);
      if (!(u < T(0))) return x / (T(1) + exp(T(-2) * u));
      const T half = exp(u);
      return weighted<T>(weighted<T>(x, half) / (T(1) + half * half), half);
    }
    case Activation::silu: {
      if (!(x < T(0))) return x / (T(1) + exp(-x));
      // exp(x) in two halves: x exp(x) is a number where exp(x) is none any more.
      const T half = exp(x / T(2));
      return weighted<T>(weighted<T>(x, half) / (T(1) + half * half), half);
    }
    case Activation::relu:
      break;
  }
  return x <= T(0) ? T(0) : x;
}

template <class T>
T activation_slope(Activation kind, T x) {
  using std::exp;
  switch (kind) {
    case Activation::gelu:
      return normal_distribution<T>(x) +
             weighted<T>(x, exp(-x * x / T(2))) * detail::number<T>(0.39894228040143267794L);
    case Activation::gelu_tanh: {
      const T u = detail::number<T>(0.79788456080286535588L) * (x + detail::number<T>(0.044715L) * x * x * x);
      const T du =
          detail::number<T>(0.79788456080286535588L) * (T(1) + T(3) * detail::number<T>(0.044715L) * x * x);
      const T e = exp(T(u < T(0) ? T(2) * u : T(-2) * u));
      const T large = T(1) / (T(1) + e);
      const T s = u < T(0) ? T(e * large) : large;
      return s + weighted<T>(T(2) * x * du, s * (u < T(0) ? large : T(e * large)));
    }
    case Activation::silu: {
      const T e = exp(x < T(0) ? x : T(-x));
      const T large = T(1) / (T(1) + e);
      const T s = x < T(0) ? T(e * large) : large;
      return s + weighted<T>(x, s * (x < T(0) ? large : T(e * large)));
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

  /// What normalizes row i: (x power - mean) * factor.
  struct RowScale {
    T power = T(1);
    T mean = T(0);
    T rest = T(0);  // what rounding took from the mean
    T size = T(0);  // variance + epsilon
    T factor = T(0);

    RowScale(const Input& x, const NormOptions& options, Index i) {
      find(x, options, i, detail::number<T>(options.epsilon), false);
      // A norm does not depend on the scale of its row: where squares overflow, or lose their digits below
      // the smallest number, the row is taken times a power of two that makes its elements ordinary numbers.
      // Where more was taken from the mean than the elements are apart, as where all are equal, it is put
      // back.
      const T least = (std::numeric_limits<T>::min)() / std::numeric_limits<T>::epsilon();
      if (size >= least && size <= (std::numeric_limits<T>::max)() && T(2) * rest * rest <= size) return;
      T largest = root_of_epsilon(options);
      for (Index j = 0; j < x.cols; ++j) {
        if (x(i, j) > largest) largest = x(i, j);
        if (-x(i, j) > largest) largest = -x(i, j);
      }
      if (!(largest <= (std::numeric_limits<T>::max)())) return;
      while (largest * power > T(0x1p20)) power *= T(0.5);
      while (largest * power < T(1)) power *= T(2);
      const T epsilon = detail::number<T>(options.epsilon) * power * power;
      const T least_epsilon = (std::numeric_limits<T>::min)();
      find(x, options, i, epsilon > least_epsilon ? epsilon : least_epsilon, true);
    }

    static T root_of_epsilon(const NormOptions& options) {
      using std::sqrt;
      return sqrt(detail::number<T>(options.epsilon));
    }

    void find(const Input& x, const NormOptions& options, Index i, const T& epsilon, bool whole_mean) {
      using std::sqrt;
      const T count = detail::number<T>(x.cols);
      mean = T(0);
      rest = T(0);
      for (Index j = 0; options.centered && j < x.cols; ++j) mean += x(i, j) * power / count;
      for (Index j = 0; options.centered && j < x.cols; ++j) rest += distance(x, i, j) / count;
      if (whole_mean) mean += rest;
      T variance = T(0);
      for (Index j = 0; j < x.cols; ++j) variance += distance(x, i, j) * distance(x, i, j) / count;
      size = variance + epsilon;
      factor = T(1) / sqrt(size);
    }

    T distance(const Input& x, Index i, Index j) const { return x(i, j) * power - mean; }
    T normalized(const Input& x, Index i, Index j) const { return distance(x, i, j) * factor; }
  };

  /// Returns true if row `row` of grad_out is 0: nothing depends on the row, and what comes of x there, NaN
  /// perhaps, is left out. A scalar that carries derivatives may have some beside a value of 0, so that there
  /// only NaN and infinity in x are left out.
  static bool adds_nothing(const Input& x, const Input& grad_out, Index row) {
    for (Index j = 0; j < grad_out.cols; ++j) {
      if (!(grad_out(row, j) == T(0))) return false;
    }
    if constexpr (std::is_floating_point_v<T>) return true;
    for (Index j = 0; j < x.cols; ++j) {
      if (!(x(row, j) - x(row, j) == T(0))) return true;
    }
    return false;
  }

  static T at(const Input& row, Index col, T otherwise) { return row.empty() ? otherwise : row(0, col); }

  static void norm(Input x, Input weight, Input bias, const NormOptions& options, Output out,
                   Executor* = nullptr) {
    for (Index i = 0; i < x.rows; ++i) {
      const RowScale scale(x, options, i);
      for (Index j = 0; j < x.cols; ++j)
        out(i, j) = scale.normalized(x, i, j) * at(weight, j, T(1)) + at(bias, j, T(0));
    }
  }

  static void norm_backward(Input x, Input weight, const NormOptions& options, Input grad_out, Input base,
                            Output grad_x, Executor* = nullptr) {
    const T count = detail::number<T>(x.cols);
    for (Index i = 0; i < x.rows; ++i) {
      if (adds_nothing(x, grad_out, i)) {
        for (Index j = 0; j < x.cols; ++j) grad_x(i, j) = base.empty() ? T(0) : base(i, j);
        continue;
      }
      const RowScale scale(x, options, i);
      T mean = T(0);
      T slope = T(0);
      for (Index j = 0; j < x.cols; ++j) {
        const T n = scale.normalized(x, i, j);
        const T g = grad_out(i, j) * at(weight, j, T(1));
        if (options.centered) mean += g / count;
        slope += g * n / count;
      }
      for (Index j = 0; j < x.cols; ++j) {
        const T n = scale.normalized(x, i, j);
        const T g = grad_out(i, j) * at(weight, j, T(1));
        grad_x(i, j) =
            (base.empty() ? T(0) : base(i, j)) + scale.factor * (g - mean - n * slope) * scale.power;
      }
    }
  }

  static void norm_weight_gradient(Input x, const NormOptions& options, Input grad_out, Output grad_weight,
                                   Output grad_bias) {
    for (Index i = 0; i < x.rows; ++i) {
      if (adds_nothing(x, grad_out, i)) continue;
      const RowScale scale(x, options, i);
      for (Index j = 0; j < x.cols; ++j) {
        if (!grad_weight.empty()) grad_weight(0, j) += grad_out(i, j) * scale.normalized(x, i, j);
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
      const bool idle = adds_nothing(x, grad_out, i);
      for (Index j = 0; j < x.cols; ++j)
        grad_x(i, j) = idle ? T(0) : T(grad_out(i, j) * activation_slope<T>(kind, x(i, j)));
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
      const bool idle = adds_nothing(gate, grad_out, i) || adds_nothing(up, grad_out, i);
      for (Index j = 0; j < gate.cols; ++j) {
        if (idle) {
          grad_gate(i, j) = grad_up(i, j) = T(0);
          continue;
        }
        const T g = grad_out(i, j);
        const T value = activation_value<T>(kind, gate(i, j));
        grad_gate(i, j) = g * up(i, j) * activation_slope<T>(kind, gate(i, j));
        grad_up(i, j) = g * value;
      }
    }
  }

  static void cross_entropy(Input logits, const std::int32_t* targets, const RowLoss& loss, double* losses,
                            Output grad, Executor* = nullptr) {
    using std::exp;
    using std::log;
    for (Index i = 0; i < logits.rows; ++i) {
      if (loss.leaves_out(targets[i])) {
        losses[i] = 0;
        for (Index j = 0; j < grad.cols; ++j) grad(i, j) = T(0);
        continue;
      }
      const T logit = logits(i, targets[i]);
      T max = logits(i, 0);
      for (Index j = 1; j < logits.cols; ++j) max = logits(i, j) > max ? logits(i, j) : max;
      T sum = T(0);
      for (Index j = 0; j < logits.cols; ++j) sum += exp(logits(i, j) - max);
      const T of_target = T(loss.of_target(targets[i]));
      T row_loss = of_target > T(0) ? of_target * (log(sum) + (max - logit)) : T(0);
      T weight = of_target;  // of all that the loss counts
      for (Index j = 0; loss.label_smoothing > 0 && j < logits.cols; ++j) {
        const T own = T(loss.of_class(j, logits.cols));
        weight += own;
        if (own > T(0)) row_loss += own * (log(sum) + (max - logits(i, j)));
      }
      losses[i] = static_cast<double>(row_loss);
      for (Index j = 0; j < grad.cols; ++j) {
        const T softmax = exp(logits(i, j) - max) / sum;
        const T wanted = (j == targets[i] ? of_target : T(0)) +
                         (loss.label_smoothing > 0 ? T(loss.of_class(j, logits.cols)) : T(0));
        grad(i, j) = T(loss.factor) * (weight * softmax - wanted);
      }
    }
  }

  static void add(Input a, Input b, Output out, Executor* = nullptr) {
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < a.cols; ++j) out(i, j) = a(i, j) + b(i, j);
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
