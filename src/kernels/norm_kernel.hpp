#pragma once

// Layer normalization (Ba et al. 2016) and root mean square normalization (Zhang and Sennrich 2019), with
// their gradients.

#include "kernels/layer_kernels.hpp"
#include "kernels/row_packets.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// What a row is normalized by: (x - shift - rest) * factor.
template <class T>
struct RowScale {
  T shift;
  T rest;  ///< What the rounded mean lacks: where the mean is large, it has the digits that count.
  T size;  ///< Variance + epsilon.
  T factor;
};

/// A row as it is.
template <class T>
struct PlainRow {
  const T* x;
  Index step;
  Index cols;

  bool contiguous() const { return step == 1; }
  template <class Access>
  HEED_ROW_INLINE Packet<T> at(Access access, Index col) const {
    return access.load_at(x, step, col, cols);
  }
  Packet<T> gradient(const Packet<T>& grad) const { return grad; }
};

/// A row times a power of two, which changes no digit.
template <class T>
struct ScaledRow {
  PlainRow<T> plain;
  T power;

  bool contiguous() const { return plain.contiguous(); }
  template <class Access>
  HEED_ROW_INLINE Packet<T> at(Access access, Index col) const {
    return packet::pmul(plain.at(access, col), broadcast<T>(power));
  }
  /// The gradient with respect to x, from that with respect to x * power.
  Packet<T> gradient(const Packet<T>& grad) const { return packet::pmul(grad, broadcast<T>(power)); }
};

/// With a mean that is nearly the row's: how far the elements are from it, on average (what rounding left
/// over) and squared. The variance is taken of the elements themselves, divided by their number.
template <class T, class Row>
inline RowScale<T> row_spread(const Row& row, Index cols, T mean, T epsilon, bool centered) {
  const T count = static_cast<T>(cols);
  Packet<T> rest = broadcast<T>(T(0));
  Packet<T> squares = rest;
  over_packets<T>(row.contiguous(), cols, [&](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
    const Packet<T> d = inside<T>(packet::psub(row.at(access, col), broadcast<T>(mean)), col, cols);
    rest = packet::padd(rest, d);
    squares = packet::pmadd(d, d, squares);
  });
  const T correction = centered ? packet::predux(rest) / count : T(0);
  const T variance = packet::predux(squares) / count - correction * correction;
  const T size = (variance > T(0) ? variance : variance * T(0)) + epsilon;
  return {mean, correction, size, T(1) / root(size)};
}

/// 1. the mean; 2. the spread around it.
template <class T, class Row>
inline RowScale<T> row_scale(const Row& row, Index cols, T epsilon, bool centered) {
  T mean = T(0);
  if (centered) {
    Packet<T> sum = broadcast<T>(T(0));
    over_packets<T>(row.contiguous(), cols, [&](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
      sum = packet::padd(sum, row.at(access, col));
    });
    mean = packet::predux(sum) / static_cast<T>(cols);
  }
  return row_spread(row, cols, mean, epsilon, centered);
}

/// True if no sum or square has overflown or lost its digits below the smallest number, and the mean is good
/// enough for the spread around it.
template <class T>
inline bool holds(const RowScale<T>& scale) {
  constexpr T least = FloatTraits<T>::power_of_two(-static_cast<int>(FloatTraits<T>::exponent_bias) * 3 / 4);
  return scale.size >= least && scale.size < FloatTraits<T>::infinity &&
         scale.rest * scale.rest <= scale.size;
}

/// The power of two that takes the larger of the row and the root of epsilon to 2^20: squares and their sums
/// are then far from both ends.
template <class T>
inline T scaling_power(const PlainRow<T>& row, T epsilon) {
  T largest = root(epsilon);
  for (Index col = 0; col < row.cols; ++col) {
    const T x = row.x[col * row.step];
    largest = x > largest ? x : -x > largest ? -x : largest;
  }
  constexpr int wanted = 20;
  constexpr int highest = static_cast<int>(FloatTraits<T>::exponent_bias);
  const int exponent = wanted - FloatTraits<T>::exponent_of(largest);
  return FloatTraits<T>::power_of_two(exponent < highest ? exponent : highest);
}

/// A row and what normalizes it.
template <class T>
struct ScaledNorm {
  ScaledRow<T> row;
  RowScale<T> scale;
};

/// A norm does not depend on the scale of its row: one whose squares are no numbers is normalized times a
/// power of two, epsilon times its square. The mean is taken twice: what the first lacks would be all that is
/// left of a row of equal elements.
template <class T>
inline ScaledNorm<T> scaled_norm(const PlainRow<T>& plain, T epsilon, bool centered) {
  constexpr T least = FloatTraits<T>::power_of_two(1 - static_cast<int>(FloatTraits<T>::exponent_bias));
  const ScaledRow<T> row{plain, scaling_power(plain, epsilon)};
  const T scaled = epsilon * row.power * row.power;
  const T own = scaled > least ? scaled : least;
  const RowScale<T> first = row_scale(row, plain.cols, own, centered);
  return {row, row_spread(row, plain.cols, first.shift + first.rest, own, centered)};
}

template <class T>
inline Packet<T> normalized(const Packet<T>& x, const RowScale<T>& scale) {
  const Packet<T> distance =
      packet::psub(packet::psub(x, broadcast<T>(scale.shift)), broadcast<T>(scale.rest));
  return packet::pmul(distance, broadcast<T>(scale.factor));
}

/// Packet `col` of a row of weights, 1 where there are none.
template <class T, class Access>
HEED_ROW_INLINE Packet<T> weight_at(Access access, const NormRows<T>& rows, Index col) {
  if (rows.weight.data == nullptr) return broadcast<T>(T(1));
  return access.load_at(rows.weight.data, rows.weight.col_stride, col, rows.cols);
}

template <class T>
inline bool contiguous_or_none(const Strided<T>& row) {
  return row.data == nullptr || row.col_stride == 1;
}

// Each function below has its loop over one row, for rows as they are and, apart from the hot code, for those
// that are scaled.
#define HEED_COLD __attribute__((noinline, cold))

template <class T, class Row>
HEED_ROW_INLINE void norm_row(const NormRows<T>& rows, const Row& row, const RowScale<T>& scale,
                              Strided<const T> bias, T* out, Index out_step) {
  const Index cols = rows.cols;
  const bool contiguous =
      row.contiguous() && contiguous_or_none(rows.weight) && contiguous_or_none(bias) && out_step == 1;
  over_packets<T>(contiguous, cols, [&](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
    Packet<T> y = packet::pmul(normalized<T>(row.at(access, col), scale), weight_at(access, rows, col));
    if (bias.data != nullptr) y = packet::padd(y, access.load_at(bias.data, bias.col_stride, col, cols));
    access.store_at(y, out, out_step, col, cols);
  });
}

template <class T>
HEED_COLD void norm_scaled_row(const NormRows<T>& rows, const PlainRow<T>& row, Strided<const T> bias, T* out,
                               Index out_step) {
  const ScaledNorm<T> scaled = scaled_norm(row, rows.epsilon, rows.centered);
  norm_row(rows, scaled.row, scaled.scale, bias, out, out_step);
}

template <class T>
void norm(const NormRows<T>& rows, Strided<const T> bias, Strided<T> out) noexcept {
  for (Index index = 0; index < rows.rows; ++index) {
    const PlainRow<T> row{rows.x.row(index), rows.x.col_stride, rows.cols};
    const RowScale<T> scale = row_scale(row, rows.cols, rows.epsilon, rows.centered);
    if (holds(scale)) {
      norm_row(rows, row, scale, bias, out.row(index), out.col_stride);
    } else {
      norm_scaled_row(rows, row, bias, out.row(index), out.col_stride);
    }
  }
}

/// A row of gradients: of what comes out of the norm, and of its input.
template <class T>
struct GradientRow {
  const T* grad_out;
  Index grad_out_step;
  const T* base;  ///< nullptr: 0.
  Index base_step;
  T* grad_x;
  Index grad_x_step;

  bool contiguous() const {
    return grad_out_step == 1 && (base == nullptr || base_step == 1) && grad_x_step == 1;
  }
  template <class Access>
  HEED_ROW_INLINE void write(Access access, Packet<T> result, Index col, Index cols) const {
    if (base != nullptr) result = packet::padd(access.load_at(base, base_step, col, cols), result);
    access.store_at(result, grad_x, grad_x_step, col, cols);
  }
};

/// With n for the normalized row and g for grad_out * weight: grad_x = factor * (g - mean(g) - n * mean(g *
/// n)), without mean(g) where no mean was taken off.
template <class T, class Row>
HEED_ROW_INLINE void norm_backward_row(const NormRows<T>& rows, const Row& row, const RowScale<T>& scale,
                                       const GradientRow<T>& to) {
  const Index cols = rows.cols;
  const T count = static_cast<T>(cols);
  const bool contiguous = row.contiguous() && contiguous_or_none(rows.weight) && to.contiguous();
  const auto normal = [&](auto access, Index col)
                          HEED_ROW_INLINE_LAMBDA { return normalized<T>(row.at(access, col), scale); };
  const auto weighted = [&](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
    return packet::pmul(access.load_at(to.grad_out, to.grad_out_step, col, cols),
                        weight_at(access, rows, col));
  };
  Packet<T> sum = broadcast<T>(T(0));
  Packet<T> product = sum;
  over_packets<T>(contiguous, cols, [&](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
    const Packet<T> g = weighted(access, col);
    sum = packet::padd(sum, g);  // beyond the row's end g is 0
    product = packet::pmadd(g, normal(access, col), product);
  });
  const Packet<T> mean = broadcast<T>(rows.centered ? packet::predux(sum) / count : T(0));
  const Packet<T> slope = broadcast<T>(packet::predux(product) / count);
  over_packets<T>(contiguous, cols, [&](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
    const Packet<T> g = weighted(access, col);
    const Packet<T> d = packet::psub(packet::psub(g, mean), packet::pmul(normal(access, col), slope));
    to.write(access, row.gradient(packet::pmul(d, broadcast<T>(scale.factor))), col, cols);
  });
}

template <class T>
HEED_COLD void norm_backward_scaled_row(const NormRows<T>& rows, const PlainRow<T>& row,
                                        const GradientRow<T>& to) {
  const ScaledNorm<T> scaled = scaled_norm(row, rows.epsilon, rows.centered);
  norm_backward_row(rows, scaled.row, scaled.scale, to);
}

/// A row of grad_out that is 0 is one that nothing depends on: its gradient is 0 and it adds none, whatever x
/// holds there.
template <class T>
void norm_backward(const NormRows<T>& rows, Strided<const T> grad_out, Strided<const T> base,
                   Strided<T> grad_x) noexcept {
  for (Index index = 0; index < rows.rows; ++index) {
    const GradientRow<T> to{
        grad_out.row(index), grad_out.col_stride, base.data == nullptr ? nullptr : base.row(index),
        base.col_stride,     grad_x.row(index),   grad_x.col_stride};
    if (is_zero_row(to.grad_out, to.grad_out_step, rows.cols)) {
      for (Index col = 0; col < rows.cols; col += kLanes<T>)
        to.write(Part(), broadcast<T>(T(0)), col, rows.cols);
      continue;
    }
    const PlainRow<T> row{rows.x.row(index), rows.x.col_stride, rows.cols};
    const RowScale<T> scale = row_scale(row, rows.cols, rows.epsilon, rows.centered);
    if (holds(scale)) {
      norm_backward_row(rows, row, scale, to);
    } else {
      norm_backward_scaled_row(rows, row, to);
    }
  }
}

template <class T, class Row>
HEED_ROW_INLINE void norm_weight_row(const Row& row, const RowScale<T>& scale, Index cols, const T* grad,
                                     Index grad_step, Strided<T> grad_weight, Strided<T> grad_bias) {
  const bool contiguous =
      row.contiguous() && grad_step == 1 && contiguous_or_none(grad_weight) && contiguous_or_none(grad_bias);
  over_packets<T>(contiguous, cols, [&](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
    const Packet<T> g = access.load_at(grad, grad_step, col, cols);
    const auto add = [&](const Strided<T>& sums, const Packet<T>& term) HEED_ROW_INLINE_LAMBDA {
      if (sums.data == nullptr) return;
      const Packet<T> before = access.load_at(static_cast<const T*>(sums.data), sums.col_stride, col, cols);
      access.store_at(packet::padd(before, term), sums.data, sums.col_stride, col, cols);
    };
    add(grad_weight, packet::pmul(g, normalized<T>(row.at(access, col), scale)));
    add(grad_bias, g);
  });
}

template <class T>
HEED_COLD void norm_weight_scaled_row(const NormRows<T>& rows, const PlainRow<T>& row, const T* grad,
                                      Index grad_step, Strided<T> grad_weight, Strided<T> grad_bias) {
  const ScaledNorm<T> scaled = scaled_norm(row, rows.epsilon, rows.centered);
  norm_weight_row(scaled.row, scaled.scale, rows.cols, grad, grad_step, grad_weight, grad_bias);
}

template <class T>
void norm_weight_gradient(const NormRows<T>& rows, Strided<const T> grad_out, Strided<T> grad_weight,
                          Strided<T> grad_bias) noexcept {
  for (Index index = 0; index < rows.rows; ++index) {
    const T* const grad = grad_out.row(index);
    const Index step = grad_out.col_stride;
    if (is_zero_row(grad, step, rows.cols)) continue;
    const PlainRow<T> row{rows.x.row(index), rows.x.col_stride, rows.cols};
    const RowScale<T> scale = row_scale(row, rows.cols, rows.epsilon, rows.centered);
    if (holds(scale)) {
      norm_weight_row(row, scale, rows.cols, grad, step, grad_weight, grad_bias);
    } else {
      norm_weight_scaled_row(rows, row, grad, step, grad_weight, grad_bias);
    }
  }
}

#undef HEED_COLD

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
