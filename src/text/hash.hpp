#pragma once

// Hashes for the tables of text.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace heed::text {

/// Spreads a key over all 64 bits (the finaliser of SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
constexpr std::uint64_t mix(std::uint64_t key) noexcept {
  key = (key ^ (key >> 30U)) * 0xBF58476D1CE4E5B9U;
  key = (key ^ (key >> 27U)) * 0x94D049BB133111EBU;
  return key ^ (key >> 31U);
}

/// A hash of bytes, eight at a time.
inline std::uint64_t hash_bytes(std::string_view bytes) noexcept {
  std::uint64_t hash = bytes.size();
  std::uint64_t chunk = 0;
  const char* data = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= sizeof chunk; left -= sizeof chunk, data += sizeof chunk) {
    std::memcpy(&chunk, data, sizeof chunk);
    hash = mix(hash ^ chunk) + 0x9E3779B97F4A7C15U;
  }
  chunk = 0;
  if (left != 0) std::memcpy(&chunk, data, left);
  return mix(hash ^ chunk);
}

}  // namespace heed::text
