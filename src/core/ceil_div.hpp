#pragma once

// Division that rounds up.

#include "heed/core/view.hpp"

namespace heed {

/// How many steps reach n, for n >= 0.
constexpr Index ceil_div(Index n, Index step) {
  return (n + step - 1) / step;
}

}  // namespace heed
