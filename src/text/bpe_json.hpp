#pragma once

// A tokenizer's JSON.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/text/bpe.hpp"
#include "text/vocabulary.hpp"

namespace heed::text {

std::string write_bpe_json(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges);

/// Throws FileError that says what is wrong.
std::pair<Vocabulary, std::vector<BpeMerge>> read_bpe_json(std::string_view json);

}  // namespace heed::text
