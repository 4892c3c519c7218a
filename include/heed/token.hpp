#pragma once

#include <cstdint>

namespace heed {

/// A token's number: 0 .. vocab_size - 1.
using TokenId = std::int32_t;

}  // namespace heed
