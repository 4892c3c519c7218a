// A hash table of words with the numbers of their occurrences.

#include "text/word_counts.hpp"

#include <utility>

#include "heed/core/error.hpp"
#include "text/hash.hpp"

namespace heed::text {

WordCounts::WordCounts() : slots_(1024, Slot{0, 0}) {}

void WordCounts::add(std::string_view word) {
  const std::uint64_t hash = hash_bytes(word);
  const auto upper = static_cast<std::uint32_t>(hash >> 32U);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = static_cast<std::size_t>(hash) & mask;
  while (slots_[at].word != 0) {
    if (slots_[at].hash == upper) {
      CountedWord& known = words_[slots_[at].word - 1];
      if (known.text == word) {
        ++known.count;
        return;
      }
    }
    at = (at + 1) & mask;
  }
  if (words_.size() >= 0xFFFFFFFFU) throw_argument_error("corpus has 2^32 or more distinct words");
  words_.push_back({word, 1});
  slots_[at] = {upper, static_cast<std::uint32_t>(words_.size())};
  if (2 * words_.size() > slots_.size()) grow();
}

void WordCounts::grow() {
  std::vector<Slot> larger(2 * slots_.size(), Slot{0, 0});
  const std::size_t mask = larger.size() - 1;
  for (const Slot& slot : slots_) {
    if (slot.word == 0) continue;
    std::size_t at = static_cast<std::size_t>(hash_bytes(words_[slot.word - 1].text)) & mask;
    while (larger[at].word != 0) at = (at + 1) & mask;
    larger[at] = slot;
  }
  slots_ = std::move(larger);
}

}  // namespace heed::text
