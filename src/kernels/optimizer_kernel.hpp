#pragma once

// One step of an optimizer on the elements of one matrix.

#include "kernels/layer_kernels.hpp"
#include "kernels/row_packets.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// Elements whose mean of squares has become infinite although their gradient is a number: the gradient
/// counts as the largest whose square is one. (Divided by infinity, the first moment has moved nothing yet.)
template <class T>
__attribute__((noinline)) void tame_squares(const AdamStep<T>& step, Strided<T> value, T* first_moment,
                                            T* second_moment, Index rows, Index cols) {
  constexpr T max_square = FloatTraits<T>::power_of_two(static_cast<int>(FloatTraits<T>::exponent_bias) - 1);
  const T max_moment = (T(1) - step.beta1) * root(max_square) / root(T(1) - step.beta2);
  for (Index i = 0; i < rows * cols; ++i) {
    T& m = first_moment[i];
    T& v = second_moment[i];
    if (v != FloatTraits<T>::infinity || !(m - m == T(0))) continue;
    v = max_square;
    m = m > max_moment ? max_moment : m < -max_moment ? -max_moment : m;
    value.row(i / cols)[i % cols * value.col_stride] -=
        step.rate * step.correction1 * m / (root(v) * step.correction2 + step.epsilon);
  }
}

/// Adam (Kingma and Ba 2015, Algorithm 1) with decoupled decay (Loshchilov and Hutter 2019, Algorithm 2).
template <class T>
void adam(const AdamStep<T>& step, Strided<T> value, Strided<const T> grad, T* first_moment, T* second_moment,
          Index rows, Index cols) noexcept {
  const Packet<T> beta1 = broadcast<T>(step.beta1);
  const Packet<T> beta2 = broadcast<T>(step.beta2);
  const Packet<T> rest1 = broadcast<T>(T(1) - step.beta1);
  const Packet<T> rest2 = broadcast<T>(T(1) - step.beta2);
  const Packet<T> rate = broadcast<T>(step.rate * step.correction1);
  const Packet<T> correction2 = broadcast<T>(step.correction2);
  const Packet<T> epsilon = broadcast<T>(step.epsilon);
  const Packet<T> kept = broadcast<T>(T(1) - step.decay);
  const Packet<T> grad_factor = broadcast<T>(step.grad_factor);
  const Packet<T> zero = broadcast<T>(T(0));
  const bool contiguous = value.col_stride == 1 && grad.col_stride == 1;
  Packet<T> overflow = zero;  // NaN once a square is infinite
  for (Index row = 0; row < rows; ++row) {
    T* const values = value.row(row);
    const T* const grads = grad.row(row);
    T* const first = first_moment + row * cols;
    T* const second = second_moment + row * cols;
    over_packets<T>(contiguous, cols, [&](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
      const Packet<T> g = packet::pmul(access.load_at(grads, grad.col_stride, col, cols), grad_factor);
      const Packet<T> m =
          packet::pmadd(beta1, access.template load_at<T>(first, 1, col, cols), packet::pmul(rest1, g));
      const Packet<T> v = packet::pmadd(beta2, access.template load_at<T>(second, 1, col, cols),
                                        packet::pmul(packet::pmul(rest2, g), g));
      access.store_at(m, first, 1, col, cols);
      access.store_at(v, second, 1, col, cols);
      overflow = packet::pmadd(v, zero, overflow);
      const Packet<T> size = packet::pmadd(packet::psqrt(v), correction2, epsilon);
      const Packet<T> move = packet::pdiv(packet::pmul(rate, m), size);
      const Packet<T> x = access.template load_at<T>(values, value.col_stride, col, cols);
      access.store_at(packet::psub(packet::pmul(x, kept), move), values, value.col_stride, col, cols);
    });
  }
  if (!(packet::predux(overflow) == T(0))) tame_squares(step, value, first_moment, second_moment, rows, cols);
}

/// Gradient descent with momentum (Polyak 1964; the form of Sutskever et al. 2013 without look-ahead).
template <class T>
void sgd(const SgdStep<T>& step, Strided<T> value, Strided<const T> grad, T* velocity, Index rows,
         Index cols) noexcept {
  for (Index row = 0; row < rows; ++row) {
    for (Index col = 0; col < cols; col += kLanes<T>) {
      const Packet<T> x = load_at<T>(value.row(row), value.col_stride, col, cols);
      const Packet<T> g =
          packet::pmul(load_at(grad.row(row), grad.col_stride, col, cols), broadcast<T>(step.grad_factor));
      Packet<T> v = packet::pmadd(broadcast<T>(step.weight_decay), x, g);
      if (velocity != nullptr) {
        T* const own = velocity + row * cols;
        v = packet::pmadd(broadcast<T>(step.momentum), load_at<T>(own, 1, col, cols), v);
        store_at<T>(v, own, 1, col, cols);
      }
      store_at<T>(packet::psub(x, packet::pmul(broadcast<T>(step.rate), v)), value.row(row), value.col_stride,
                  col, cols);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
