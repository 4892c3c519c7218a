#pragma once

// Activations and their slopes: GELU (Hendrycks and Gimpel 2016), exact and by tanh, SiLU (Elfwing et al.
// 2018), ReLU; and gated units (Shazeer 2020, "GLU variants improve transformer").

#include "kernels/layer_kernels.hpp"
#include "kernels/normal_tail.hpp"
#include "kernels/row_packets.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
inline Packet<T> clamped(const Packet<T>& x, T low, T high) {
  return packet::pmin(packet::pmax(x, broadcast<T>(low)), broadcast<T>(high));
}

template <class T>
inline Packet<T> where_negative(const Packet<T>& x, const Packet<T>& then, const Packet<T>& otherwise) {
  return packet::pselect(packet::pcmp_lt(x, broadcast<T>(T(0))), then, otherwise);
}

/// sigma(x) = 1 / (1 + exp(-x)) and 1 - sigma(x), neither of them by a difference.
template <class T>
struct Sigmoid {
  Packet<T> value;
  Packet<T> complement;

  explicit Sigmoid(const Packet<T>& x) {
    const Packet<T> e = exp_nonpositive<T>(packet::pnegate(packet::pabs(x)));
    const Packet<T> large = packet::pdiv(broadcast<T>(T(1)), packet::padd(broadcast<T>(T(1)), e));
    const Packet<T> small = packet::pmul(e, large);
    value = where_negative<T>(x, small, large);
    complement = where_negative<T>(x, large, small);
  }
};

/// Where the weight of x has fallen to 0, x itself may be infinite, and 0 * inf would be NaN.
template <class T>
inline constexpr T kFlat = T(1000);

/// gelu(x) = x Phi(x).
template <class T>
struct Gelu {
  static constexpr T kFurthest = T(64);  // Phi(-64) is 0 in any type here

  static NormalTail<T> tail_of(const Packet<T>& x) {
    return normal_tail<T>(packet::pmin(packet::pabs(x), broadcast<T>(kFurthest)));
  }
  static Packet<T> distribution(const Packet<T>& x, const NormalTail<T>& tail) {
    return where_negative<T>(x, tail.tail, packet::psub(broadcast<T>(T(1)), tail.tail));
  }
  static Packet<T> value(const Packet<T>& x) {
    return packet::pmul(packet::pmax(x, broadcast<T>(-kFurthest)), distribution(x, tail_of(x)));
  }
  /// Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)
  static Packet<T> slope(const Packet<T>& x) {
    const NormalTail<T> tail = tail_of(x);
    const Packet<T> density =
        packet::pmul(tail.density, broadcast<T>(static_cast<T>(0.39894228040143267794)));
    return packet::pmadd(clamped<T>(x, -kFurthest, kFurthest), density, distribution(x, tail));
  }
};

/// gelu(x) ~ x (1 + tanh(u)) / 2 = x sigma(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class T>
struct GeluTanh {
  static constexpr T kFactor = static_cast<T>(2 * 0.79788456080286535588);
  static constexpr T kCube = static_cast<T>(0.044715);

  static Sigmoid<T> sigmoid_of(const Packet<T>& x) {
    const Packet<T> inner = packet::pmadd(packet::pmul(x, x), broadcast<T>(kCube), broadcast<T>(T(1)));
    return Sigmoid<T>(packet::pmul(packet::pmul(x, inner), broadcast<T>(kFactor)));
  }
  static Packet<T> value(const Packet<T>& x) {
    return packet::pmul(packet::pmax(x, broadcast<T>(-kFlat<T>)), sigmoid_of(x).value);
  }
  static Packet<T> slope(const Packet<T>& x) {
    const Packet<T> finite = clamped<T>(x, -kFlat<T>, kFlat<T>);
    const Sigmoid<T> sigmoid = sigmoid_of(finite);
    const Packet<T> inner =
        packet::pmadd(packet::pmul(finite, finite), broadcast<T>(3 * kCube), broadcast<T>(T(1)));
    const Packet<T> through = packet::pmul(packet::pmul(finite, inner), broadcast<T>(kFactor));
    return packet::pmadd(packet::pmul(through, sigmoid.complement), sigmoid.value, sigmoid.value);
  }
};

/// silu(x) = x sigma(x).
template <class T>
struct Silu {
  static Packet<T> value(const Packet<T>& x) {
    return packet::pmul(packet::pmax(x, broadcast<T>(-kFlat<T>)), Sigmoid<T>(x).value);
  }
  static Packet<T> slope(const Packet<T>& x) {
    const Packet<T> finite = clamped<T>(x, -kFlat<T>, kFlat<T>);
    const Sigmoid<T> sigmoid(finite);
    return packet::pmadd(packet::pmul(finite, sigmoid.complement), sigmoid.value, sigmoid.value);
  }
};

template <class T>
struct Relu {
  static Packet<T> value(const Packet<T>& x) { return packet::pmax(x, broadcast<T>(T(0))); }
  static Packet<T> slope(const Packet<T>& x) {
    // NaN is neither, and goes on as itself.
    const Packet<T> zero = broadcast<T>(T(0));
    const Packet<T> positive = packet::pselect(packet::pcmp_lt(zero, x), broadcast<T>(T(1)), x);
    return packet::pselect(packet::pcmp_le(x, zero), zero, positive);
  }
};

/// Calls work with the activation as a type.
template <class T, class Work>
inline void with_activation(Activation kind, Work work) {
  switch (kind) {
    case Activation::gelu:
      return work(Gelu<T>());
    case Activation::gelu_tanh:
      return work(GeluTanh<T>());
    case Activation::silu:
      return work(Silu<T>());
    case Activation::relu:
      return work(Relu<T>());
  }
}

template <class T>
void activation(Activation kind, Strided<const T> x, Strided<T> out, Index rows, Index cols) noexcept {
  with_activation<T>(
      kind, [&](auto f) { map_rows<T>(x, out, rows, cols, [&](const Packet<T>& a) { return f.value(a); }); });
}

template <class T>
void activation_backward(Activation kind, Strided<const T> x, Strided<const T> grad_out, Strided<T> grad_x,
                         Index rows, Index cols) noexcept {
  with_activation<T>(kind, [&](auto f) {
    map_rows<T>(x, grad_out, grad_x, rows, cols,
                [&](const Packet<T>& a, const Packet<T>& g) { return packet::pmul(g, f.slope(a)); });
  });
}

template <class T>
void gated(Activation kind, Strided<const T> gate, Strided<const T> up, Strided<T> out, Index rows,
           Index cols) noexcept {
  with_activation<T>(kind, [&](auto f) {
    map_rows<T>(gate, up, out, rows, cols,
                [&](const Packet<T>& a, const Packet<T>& b) { return packet::pmul(f.value(a), b); });
  });
}

template <class T>
void gated_backward(Activation kind, Strided<const T> gate, Strided<const T> up, Strided<const T> grad_out,
                    Strided<T> grad_gate, Strided<T> grad_up, Index rows, Index cols) noexcept {
  with_activation<T>(kind, [&](auto f) {
    for (Index row = 0; row < rows; ++row) {
      for (Index col = 0; col < cols; col += kLanes<T>) {
        const Packet<T> a = load_at(gate.row(row), gate.col_stride, col, cols);
        const Packet<T> b = load_at(up.row(row), up.col_stride, col, cols);
        const Packet<T> g = load_at(grad_out.row(row), grad_out.col_stride, col, cols);
        store_at<T>(packet::pmul(packet::pmul(g, b), f.slope(a)), grad_gate.row(row), grad_gate.col_stride,
                    col, cols);
        store_at<T>(packet::pmul(g, f.value(a)), grad_up.row(row), grad_up.col_stride, col, cols);
      }
    }
  });
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
