#pragma once

// The version of the headers, and of the compiled library.

#include "heed/core/config.hpp"

#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0

namespace heed {

/// Returns the version of the compiled library, "0.1.0": compare it with the HEED_VERSION_* macros of the
/// headers.
HEED_EXPORT const char* version() noexcept;

}  // namespace heed
