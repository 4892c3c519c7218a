#pragma once

// Layer normalisation (Ba et al. 2016) and root mean square normalisation (Zhang and Sennrich 2019), with
// their gradients.

#include "kernels/layer_kernels.hpp"
#include "kernels/row_packets.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// What a row is normalised by: (x - shift - rest) * factor.
template <class T>
struct RowScale {
  T shift;
  T rest;  // what the rounded mean lacks: where the mean is large, it has the digits that count
  T factor;
};

/// 1. the mean; 2. how far the elements are from it, on average (what rounding left over) and squared. The
/// variance is that of the elements themselves, divided by their number.
template <class T>
inline RowScale<T> row_scale(const T* x, Index step, Index cols, T epsilon, bool centred) {
  const T count = static_cast<T>(cols);
  T mean = T(0);
  if (centred) {
    Packet<T> sum = broadcast<T>(T(0));
    for (Index col = 0; col < cols; col += kLanes<T>) sum = packet::padd(sum, load_at(x, step, col, cols));
    mean = packet::predux(sum) / count;
  }
  Packet<T> rest = broadcast<T>(T(0));
  Packet<T> squares = rest;
  for (Index col = 0; col < cols; col += kLanes<T>) {
    const Packet<T> d = inside<T>(packet::psub(load_at(x, step, col, cols), broadcast<T>(mean)), col, cols);
    rest = packet::padd(rest, d);
    squares = packet::pmadd(d, d, squares);
  }
  const T correction = centred ? packet::predux(rest) / count : T(0);
  const T variance = packet::predux(squares) / count - correction * correction;
  return {mean, correction, T(1) / root((variance > T(0) ? variance : variance * T(0)) + epsilon)};
}

template <class T>
inline Packet<T> normalised(const Packet<T>& x, const RowScale<T>& scale) {
  const Packet<T> distance =
      packet::psub(packet::psub(x, broadcast<T>(scale.shift)), broadcast<T>(scale.rest));
  return packet::pmul(distance, broadcast<T>(scale.factor));
}

/// Packet `col` of a row of weights, 1 where there are none.
template <class T>
inline Packet<T> weight_at(const NormRows<T>& rows, Index col) {
  if (rows.weight.data == nullptr) return broadcast<T>(T(1));
  return load_at(rows.weight.data, rows.weight.col_stride, col, rows.cols);
}

template <class T>
void norm(const NormRows<T>& rows, Strided<const T> bias, Strided<T> out) noexcept {
  const Index cols = rows.cols;
  for (Index row = 0; row < rows.rows; ++row) {
    const T* x = rows.x.row(row);
    const RowScale<T> scale = row_scale(x, rows.x.col_stride, cols, rows.epsilon, rows.centred);
    for (Index col = 0; col < cols; col += kLanes<T>) {
      Packet<T> y =
          packet::pmul(normalised<T>(load_at(x, rows.x.col_stride, col, cols), scale), weight_at(rows, col));
      if (bias.data != nullptr) y = packet::padd(y, load_at(bias.data, bias.col_stride, col, cols));
      store_at<T>(y, out.row(row), out.col_stride, col, cols);
    }
  }
}

/// With n for the normalised row and g for grad_out * weight: grad_x = factor * (g - mean(g) - n * mean(g *
/// n)), without mean(g) where no mean was taken off.
template <class T>
void norm_backward(const NormRows<T>& rows, Strided<const T> grad_out, Strided<const T> base,
                   Strided<T> grad_x) noexcept {
  const Index cols = rows.cols;
  const T count = static_cast<T>(cols);
  for (Index row = 0; row < rows.rows; ++row) {
    const T* x = rows.x.row(row);
    const T* grad = grad_out.row(row);
    const RowScale<T> scale = row_scale(x, rows.x.col_stride, cols, rows.epsilon, rows.centred);
    const auto both = [&](Index col, Packet<T>& n, Packet<T>& g) {
      n = normalised<T>(load_at(x, rows.x.col_stride, col, cols), scale);
      g = packet::pmul(load_at(grad, grad_out.col_stride, col, cols), weight_at(rows, col));
    };
    Packet<T> n;
    Packet<T> g;
    Packet<T> sum = broadcast<T>(T(0));
    Packet<T> product = sum;
    for (Index col = 0; col < cols; col += kLanes<T>) {
      both(col, n, g);
      sum = packet::padd(sum, g);  // beyond the row's end g is 0
      product = packet::pmadd(g, n, product);
    }
    const Packet<T> mean = broadcast<T>(rows.centred ? packet::predux(sum) / count : T(0));
    const Packet<T> slope = broadcast<T>(packet::predux(product) / count);
    for (Index col = 0; col < cols; col += kLanes<T>) {
      both(col, n, g);
      const Packet<T> d = packet::psub(packet::psub(g, mean), packet::pmul(n, slope));
      Packet<T> result = packet::pmul(d, broadcast<T>(scale.factor));
      if (base.data != nullptr)
        result = packet::padd(load_at(base.row(row), base.col_stride, col, cols), result);
      store_at<T>(result, grad_x.row(row), grad_x.col_stride, col, cols);
    }
  }
}

template <class T>
void norm_weight_gradient(const NormRows<T>& rows, Strided<const T> grad_out, Strided<T> grad_weight,
                          Strided<T> grad_bias) noexcept {
  const Index cols = rows.cols;
  for (Index row = 0; row < rows.rows; ++row) {
    const T* x = rows.x.row(row);
    const T* grad = grad_out.row(row);
    const RowScale<T> scale = row_scale(x, rows.x.col_stride, cols, rows.epsilon, rows.centred);
    for (Index col = 0; col < cols; col += kLanes<T>) {
      const Packet<T> g = load_at(grad, grad_out.col_stride, col, cols);
      const auto add = [&](const Strided<T>& sums, const Packet<T>& term) {
        if (sums.data == nullptr) return;
        store_at<T>(packet::padd(load_at<T>(sums.data, sums.col_stride, col, cols), term), sums.data,
                    sums.col_stride, col, cols);
      };
      add(grad_weight, packet::pmul(g, normalised<T>(load_at(x, rows.x.col_stride, col, cols), scale)));
      add(grad_bias, g);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
