#pragma once

#include <array>
#include <cstdint>

namespace heed {

/// CPython's random.Random: the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998) with CPython's
/// seeding by array and its 53-bit random(), so a seed gives the numbers that Python gives, on every
/// platform. No global state; one object serves one thread at a time.
class Random {
 public:
  /// random.Random(seed) for a non-negative integer seed.
  explicit Random(std::uint64_t seed);

  /// Uniform in [0, 2^32): getrandbits(32).
  std::uint32_t next_word() noexcept;

  /// Uniform in [0, 1), a multiple of 2^-53: random().
  double random() noexcept;

  /// low + (high - low) * random(), rounded as CPython does: uniform(low, high).
  double uniform(double low, double high) noexcept;

 private:
  static constexpr int words = 624;

  void refill() noexcept;

  std::array<std::uint32_t, words> state_;
  int next_ = words;
};

}  // namespace heed
