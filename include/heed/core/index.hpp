#pragma once

// The integer that Heed counts with.

#include "heed/core/config.hpp"

#include <cstddef>

namespace heed {

/// Rows, columns, positions and counts: signed, as wide as an address.
using Index = std::ptrdiff_t;

}  // namespace heed
