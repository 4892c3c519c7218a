#pragma once

// 16-bit numbers of a cache: bfloat16 (the upper half of a float) and IEEE float16. Widening is exact;
// narrowing rounds to nearest, ties to even, and keeps NaN and infinity.

#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

inline float widen_bfloat16(std::uint16_t x) {
  return float_of(static_cast<std::uint32_t>(x) << 16);
}

inline std::uint16_t narrow_bfloat16(float x) {
  const std::uint32_t bits = bits_of(x);
  if (x != x) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The exponent is moved by a product, which also makes subnormal numbers right; infinity and NaN are put
/// right afterwards.
inline float widen_float16(std::uint16_t x) {
  const std::uint32_t magnitude = x & 0x7fffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(x & 0x8000u) << 16;
  const float finite = float_of(magnitude << 13) * 0x1p112f;
  const std::uint32_t special = magnitude >= 0x7c00 ? 0x7f800000u : 0u;
  return float_of(bits_of(finite) | special | sign);
}

inline std::uint16_t narrow_float16(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // rounds beyond 65504
  if (magnitude < 0x38800000) {  // subnormal: the sum rounds at the last bit that float16 has there
    const float rounded = float_of(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (bits_of(rounded) - bits_of(0.5f)));
  }
  const std::uint32_t moved = magnitude - 0x38000000;
  return static_cast<std::uint16_t>(sign | ((moved + 0xfff + (moved >> 13 & 1)) >> 13));
}

inline void widen(const std::uint16_t* x, Index count, Storage storage, float* __restrict out) {
  if (storage == Storage::bfloat16) {
    for (Index i = 0; i < count; ++i) out[i] = widen_bfloat16(x[i]);
  } else {
    for (Index i = 0; i < count; ++i) out[i] = widen_float16(x[i]);
  }
}

inline void narrow(const float* x, Index count, Storage storage, std::uint16_t* __restrict out) {
  if (storage == Storage::bfloat16) {
    for (Index i = 0; i < count; ++i) out[i] = narrow_bfloat16(x[i]);
  } else {
    for (Index i = 0; i < count; ++i) out[i] = narrow_float16(x[i]);
  }
}

template <class T>
constexpr Index stored_bytes(Storage storage) {
  return storage == Storage::same ? static_cast<Index>(sizeof(T)) : 2;
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
