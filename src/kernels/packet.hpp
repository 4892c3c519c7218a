#pragma once

// Vector registers for the kernel bodies: Eigen's packet primitives, plus what Eigen has no name for. This
// header is compiled once per instruction set; everything in it is in HEED_KERNEL_NAMESPACE, and Eigen itself
// is renamed by the build (-DEigen=...), so that no function compiled for one instruction set can stand in
// for that of another.

#if defined(__aarch64__)
// Eigen 3.4 starts a static object in this header, and no kernel object may have one. We have no complex
// numbers: the header's include guard keeps it out.
#define EIGEN_COMPLEX_NEON_H
#endif
#include <Eigen/Core>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

namespace packet = Eigen::internal;

template <class T>
using Packet = typename packet::packet_traits<T>::type;

template <class T>
inline constexpr int kLanes = packet::unpacket_traits<Packet<T>>::size;

// The register tile is kTileRows x (kTilePackets * kLanes): accumulators, the packets of b and one broadcast
// of a must fit into the registers. NEON multiplies by a lane of a register, so GCC loads all rows of a at
// once: 10 x 2, 12 x 2 and 8 x 3 spill in the inner loop.
#if defined(__AVX512F__)
inline constexpr int kRegisters = 32;
inline constexpr int kTileRows = 12;
#elif defined(__AVX__)
inline constexpr int kRegisters = 16;
inline constexpr int kTileRows = 6;
#elif defined(__aarch64__)
inline constexpr int kRegisters = 32;
inline constexpr int kTileRows = 8;
#else
inline constexpr int kRegisters = 16;
inline constexpr int kTileRows = 4;
#endif
inline constexpr int kTilePackets = 2;
static_assert(kTileRows * kTilePackets + kTilePackets + 1 <= kRegisters);

template <class T>
inline constexpr int kPanel = kTilePackets* kLanes<T>;

/// Columns of a packed panel when `left` columns are still to be packed: one packet if that is enough.
template <class T>
constexpr Index panel_width(Index left) {
  return left > kLanes<T> ? kPanel<T> : kLanes<T>;
}

// Keys per tile. Constants: where a sum is split may depend on nothing but the element type and the
// instruction set.
template <class T>
inline constexpr int kKeyTile = 1024 / static_cast<int>(sizeof(T));

// From one row of a tile of scores to the next. With a power of two, the rows of a column would share few
// sets of a first-level cache; backward reads columns.
template <class T>
inline constexpr int kScoreStride = kKeyTile<T> + 64 / static_cast<int>(sizeof(T));

// Rows of queries that share one packed tile of keys and values. Packing costs about 1 / rows of the
// products, and the rows still fit a second-level cache: docs/measurements.md#query-block.
inline constexpr int kQueryBlock = 576;

// std:: templates instantiated here could be merged with the host program's copies and carry our instruction
// set there.
inline Index min_of(Index a, Index b) {
  return a < b ? a : b;
}
inline Index max_of(Index a, Index b) {
  return a > b ? a : b;
}
inline Index round_up(Index n, Index step) {
  return (n + step - 1) / step * step;
}

/// A number known to the compiler, as an argument.
template <int Value>
struct Constant {
  static constexpr int value = Value;
};

template <class T>
struct FloatTraits;

template <>
struct FloatTraits<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr Bits exponent_bias = 127;
  static constexpr float infinity = __builtin_huge_valf();
  static constexpr float quiet_nan = __builtin_nanf("");

  /// 2^exponent, for exponents of normal numbers.
  static constexpr float power_of_two(int exponent) {
    return __builtin_bit_cast(float, static_cast<Bits>(exponent + static_cast<int>(exponent_bias))
                                         << mantissa_bits);
  }
  /// The exponent of a number >= 0; of subnormal ones that of the smallest normal one, less 1.
  static constexpr int exponent_of(float x) {
    return static_cast<int>(__builtin_bit_cast(Bits, x) >> mantissa_bits) - static_cast<int>(exponent_bias);
  }
};

template <>
struct FloatTraits<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr Bits exponent_bias = 1023;
  static constexpr double infinity = __builtin_huge_val();
  static constexpr double quiet_nan = __builtin_nan("");

  /// 2^exponent, for exponents of normal numbers.
  static constexpr double power_of_two(int exponent) {
    return __builtin_bit_cast(double, static_cast<Bits>(exponent + static_cast<int>(exponent_bias))
                                          << mantissa_bits);
  }
  /// The exponent of a number >= 0; of subnormal ones that of the smallest normal one, less 1.
  static constexpr int exponent_of(double x) {
    return static_cast<int>(__builtin_bit_cast(Bits, x) >> mantissa_bits) - static_cast<int>(exponent_bias);
  }
};

// Integer view of a packet, for the exponent arithmetic of exp. The compiler's vector types have it for every
// element size; Eigen 3.4 lacks 64-bit integers.
template <class T>
using PacketBits __attribute__((vector_size(sizeof(Packet<T>)))) = typename FloatTraits<T>::Bits;

template <class T>
inline Packet<T> load(const T* p) {
  return packet::ploadu<Packet<T>>(p);
}
template <class T>
inline void store(T* p, const Packet<T>& x) {
  packet::pstoreu(p, x);
}

/// load() in two halves, which the compiler may not join: hardware prefetchers run ahead further where a
/// cache line is asked for twice (docs/measurements.md#load-halves).
template <class T>
inline Packet<T> load_halves(const T* p) {
#if defined(__AVX512F__)
  const float* const floats = reinterpret_cast<const float*>(p);
  __m256 low = _mm256_loadu_ps(floats);
  asm("" : "+v"(low));
  const __m512 both = _mm512_insertf32x8(_mm512_castps256_ps512(low), _mm256_loadu_ps(floats + 8), 1);
  Packet<T> packet;
  __builtin_memcpy(&packet, &both, sizeof(packet));
  return packet;
#else
  return load(p);
#endif
}

template <class T>
inline Packet<T> broadcast(T x) {
  return packet::pset1<Packet<T>>(x);
}

/// A packet of all-ones bits, then a packet of zeros: read at an offset, it selects the first lanes.
template <class T>
struct LaneMask {
  typename FloatTraits<T>::Bits bits[2 * kLanes<T>];

  constexpr LaneMask() : bits{} {
    for (int i = 0; i < kLanes<T>; ++i) bits[i] = ~typename FloatTraits<T>::Bits{0};
  }
};
template <class T>
inline constexpr LaneMask<T> kLaneMask;

/// All-ones bits in the lanes below count (0 ... kLanes), zeros in the others.
template <class T>
inline Packet<T> first_lanes(Index count) {
  Packet<T> selector;
  __builtin_memcpy(&selector, kLaneMask<T>.bits + kLanes<T> - count, sizeof(selector));
  return selector;
}

/// Lanes below count keep x, the others become fill.
template <class T>
inline Packet<T> keep_first(const Packet<T>& x, Index count, T fill) {
  return packet::pselect(first_lanes<T>(max_of(0, count)), x, broadcast<T>(fill));
}

/// Lanes below count become fill, the others keep x.
template <class T>
inline Packet<T> drop_first(const Packet<T>& x, Index count, T fill) {
  return packet::pselect(first_lanes<T>(min_of(count, kLanes<T>)), broadcast<T>(fill), x);
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
