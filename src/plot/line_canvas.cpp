// A canvas of Braille dots or ASCII marks for lines and points.

#include "plot/line_canvas.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "heed/core/float_bits.hpp"
#include "plot/color_scale.hpp"

namespace heed::plot {
namespace {

constexpr std::array<int, 6> kColors{39, 208, 35, 197, 141, 220};
constexpr std::array<char, 8> kMarks{'*', 'o', '+', 'x', '#', '@', '%', '&'};

// The dots of a Braille character by row and column, as bits of its code point above U+2800.
constexpr std::array<std::array<std::uint8_t, 2>, 4> kBrailleBits{
    {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};

// The dashes of a series: which of 8 dots in a row along the line are drawn, the lowest bit first.
constexpr std::array<std::uint8_t, 4> kDashes{0b11111111, 0b00011111, 0b00010001, 0b01011111};

std::string braille(std::uint8_t dots) {
  const unsigned code = 0x2800U + dots;
  return {static_cast<char>(0xE0U | (code >> 12)), static_cast<char>(0x80U | ((code >> 6) & 0x3FU)),
          static_cast<char>(0x80U | (code & 0x3FU))};
}

// Cuts a segment to the unit square (Liang and Barsky's method). False if nothing of it lies there.
bool clip(Place& from, Place& to) {
  const double dx = to.x - from.x;
  const double dy = to.y - from.y;
  double enter = 0;
  double leave = 1;
  const auto cut = [&](double direction, double room) {
    if (direction == 0) return room >= 0;
    const double at = room / direction;
    if (direction < 0) {
      enter = std::max(enter, at);
    } else {
      leave = std::min(leave, at);
    }
    return enter <= leave;
  };
  if (!cut(-dx, from.x) || !cut(dx, 1 - from.x) || !cut(-dy, from.y) || !cut(dy, 1 - from.y)) return false;
  // Values near the largest double: a difference has overflowed, and no part of the line can be placed.
  if (!detail::is_finite(dx) || !detail::is_finite(dy)) return false;
  const Place start = from;
  from = {start.x + enter * dx, start.y + enter * dy};
  if (leave < 1) to = {start.x + leave * dx, start.y + leave * dy};
  return true;
}

Index nearest(double fraction, Index count) {
  return static_cast<Index>(std::lround(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count - 1)));
}

}  // namespace

int series_color(std::size_t series) {
  return kColors[series % kColors.size()];
}

LineCanvas::LineCanvas(Index columns, Index rows, Charset charset)
    : charset_(charset),
      columns_(columns),
      rows_(rows),
      cell_width_(charset == Charset::utf8 ? 2 : 1),
      cell_height_(charset == Charset::utf8 ? 4 : 1),
      cells_(static_cast<std::size_t>(columns * rows)) {}

Index LineCanvas::dot_x(double fraction) const {
  return nearest(fraction, columns_ * cell_width_);
}
Index LineCanvas::dot_y(double fraction) const {
  return nearest(1 - fraction, rows_ * cell_height_);
}

void LineCanvas::dot(Index x, Index y, std::size_t series) {
  Cell& cell = cells_[static_cast<std::size_t>(y / cell_height_ * columns_ + x / cell_width_)];
  const auto row = static_cast<std::size_t>(y % cell_height_);
  const auto column = static_cast<std::size_t>(x % cell_width_);
  cell.dots = static_cast<std::uint8_t>(cell.dots | kBrailleBits[row][column]);
  cell.drawn = true;
  cell.series = series;
}

void LineCanvas::point(Place place, std::size_t series) {
  const bool inside = place.x >= 0 && place.x <= 1 && place.y >= 0 && place.y <= 1;
  if (!inside) return;
  const Index x = dot_x(place.x);
  const Index y = dot_y(place.y);
  for (const Index column : {x, x ^ (cell_width_ - 1)}) {
    for (const Index row : {y, cell_height_ > 1 ? y ^ 1 : y}) dot(column, row, series);
  }
}

// Bresenham's walk along the longer direction. The dashes hang on the place of a dot, not on the way to it,
// so that they stay visible however densely the points lie.
void LineCanvas::line(Place from, Place to, std::size_t series) {
  if (!clip(from, to)) return;
  Index x = dot_x(from.x);
  Index y = dot_y(from.y);
  const Index end_x = dot_x(to.x);
  const Index end_y = dot_y(to.y);
  const Index dx = std::abs(end_x - x);
  const Index dy = std::abs(end_y - y);
  const Index step_x = x < end_x ? 1 : -1;
  const Index step_y = y < end_y ? 1 : -1;
  const unsigned pattern = charset_ == Charset::utf8 ? kDashes[series % kDashes.size()] : 0xFFU;
  Index error = dx - dy;
  while (true) {
    const auto along = static_cast<unsigned>((dx >= dy ? x : y) % 8);
    if (((pattern >> along) & 1U) != 0) dot(x, y, series);
    if (x == end_x && y == end_y) return;
    const Index twice = 2 * error;
    if (twice > -dy) {
      error -= dy;
      x += step_x;
    }
    if (twice < dx) {
      error += dx;
      y += step_y;
    }
  }
}

void LineCanvas::append_row(TextLine& line, Index row, bool color) const {
  int current = -1;
  for (Index column = 0; column < columns_; ++column) {
    const Cell& cell = cells_[static_cast<std::size_t>(row * columns_ + column)];
    if (!cell.drawn) {
      line.gap(1);
      continue;
    }
    const int wanted = series_color(cell.series);
    if (color && wanted != current) line.add(foreground(wanted), 0);
    current = wanted;
    line.add(
        charset_ == Charset::utf8 ? braille(cell.dots) : std::string(1, kMarks[cell.series % kMarks.size()]),
        1);
  }
  if (color && current >= 0) line.add(kResetColors, 0);
}

}  // namespace heed::plot
