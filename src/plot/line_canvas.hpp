#pragma once

// The canvas that lines and points are drawn on.

#include <cstdint>
#include <vector>

#include "heed/plot/display_text.hpp"
#include "plot/text_block.hpp"

namespace heed::plot {

/// A point of a plot area in fractions of it: (0, 0) is the lower left corner, (1, 1) the upper right one.
struct Place {
  double x;
  double y;
};

/// The color of the n-th series out of the terminal's 256.
int series_color(std::size_t series);

/// Lines drawn with the dots of Braille characters, 2 x 4 to a cell; in ASCII with one mark per cell.
class LineCanvas {
 public:
  LineCanvas(Index columns, Index rows, Charset charset);

  /// Draws what lies inside the area. series chooses the dashes or the mark.
  void line(Place from, Place to, std::size_t series);
  /// A point that no line leads to: four dots, so that it is seen.
  void point(Place place, std::size_t series);

  void append_row(TextLine& line, Index row, bool color) const;

 private:
  struct Cell {
    std::uint8_t dots = 0;
    bool drawn = false;
    std::size_t series = 0;  ///< The one drawn last.
  };

  void dot(Index x, Index y, std::size_t series);
  [[nodiscard]] Index dot_x(double fraction) const;
  [[nodiscard]] Index dot_y(double fraction) const;

  Charset charset_;
  Index columns_;
  Index rows_;
  Index cell_width_;  ///< In dots.
  Index cell_height_;
  std::vector<Cell> cells_;
};

}  // namespace heed::plot
