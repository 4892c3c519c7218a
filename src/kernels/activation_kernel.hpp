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

/// What a result is multiplied with in the end: where x < 0 its factors were raised (exp.hpp).
template <class T>
inline Packet<T> lowered(const Packet<T>& x, const Packet<T>& result) {
  return packet::pmul(result, where_negative<T>(x, broadcast<T>(kLowered<T>), broadcast<T>(T(1))));
}

/// sigma(x) = 1 / (1 + exp(-x)) and 1 - sigma(x), neither of them by a difference.
template <class T>
struct Sigmoid {
  Packet<T> value;       ///< sigma(x), raised where x < 0.
  Packet<T> complement;  ///< 1 - sigma(x).

  explicit Sigmoid(const Packet<T>& x) {
    const Packet<T> raised = raised_exp<T>(packet::por(x, broadcast<T>(T(-0.0))));
    const Packet<T> one = broadcast<T>(T(1));
    const Packet<T> lower = broadcast<T>(kLowered<T>);
    const Packet<T> large = packet::pdiv(one, packet::pmadd(raised, lower, one));
    value = packet::pmul(where_negative<T>(x, raised, one), large);
    complement = packet::pmul(where_negative<T>(x, one, packet::pmul(raised, lower)), large);
  }
};

/// Where the weight of x has fallen to 0, x itself may be infinite, and 0 * inf would be NaN.
template <class T>
inline constexpr T kFlat = T(1000);

/// gelu(x) = x Phi(x).
template <class T>
struct Gelu {
  static constexpr T kFurthest = T(64);  ///< Phi(-64) is 0 in any type here.

  static NormalTail<T> tail_of(const Packet<T>& x) {
    return normal_tail<T>(packet::pmin(packet::pabs(x), broadcast<T>(kFurthest)));
  }
  /// Phi(x), raised where x < 0.
  static Packet<T> distribution(const Packet<T>& x, const NormalTail<T>& tail) {
    const Packet<T> rest = packet::pmadd(tail.tail, broadcast<T>(-kLowered<T>), broadcast<T>(T(1)));
    return where_negative<T>(x, tail.tail, rest);
  }
  static Packet<T> value(const Packet<T>& x) {
    return lowered<T>(x,
                      packet::pmul(packet::pmax(x, broadcast<T>(-kFurthest)), distribution(x, tail_of(x))));
  }
  /// Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)
  static Packet<T> slope(const Packet<T>& x) {
    constexpr T factor = static_cast<T>(0.39894228040143267794);
    const NormalTail<T> tail = tail_of(x);
    const Packet<T> density = packet::pmul(
        tail.density, where_negative<T>(x, broadcast<T>(factor), broadcast<T>(factor * kLowered<T>)));
    return lowered<T>(x, packet::pmadd(clamped<T>(x, -kFurthest, kFurthest), density, distribution(x, tail)));
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
    return lowered<T>(x, packet::pmul(packet::pmax(x, broadcast<T>(-kFlat<T>)), sigmoid_of(x).value));
  }
  static Packet<T> slope(const Packet<T>& x) {
    const Packet<T> finite = clamped<T>(x, -kFlat<T>, kFlat<T>);
    const Sigmoid<T> sigmoid = sigmoid_of(finite);
    const Packet<T> inner =
        packet::pmadd(packet::pmul(finite, finite), broadcast<T>(3 * kCube), broadcast<T>(T(1)));
    const Packet<T> through = packet::pmul(packet::pmul(finite, inner), broadcast<T>(kFactor));
    return lowered<T>(x,
                      packet::pmadd(packet::pmul(through, sigmoid.complement), sigmoid.value, sigmoid.value));
  }
};

/// silu(x) = x sigma(x).
template <class T>
struct Silu {
  static Packet<T> value(const Packet<T>& x) {
    return lowered<T>(x, packet::pmul(packet::pmax(x, broadcast<T>(-kFlat<T>)), Sigmoid<T>(x).value));
  }
  static Packet<T> slope(const Packet<T>& x) {
    const Packet<T> finite = clamped<T>(x, -kFlat<T>, kFlat<T>);
    const Sigmoid<T> sigmoid(finite);
    return lowered<T>(x,
                      packet::pmadd(packet::pmul(finite, sigmoid.complement), sigmoid.value, sigmoid.value));
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
    over_rows_with_gradient(
        grad_out, rows, cols,
        [&](Index first, Index count) {
          map_rows<T>(rows_from(x, first), rows_from(grad_out, first), rows_from(grad_x, first), count, cols,
                      [&](const Packet<T>& a, const Packet<T>& g) { return packet::pmul(g, f.slope(a)); });
        },
        [&](Index row) { clear_row(grad_x, row, cols); });
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
  const bool contiguous = gate.col_stride == 1 && up.col_stride == 1 && grad_out.col_stride == 1 &&
                          grad_gate.col_stride == 1 && grad_up.col_stride == 1;
  const auto clear = [&](Index row) {
    clear_row(grad_gate, row, cols);
    clear_row(grad_up, row, cols);
  };
  with_activation<T>(kind, [&](auto f) {
    const auto work = [&](Index first, Index count) {
      for (Index row = first; row < first + count; ++row) {
        const T* const gates = gate.row(row);
        const T* const ups = up.row(row);
        const T* const grads = grad_out.row(row);
        T* const to_gate = grad_gate.row(row);
        T* const to_up = grad_up.row(row);
        over_packets<T>(contiguous, cols, [=](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
          const Packet<T> a = access.load_at(gates, gate.col_stride, col, cols);
          const Packet<T> b = access.load_at(ups, up.col_stride, col, cols);
          const Packet<T> g = access.load_at(grads, grad_out.col_stride, col, cols);
          access.store_at(packet::pmul(packet::pmul(g, b), f.slope(a)), to_gate, grad_gate.col_stride, col,
                          cols);
          access.store_at(packet::pmul(g, f.value(a)), to_up, grad_up.col_stride, col, cols);
        });
      }
    };
    over_rows_with_gradient(grad_out, rows, cols, work, clear);
  });
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
