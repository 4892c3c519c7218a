#include "plot/color_scale.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "plot/number_text.hpp"

namespace heed::plot {
namespace {

// Each step of a scale is lighter (or, from the middle of the second, darker) than the one before: it can be
// read in grey and by people who do not tell red from green.
constexpr std::array<Rgb, 7> one_sign{{{18, 16, 48},
                                       {52, 38, 118},
                                       {40, 88, 152},
                                       {24, 136, 148},
                                       {66, 182, 112},
                                       {176, 216, 72},
                                       {254, 244, 168}}};
constexpr std::array<Rgb, 7> two_signs{{{24, 48, 120},
                                        {58, 110, 190},
                                        {150, 190, 226},
                                        {246, 244, 240},
                                        {242, 176, 142},
                                        {208, 84, 70},
                                        {120, 18, 42}}};

std::uint8_t mix(std::uint8_t from, std::uint8_t to, double part) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * part));
}

Rgb at_fraction(std::span<const Rgb> scale, double fraction) {
  const double position = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(scale.size() - 1);
  const std::size_t below = std::min(static_cast<std::size_t>(position), scale.size() - 2);
  const double part = position - static_cast<double>(below);
  const Rgb a = scale[below];
  const Rgb b = scale[below + 1];
  return {mix(a.red, b.red, part), mix(a.green, b.green, part), mix(a.blue, b.blue, part)};
}

constexpr std::array<std::uint8_t, 6> cube_levels{0, 95, 135, 175, 215, 255};

std::size_t nearest_level(std::uint8_t channel) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < cube_levels.size(); ++i) {
    if (std::abs(cube_levels[i] - channel) < std::abs(cube_levels[best] - channel)) best = i;
  }
  return best;
}

// A channel spread below this is drawn as a grey. A dark blue is also near to a grey, but would lose its hue
// there.
constexpr int least_hue = 12;

bool is_dark(Rgb color) {
  return 299 * color.red + 587 * color.green + 114 * color.blue < 128000;
}

}  // namespace

Rgb heat_color(double value, ValueRange range) {
  if (range.low < 0 && range.high > 0) {
    const double reach = std::max(-range.low, range.high);
    return at_fraction(two_signs, fraction_of_range(value, -reach, reach));
  }
  return at_fraction(one_sign, fraction_of_range(value, range.low, range.high));
}

int nearest_indexed(Rgb color) {
  const std::size_t red = nearest_level(color.red);
  const std::size_t green = nearest_level(color.green);
  const std::size_t blue = nearest_level(color.blue);
  const auto [least, most] = std::minmax({color.red, color.green, color.blue});
  if (most - least <= least_hue) return 232 + std::clamp((least + most) / 20, 0, 23);
  return 16 + static_cast<int>(36 * red + 6 * green + blue);
}

std::string background(Rgb color, ColorDepth depth) {
  if (depth == ColorDepth::none) return "";
  const std::string ink = is_dark(color) ? "\x1b[38;5;231;" : "\x1b[38;5;16;";
  if (depth == ColorDepth::indexed) return ink + "48;5;" + std::to_string(nearest_indexed(color)) + "m";
  return ink + "48;2;" + std::to_string(color.red) + ";" + std::to_string(color.green) + ";" +
         std::to_string(color.blue) + "m";
}

std::string foreground(int indexed) {
  return "\x1b[38;5;" + std::to_string(indexed) + "m";
}

}  // namespace heed::plot
