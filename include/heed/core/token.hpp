#pragma once

// The number of a token, as text, layers and models share it.

#include "heed/core/config.hpp"

#include <cstdint>

namespace heed {

/// A token's number: 0 .. vocab_size - 1.
using TokenId = std::int32_t;

/// A target that asks for nothing: it has no loss and no gradient.
inline constexpr TokenId kIgnoredTarget = -100;

}  // namespace heed
