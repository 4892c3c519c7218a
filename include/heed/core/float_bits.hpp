#pragma once

// NaN and infinity, told by the bits of a number. Under -ffast-math a compiler takes it that there are none
// and turns std::isnan(x), x != x and x == infinity into false; a program that is built so still has to have
// its errors found.

#include "heed/core/config.hpp"

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

namespace heed::detail {

// The number is passed by its address: a value passed in a register is one more thing that -ffast-math
// promises to be finite. The builtin in place of std::bit_cast leaves no function behind in a build without
// optimization.

/// Gives the bits of a float without its sign.
[[gnu::always_inline]] constexpr std::uint32_t magnitude_bits(const float& x) noexcept {
  static_assert(std::numeric_limits<float>::is_iec559 && sizeof(float) == 4);
  return __builtin_bit_cast(std::uint32_t, x) & 0x7FFF'FFFFu;
}

/// Gives the bits of a double without its sign.
[[gnu::always_inline]] constexpr std::uint64_t magnitude_bits(const double& x) noexcept {
  static_assert(std::numeric_limits<double>::is_iec559 && sizeof(double) == 8);
  return __builtin_bit_cast(std::uint64_t, x) & 0x7FFF'FFFF'FFFF'FFFFu;
}

/// Gives the magnitude bits of infinity: finite numbers have smaller ones, NaN has larger ones.
[[gnu::always_inline]] constexpr std::uint32_t infinity_bits(const float&) noexcept {
  return 0x7F80'0000u;
}

/// Gives the magnitude bits of infinity: finite numbers have smaller ones, NaN has larger ones.
[[gnu::always_inline]] constexpr std::uint64_t infinity_bits(const double&) noexcept {
  return 0x7FF0'0000'0000'0000u;
}

/// Types of scalars whose bits are looked at; for others the functions below ask std::, or the type's own
/// arithmetic.
template <class T>
concept HasFloatBits = std::same_as<T, float> || std::same_as<T, double>;

/// Returns true if x is NaN, also under -ffast-math if T is float or double.
template <class T>
[[nodiscard, gnu::always_inline]] constexpr bool is_nan(const T& x) {
  if constexpr (HasFloatBits<T>) {
    return magnitude_bits(x) > infinity_bits(x);
  } else if constexpr (std::floating_point<T>) {
    return std::isnan(x);
  } else {
    return !(x == x);
  }
}

/// Returns true if x is neither NaN nor infinite, also under -ffast-math if T is float or double.
template <class T>
[[nodiscard, gnu::always_inline]] constexpr bool is_finite(const T& x) {
  if constexpr (HasFloatBits<T>) {
    return magnitude_bits(x) < infinity_bits(x);
  } else if constexpr (std::floating_point<T>) {
    return std::isfinite(x);
  } else {
    return x - x == T(0);
  }
}

/// Returns true if x is infinity or -infinity, also under -ffast-math if T is float or double.
template <class T>
[[nodiscard, gnu::always_inline]] constexpr bool is_infinite(const T& x) {
  if constexpr (HasFloatBits<T>) {
    return magnitude_bits(x) == infinity_bits(x);
  } else {
    return !is_nan(x) && !is_finite(x);
  }
}

/// Returns true if x is -infinity, which hides a key; also under -ffast-math if T is float or double.
template <class T>
[[nodiscard, gnu::always_inline]] constexpr bool is_minus_infinity(const T& x) {
  if constexpr (std::same_as<T, float>) {
    return __builtin_bit_cast(std::uint32_t, x) == 0xFF80'0000u;
  } else if constexpr (std::same_as<T, double>) {
    return __builtin_bit_cast(std::uint64_t, x) == 0xFFF0'0000'0000'0000u;
  } else {
    return x == -std::numeric_limits<T>::infinity();
  }
}

}  // namespace heed::detail
