#pragma once

#include <cstdint>
#include <string>

#include "heed/heat_map.hpp"

namespace heed::plot {

struct Rgb {
  std::uint8_t red;
  std::uint8_t green;
  std::uint8_t blue;
  friend bool operator==(Rgb, Rgb) = default;
};

/// The colour of a value in a range. From dark blue over green to pale yellow; where the range has both
/// signs, blue for negative, red for positive, pale at 0, with the same strength at the same distance from 0.
Rgb heat_color(double value, ValueRange range);

/// The nearest of the 6 x 6 x 6 cube, the colours that are the same in all terminals, or of the 24 greys for
/// a grey.
int nearest_indexed(Rgb color);

/// The escape sequence that sets the background, with a foreground that can be read on it.
std::string background(Rgb color, ColorDepth depth);

/// The escape sequence that sets the foreground out of the 256 colours.
std::string foreground(int indexed);

inline constexpr const char* reset_colors = "\x1b[0m";

}  // namespace heed::plot
