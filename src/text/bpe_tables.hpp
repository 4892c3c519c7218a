#pragma once

// The tables behind a BpeTokenizer.

#include <utility>
#include <vector>

#include "heed/text/bpe.hpp"
#include "text/longest_match.hpp"
#include "text/vocabulary.hpp"

namespace heed::text {

/// What a tokenizer is made of.
struct BpeTables {
  BpeTables(Vocabulary the_vocabulary, std::vector<BpeMerge> the_merges)
      : vocabulary(std::move(the_vocabulary)), merges(std::move(the_merges)), longest_match(vocabulary) {}

  Vocabulary vocabulary;
  std::vector<BpeMerge> merges;
  LongestMatch longest_match;
};

}  // namespace heed::text
