// CPython's Mersenne Twister.

#include "heed/core/random.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "heed/core/error.hpp"

namespace heed {

namespace {

constexpr std::size_t kPeriod = 624;
constexpr std::size_t kShift = 397;

}  // namespace

// init_by_array of the reference implementation (Matsumoto and Nishimura 2002), with the seed's 32-bit words
// as the array.
Random::Random(std::uint64_t seed) {
  const std::array<std::uint32_t, 2> key = {static_cast<std::uint32_t>(seed),
                                            static_cast<std::uint32_t>(seed >> 32)};
  const std::size_t key_length = key[1] != 0 ? 2 : 1;

  state_[0] = 19650218U;
  for (std::uint32_t i = 1; i < kPeriod; ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;

  std::size_t i = 1;
  const auto advance = [&] {
    if (++i == kPeriod) {
      state_[0] = state_[kPeriod - 1];
      i = 1;
    }
  };
  for (std::size_t k = 0; k < std::max(kPeriod, key_length); ++k) {
    const std::size_t j = k % key_length;
    const std::uint32_t previous = state_[i - 1];
    state_[i] =
        (state_[i] ^ ((previous ^ (previous >> 30)) * 1664525U)) + key[j] + static_cast<std::uint32_t>(j);
    advance();
  }
  for (std::size_t k = 0; k + 1 < kPeriod; ++k) {
    const std::uint32_t previous = state_[i - 1];
    state_[i] = (state_[i] ^ ((previous ^ (previous >> 30)) * 1566083941U)) - static_cast<std::uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
}

void Random::refill() noexcept {
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const std::uint32_t bits = (state_[i] & 0x80000000U) | (state_[(i + 1) % kPeriod] & 0x7fffffffU);
    const std::uint32_t twist = (bits & 1U) != 0 ? 0x9908b0dfU : 0U;
    state_[i] = state_[(i + kShift) % kPeriod] ^ (bits >> 1) ^ twist;
  }
  next_ = 0;
}

std::uint32_t Random::next_word() noexcept {
  if (next_ == kWords) refill();
  std::uint32_t word = state_[static_cast<std::size_t>(next_++)];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680U;
  word ^= (word << 15) & 0xefc60000U;
  return word ^ (word >> 18);
}

double Random::random() noexcept {
  const std::uint32_t high = next_word() >> 5;  // 27 bits
  const std::uint32_t low = next_word() >> 6;   // 26 bits
  return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0);
}

std::array<std::uint32_t, Random::kStateSize> Random::state() const noexcept {
  std::array<std::uint32_t, kStateSize> state{};
  std::copy(state_.begin(), state_.end(), state.begin());
  state.back() = static_cast<std::uint32_t>(next_);
  return state;
}

void Random::restore(std::span<const std::uint32_t> state) {
  if (state.size() != kStateSize || state.back() > kPeriod) {
    throw_argument_error("the state of a generator has " + std::to_string(kStateSize) +
                         " numbers, the last at most " + std::to_string(kPeriod) + "; this one has " +
                         std::to_string(state.size()) +
                         (state.empty() ? "" : ", the last is " + std::to_string(state.back())));
  }
  std::copy_n(state.begin(), kPeriod, state_.begin());
  next_ = static_cast<int>(state.back());
}

double Random::uniform(double low, double high) noexcept {
  return low + (high - low) * random();
}

}  // namespace heed
