#pragma once

// Colors for values, as the terminal's escape sequences.

#include <string>

#include "heed/plot/heat_map.hpp"

namespace heed::plot {

/// The escape sequence that sets the background to the color of a finite value in a range: from dark blue
/// over green to pale yellow; where the range has both signs, blue for negative, red for positive, pale at 0,
/// with the same strength at the same distance from 0. Empty without colors.
std::string heat_background(double value, ValueRange range, ColorDepth depth);

/// The escape sequence that sets the foreground out of the 256 colors.
std::string foreground(int indexed);

inline constexpr const char* kResetColors = "\x1b[0m";

}  // namespace heed::plot
