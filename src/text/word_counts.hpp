#pragma once

// The distinct words of a text, counted.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace heed::text {

struct CountedWord {
  std::string_view text;
  std::int64_t count;
};

/// The distinct words of a text in the order of their first occurrence, each with its number of occurrences.
/// Holds views: the text must outlive it.
class WordCounts {
 public:
  WordCounts();

  void add(std::string_view word);

  [[nodiscard]] const std::vector<CountedWord>& words() const noexcept { return words_; }

 private:
  struct Slot {
    std::uint32_t hash;  // the upper half, compared before the words are
    std::uint32_t word;  // place in words_, plus 1; 0 is an empty slot
  };

  void grow();

  std::vector<CountedWord> words_;
  std::vector<Slot> slots_;  // open addressing, linear probing, a power of two, at most half full
};

}  // namespace heed::text
