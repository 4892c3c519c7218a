#pragma once

// 16-bit numbers of a cache: bfloat16 (the upper half of a float) and IEEE float16. Widening is exact;
// narrowing rounds to nearest, ties to even, and keeps NaN and infinity.
//
// A row of a full panel, two packets wide, is stored as it is widened best: bfloat16 in pairs, number i of
// the first packet beside number i of the second, so that a shift gives one packet and a mask the other.

#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

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

inline std::uint16_t narrow_bfloat16(float x) {
  const std::uint32_t bits = bits_of(x);
  if (x != x) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
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

/// A packet of numbers as they lie in memory.
template <class T>
inline Packet<T> load_widened(const T* p) {
  return load(p);
}

using HalfBits __attribute__((vector_size(2 * kLanes<float>))) = std::uint16_t;

inline Packet<float> packet_of(const PacketBits<float>& bits) {
  Packet<float> x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

template <class T>
inline Packet<float> load_widened(const BFloat16* p) {
  HalfBits narrow;
  __builtin_memcpy(&narrow, p, sizeof(narrow));
  return packet_of(__builtin_convertvector(narrow, PacketBits<float>) << 16);
}

template <class T>
inline Packet<float> load_widened(const Float16* p) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  // The exponent is moved by a product, which also makes subnormal numbers right; infinity and NaN are put
  // right afterwards.
  HalfBits narrow;
  __builtin_memcpy(&narrow, p, sizeof(narrow));
  const PacketBits<float> wide = __builtin_convertvector(narrow, PacketBits<float>);
  const PacketBits<float> magnitude = wide & 0x7fffu;
  const Packet<float> finite = packet::pmul(packet_of(magnitude << 13), broadcast<float>(0x1p112f));
  PacketBits<float> bits;
  __builtin_memcpy(&bits, &finite, sizeof(bits));
  const auto special = magnitude > 0x7bffu;
  bits = bits | (reinterpret_cast<const PacketBits<float>&>(special) & 0x7f800000u) | (wide & 0x8000u) << 16;
  return packet_of(bits);
#endif
}

/// One row of a panel of Packets packets.
template <class T, int Packets, class B>
inline void load_columns(const B* row, Packet<T> (&columns)[Packets]) {
  if constexpr (std::is_same_v<B, BFloat16> && Packets == kTilePackets) {
    PacketBits<float> pairs;
    __builtin_memcpy(&pairs, row, sizeof(pairs));
    columns[0] = packet_of(pairs << 16);
    columns[1] = packet_of(pairs & 0xffff0000u);
  } else {
#pragma GCC unroll 8
    for (int p = 0; p < Packets; ++p) columns[p] = load_widened<T>(row + p * kLanes<T>);
  }
}
static_assert(kTilePackets == 2);

/// Where number `col` of a panel's row is stored.
inline Index slot(Storage storage, Index col, Index width) {
  if (storage != Storage::bfloat16 || width != kPanel<float>) return col;
  return col < kLanes<float> ? 2 * col : 2 * (col - kLanes<float>)+1;
}

template <class B>
inline void widen_rows(const B* x, Index rows, Index width, float* out) {
  if (width == kPanel<float>) {
    for (Index i = 0; i < rows * width; i += width) {
      Packet<float> columns[kTilePackets];
      load_columns<float, kTilePackets>(x + i, columns);
      store(out + i, columns[0]);
      store(out + i + kLanes<float>, columns[1]);
    }
  } else {
    for (Index i = 0; i < rows * width; i += width) store(out + i, load_widened<float>(x + i));
  }
}

/// Rows of a panel, `width` numbers each: one packet or two.
inline void widen(const std::byte* x, Index first, Index rows, Index width, Storage storage, float* out) {
  if (storage == Storage::bfloat16) {
    widen_rows(reinterpret_cast<const BFloat16*>(x) + first, rows, width, out);
  } else {
    widen_rows(reinterpret_cast<const Float16*>(x) + first, rows, width, out);
  }
}

inline std::uint16_t narrow(float x, Storage storage) {
  return storage == Storage::bfloat16 ? narrow_bfloat16(x) : narrow_float16(x);
}

template <class T>
constexpr Index stored_bytes(Storage storage) {
  return storage == Storage::same ? static_cast<Index>(sizeof(T)) : 2;
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
