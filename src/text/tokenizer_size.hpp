#pragma once

// The size of a tokenizer that is known by its JSON alone.

#include <optional>
#include <string_view>

#include "heed/core/view.hpp"

namespace heed::text {

/// How many tokens a tokenizer has, from what its to_json() returned; nothing if this is no JSON of
/// CharTokenizer or BpeTokenizer. Whether they are good tokens is not looked at.
std::optional<Index> tokenizer_size(std::string_view json);

}  // namespace heed::text
