#pragma once

// The normal distribution, which the exact GELU is made of: Phi(-t) for t >= 0, the chance of a value below
// -t.
//
//   Phi(-t) = exp(-t^2 / 2) * p(u) / (t + k), with u = (t - k) / (t + k) in [-1, 1)
//
// (t + k) exp(t^2 / 2) Phi(-t) is nearly constant, so a polynomial in u has it for every t (the substitution
// is that of Shepherd and Laframboise 1981). p: Chebyshev interpolation, relative truncation error 1.2e-8 in
// float and 5e-17 in double.

#include "kernels/exp.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
struct NormalTailConstants;

template <>
struct NormalTailConstants<float> {
  static constexpr float k = 3.5f;
  static constexpr float p[] = {-4.97668893548e-5f, 3.46352008215e-5f,  4.52693919728e-4f, -4.17768598173e-4f,
                                -3.17898590069e-3f, 6.4652340767e-3f,   1.74060587339e-2f, -1.16049045394e-1f,
                                3.15425057953e-1f,  -5.65561908729e-1f, 7.44416075436e-1f};
};

template <>
struct NormalTailConstants<double> {
  static constexpr double k = 5.0;
  static constexpr double p[] = {
      -8.1661926244289863067e-10, 5.0373021263798561339e-10, 9.4468275196773664555e-9,
      -5.0156499398578568968e-9,  -6.7825553132911554146e-8, 3.581840051543223384e-8,
      4.3402625948297753366e-7,   -3.3106980715268619757e-7, -2.7693378710438541657e-6,
      3.9779126405932422476e-6,   1.6681099115863466831e-5,  -4.9761771189792182328e-5,
      -5.9375673286488655836e-5,  5.4489883090093000694e-4,  -7.9786940948080635356e-4,
      -2.9933767382232199603e-3,  2.0795066800941615269e-2,  -6.9118638708814328486e-2,
      1.6502036617034281343e-1,   -3.1353315667121376642e-1, 4.9530561596997679007e-1,
      -6.6538250289005768496e-1,  7.6919304975006295965e-1};
};

template <class T>
struct NormalTail {
  Packet<T> tail;     ///< Phi(-t) 2^kRaised.
  Packet<T> density;  ///< exp(-t^2 / 2) 2^kRaised, without 1 / sqrt(2 pi).
};

/// For 0 <= t <= 64; NaN gives NaN.
template <class T>
inline NormalTail<T> normal_tail(const Packet<T>& t) {
  using Constants = NormalTailConstants<T>;
  const Packet<T> k = broadcast<T>(Constants::k);
  const Packet<T> inverse = packet::pdiv(broadcast<T>(T(1)), packet::padd(t, k));
  const Packet<T> u = packet::pmul(packet::psub(t, k), inverse);
  Packet<T> p = broadcast<T>(Constants::p[0]);
  constexpr int terms = static_cast<int>(sizeof(Constants::p) / sizeof(T));
#pragma GCC unroll 32
  for (int i = 1; i < terms; ++i) p = packet::pmadd(p, u, broadcast<T>(Constants::p[i]));
  // What rounding takes from t^2 would be as many times larger in the exponential; the second factor puts it
  // back, where multiply-adds are fused.
  const Packet<T> half = broadcast<T>(T(0.5));
  const Packet<T> square = packet::pmul(t, t);
  const Packet<T> rounded = packet::pmadd(t, t, packet::pnegate(square));
  const Packet<T> exponential = raised_exp<T>(packet::pmul(packet::pnegate(half), square));
  NormalTail<T> result;
  result.density = packet::pmadd(packet::pmul(packet::pnegate(half), rounded), exponential, exponential);
  result.tail = packet::pmul(packet::pmul(p, inverse), result.density);
  return result;
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
