// Color scales of the terminal, in 24 bits and out of its 256 colors.

#include "plot/color_scale.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "plot/number_text.hpp"

namespace heed::plot {
namespace {

struct Rgb {
  std::uint8_t red;
  std::uint8_t green;
  std::uint8_t blue;
};

// Each step of a scale is lighter (or, from the middle of the second, darker) than the one before: it can be
// read in gray and by people who do not tell red from green.
constexpr std::array<Rgb, 7> kOneSign{{{18, 16, 48},
                                       {52, 38, 118},
                                       {40, 88, 152},
                                       {24, 136, 148},
                                       {66, 182, 112},
                                       {176, 216, 72},
                                       {254, 244, 168}}};
constexpr std::array<Rgb, 7> kTwoSigns{{{24, 48, 120},
                                        {58, 110, 190},
                                        {150, 190, 226},
                                        {246, 244, 240},
                                        {242, 176, 142},
                                        {208, 84, 70},
                                        {120, 18, 42}}};

// Both walks within the 6 x 6 x 6 cube of the 256 colors. They are chosen, not rounded from the ones above:
// the nearest color of a coarse cube may have another hue, which shows as specks.
constexpr std::array<int, 11> kOneSignIndexed{17, 18, 24, 30, 36, 42, 78, 114, 150, 186, 229};
constexpr std::array<int, 13> kTwoSignsIndexed{18, 25, 32, 74, 117, 189, 255, 224, 217, 210, 167, 124, 88};

std::uint8_t mix(std::uint8_t from, std::uint8_t to, double part) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * part));
}

Rgb blended(std::span<const Rgb> scale, double fraction) {
  const double position = fraction * static_cast<double>(scale.size() - 1);
  const std::size_t below = std::min(static_cast<std::size_t>(position), scale.size() - 2);
  const double part = position - static_cast<double>(below);
  const Rgb a = scale[below];
  const Rgb b = scale[below + 1];
  return {mix(a.red, b.red, part), mix(a.green, b.green, part), mix(a.blue, b.blue, part)};
}

int nearest(std::span<const int> scale, double fraction) {
  return scale[static_cast<std::size_t>(std::lround(fraction * static_cast<double>(scale.size() - 1)))];
}

}  // namespace

std::string heat_background(double value, ValueRange range, ColorDepth depth) {
  const bool both_signs = range.low < 0 && range.high > 0;
  const double reach = std::max(-range.low, range.high);
  const double place =
      both_signs ? fraction_of_range(value, -reach, reach) : fraction_of_range(value, range.low, range.high);
  const double fraction = std::clamp(place, 0.0, 1.0);
  switch (depth) {
    case ColorDepth::indexed: {
      const int index = both_signs ? nearest(kTwoSignsIndexed, fraction) : nearest(kOneSignIndexed, fraction);
      return std::string("\x1b[48;5;").append(std::to_string(index)).append("m");
    }
    case ColorDepth::true_color: {
      const Rgb color = both_signs ? blended(kTwoSigns, fraction) : blended(kOneSign, fraction);
      return std::string("\x1b[48;2;")
          .append(std::to_string(color.red) + ";")
          .append(std::to_string(color.green) + ";")
          .append(std::to_string(color.blue) + "m");
    }
    case ColorDepth::none:
      break;
  }
  return "";
}

std::string foreground(int indexed) {
  return std::string("\x1b[38;5;").append(std::to_string(indexed)).append("m");
}

}  // namespace heed::plot
