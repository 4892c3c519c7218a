#pragma once

#include <cstddef>

#include "heed/core/config.hpp"

namespace heed {

/// Rows, columns, positions and counts: signed, as wide as an address.
using Index = std::ptrdiff_t;

}  // namespace heed
