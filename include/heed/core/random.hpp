#pragma once

// Random numbers that are alike on every machine, and in Python.
//
//   heed::Random random(7);
//   const double x = random.uniform(-1, 1);  // as random.Random(7).uniform(-1, 1) in Python

#include "heed/core/config.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace heed {

/// CPython's random.Random: the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998) with CPython's
/// seeding by array and its 53-bit random(), so a seed gives the numbers that Python gives, on every
/// platform. No global state; one object serves one thread at a time.
class HEED_EXPORT Random {
 public:
  /// Seeds the generator, as CPython's random.Random(seed) does for a non-negative integer seed.
  explicit Random(std::uint64_t seed);

  /// Draws uniformly from [0, 2^32): getrandbits(32).
  std::uint32_t next_word() noexcept;

  /// Draws uniformly from [0, 1), a multiple of 2^-53: random().
  double random() noexcept;

  /// Draws low + (high - low) * random(), rounded as CPython does: uniform(low, high).
  double uniform(double low, double high) noexcept;

  /// 624 words of state, and how many of them have been used up: for checkpoints. CPython's getstate().
  static constexpr std::size_t kStateSize = 625;
  std::array<std::uint32_t, kStateSize> state() const noexcept;

  /// Goes on from a state. Throws ArgumentError unless there are kStateSize numbers, the last at most 624.
  void restore(std::span<const std::uint32_t> state);

 private:
  static constexpr int kWords = 624;

  void refill() noexcept;

  std::array<std::uint32_t, kWords> state_;
  int next_ = kWords;
};

}  // namespace heed
