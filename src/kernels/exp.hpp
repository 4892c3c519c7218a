#pragma once

// The one exponential of every path: exp(x) for x <= 0 and NaN.
//
//   n = round(x / ln 2), r = x - n ln 2 in two parts (Cody and Waite 1980), |r| <= 0.347
//   exp(r) = 1 + r + r^2 q(r), q a near-minimax polynomial (Chebyshev interpolation of (exp(r) - 1 - r) /
//   r^2; the truncation error relative to exp(r) is 1.1e-8 in float and 1.8e-17 in double, a fifth of an ulp)
//   exp(x) = exp(r) 2^n
//
// exp(0) is exactly 1. Where the result would be below the smallest normal number (x < -87.6 in float, -708.7
// in double) it is exactly 0 or subnormal, and -inf gives exactly 0, so a masked score weighs nothing. NaN
// stays NaN.

#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  static constexpr float lowest = -88.0f;  ///< Rounds to n = -127, whose power of two is written as 0.
  static constexpr float log2_e = 1.44269504088896341f;
  static constexpr float ln2_high = 0.693359375f;
  static constexpr float ln2_low = -2.1219444005469058277e-4f;
  static constexpr float round_magic =
      12582912.0f;  ///< 1.5 * 2^23: adding it leaves round(x) in the low mantissa bits.
  static constexpr float q[] = {1.3926250831497612e-3f, 8.3632328836826821e-3f, 4.1666554212984150e-2f,
                                1.6666576666119928e-1f, 0.5f};
};

template <>
struct ExpConstants<double> {
  static constexpr double lowest = -709.0;  ///< Rounds to n = -1023.
  static constexpr double log2_e = 1.44269504088896340736;
  static constexpr double ln2_high = 0x1.62e42fee00000p-1;
  static constexpr double ln2_low = 1.908214929270587816e-10;
  static constexpr double round_magic = 6755399441055744.0;  ///< 1.5 * 2^52.
  static constexpr double q[] = {2.5100472505694996003e-8, 2.7620201591031548792e-7,
                                 2.7557268276905696187e-6, 2.4801521057868205199e-5,
                                 1.9841269863171556026e-4, 1.3888888917367080562e-3,
                                 8.3333333333300381973e-3, 4.1666666666623820532e-2,
                                 1.6666666666666674600e-1, 0.5};
};

/// exp(x) = (1 + tail) * power.
template <class T>
struct ExpParts {
  Packet<T> tail;   ///< exp(r) - 1.
  Packet<T> power;  ///< 2^n, or 2^(n + Raised).
};

/// With the power raised, exp(x) 2^Raised is a normal number for smaller x too.
template <class T, int Raised = 0>
inline ExpParts<T> exp_parts(const Packet<T>& argument) {
  using Constants = ExpConstants<T>;
  using Traits = FloatTraits<T>;
  // pmax returns its first argument if that is NaN (tested), so NaN passes through to the product at the end.
  constexpr T lowest = Constants::lowest - static_cast<T>(Raised * 0.69);
  const Packet<T> x = packet::pmax(argument, broadcast<T>(lowest));
  const Packet<T> magic = broadcast<T>(Constants::round_magic);
  const Packet<T> shifted = packet::pmadd(x, broadcast<T>(Constants::log2_e), magic);
  const Packet<T> n = packet::psub(shifted, magic);
  Packet<T> r = packet::pmadd(n, broadcast<T>(-Constants::ln2_high), x);
  r = packet::pmadd(n, broadcast<T>(-Constants::ln2_low), r);
  Packet<T> q = broadcast<T>(Constants::q[0]);
  constexpr int terms = static_cast<int>(sizeof(Constants::q) / sizeof(T));
#pragma GCC unroll 16
  for (int i = 1; i < terms; ++i) q = packet::pmadd(q, r, broadcast<T>(Constants::q[i]));
  // The low bits of `shifted` hold n; moved into the exponent field, the magic number's own bits fall off the
  // top.
  PacketBits<T> bits;
  __builtin_memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + (Traits::exponent_bias + Raised)) << Traits::mantissa_bits;
  ExpParts<T> parts;
  __builtin_memcpy(&parts.power, &bits, sizeof(parts.power));
  parts.tail = packet::pmadd(packet::pmul(r, r), q, r);
  return parts;
}

template <class T>
inline Packet<T> exp_nonpositive(const Packet<T>& argument) {
  const ExpParts<T> parts = exp_parts<T>(argument);
  // 1 comes last: the small terms are summed first, and only this sum rounds at the size of the result.
  return packet::pmul(packet::padd(parts.tail, broadcast<T>(T(1))), parts.power);
}

/// Powers that activations raise exp(x) by: x exp(x) is then exact to its last digit down to the smallest
/// subnormal number, where exp(x) is none any more.
template <class T>
inline constexpr int kRaised = sizeof(T) == 4 ? 64 : 128;
template <class T>
inline constexpr T kLowered = FloatTraits<T>::power_of_two(-kRaised<T>);

/// exp(x) 2^kRaised, for x <= 0 and NaN.
template <class T>
inline Packet<T> raised_exp(const Packet<T>& argument) {
  const ExpParts<T> parts = exp_parts<T, kRaised<T>>(argument);
  return packet::pmul(packet::padd(parts.tail, broadcast<T>(T(1))), parts.power);
}

/// tanh(x) = -e / (2 + e) with e = exp(-2 |x|) - 1, which keeps its digits where x is small.
template <class T>
inline Packet<T> hyperbolic_tangent(const Packet<T>& x) {
  const ExpParts<T> parts = exp_parts<T>(packet::pmul(broadcast<T>(T(-2)), packet::pabs(x)));
  const Packet<T> e = packet::pmadd(parts.power, parts.tail, packet::psub(parts.power, broadcast<T>(T(1))));
  const Packet<T> size = packet::pdiv(packet::pnegate(e), packet::padd(broadcast<T>(T(2)), e));
  return packet::pselect(packet::pcmp_lt(x, broadcast<T>(T(0))), packet::pnegate(size), size);
}

template <class T>
inline T exp_nonpositive_scalar(T x) {
  return packet::pfirst(exp_nonpositive<T>(broadcast<T>(x)));
}

template <class T>
void exp_array(const T* x, T* out, Index count) noexcept {
  Index i = 0;
  for (; i + kLanes<T> <= count; i += kLanes<T>) store(out + i, exp_nonpositive<T>(load(x + i)));
  for (; i < count; ++i) out[i] = exp_nonpositive_scalar<T>(x[i]);
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
