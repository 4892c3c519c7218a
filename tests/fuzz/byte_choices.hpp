#pragma once

// What fuzz targets share: choices made by a fuzzer's bytes, and a way to say that a law is broken.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "heed/core/random.hpp"
#include "heed/core/view.hpp"

namespace heed::test {

/// Ends the program, which is how a fuzzer learns of a finding.
inline void require_law(bool holds, const char* law, const std::string& details = {}) {
  if (holds) return;
  std::fprintf(stderr, "broken law: %s\n%s\n", law, details.c_str());
  std::abort();
}

/// Choices made by bytes, each by as few as can make it, and by zeros where they have ended. The first two
/// bytes are the seed of what fills matrices.
class ByteChoices {
 public:
  ByteChoices(const std::uint8_t* data, std::size_t size)
      : bytes_(data, size), seed_(number(2)), random_(seed_) {}

  std::uint64_t seed() const { return seed_; }
  Index below(Index n) {
    if (n <= 1) return 0;
    const std::size_t width = n <= 0x100 ? 1 : n <= 0x10000 ? 2 : 8;
    return static_cast<Index>(number(width) % static_cast<std::uint64_t>(n));
  }
  Random& random() { return random_; }

  /// So many of the bytes, or as many as there are.
  std::string text(Index length) {
    std::string result;
    for (; length > 0 && at_ < bytes_.size(); --length) result.push_back(static_cast<char>(bytes_[at_++]));
    return result;
  }

 private:
  std::uint64_t number(std::size_t width) {
    std::uint64_t result = 0;
    for (std::size_t i = 0; i < width; ++i) {
      result = result << 8U | (at_ < bytes_.size() ? bytes_[at_] : 0U);
      ++at_;
    }
    return result;
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::uint64_t seed_;
  Random random_;
};

}  // namespace heed::test
