// Scatter plots whose labels keep clear of points and of each other.

#include <algorithm>
#include <array>
#include <cmath>

#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/plot/curves.hpp"
#include "plot/color_scale.hpp"
#include "plot/line_canvas.hpp"
#include "plot/plot_frame.hpp"

namespace heed {
namespace {

using plot::TextLine;

constexpr Index kShortestLabel = 3;  // a character, perhaps a wide one, and the mark of the cut

struct Spot {
  Index column;
  Index row;
  const LabeledPoint* point;
};

/// The plot area as cells: points, and labels that keep clear of them and of each other.
class ScatterCanvas {
 public:
  ScatterCanvas(Index columns, Index rows, Charset charset)
      : columns_(columns), rows_(rows), charset_(charset), cells_(static_cast<std::size_t>(columns * rows)) {}

  bool place_point(Index column, Index row) {
    Cell& cell = at(column, row);
    if (cell.kind == Kind::point) return false;
    cell = {Kind::point, charset_ == Charset::utf8 ? "●" : "o"};
    return true;
  }

  // Light lines where the axes are 0, under everything else.
  void draw_zero_lines(std::optional<Index> column, std::optional<Index> row) {
    if (charset_ == Charset::ascii) return;
    for (Index x = 0; row && x < columns_; ++x) at(x, *row).text = "┈";
    for (Index y = 0; column && y < rows_; ++y) at(*column, y).text = "┊";
  }

  // Nothing there nor on either side: a label must not touch another point, which it would seem to name.
  [[nodiscard]] bool is_free(Index start, Index row, Index width) const {
    if (row < 0 || row >= rows_ || start < 0 || start + width > columns_) return false;
    const Index last = std::min(start + width, columns_ - 1);
    for (Index column = std::max<Index>(start - 1, 0); column <= last; ++column) {
      if (at(column, row).kind != Kind::empty) return false;
    }
    return true;
  }

  void place_label(Index start, Index row, Index width, std::string text) {
    for (Index column = start; column < start + width; ++column) at(column, row) = {Kind::label, ""};
    at(start, row).text = std::move(text);
  }

  void append_row(TextLine& line, Index row, bool color) const {
    for (Index column = 0; column < columns_; ++column) {
      const Cell& cell = at(column, row);
      if (cell.kind != Kind::label && cell.text.empty()) {
        line.gap(1);
      } else if (color && cell.kind == Kind::point) {
        line.add(plot::foreground(plot::series_color(0)), 0).add(cell.text, 1).add(plot::kResetColors, 0);
      } else {
        line.add(cell.text, 1);  // of a label, the first cell carries all of it, the others are empty
      }
    }
  }

 private:
  enum class Kind { empty, point, label };
  struct Cell {
    Kind kind = Kind::empty;
    std::string text{};
  };

  Cell& at(Index column, Index row) { return cells_[static_cast<std::size_t>(row * columns_ + column)]; }
  [[nodiscard]] const Cell& at(Index column, Index row) const {
    return cells_[static_cast<std::size_t>(row * columns_ + column)];
  }

  Index columns_;
  Index rows_;
  Charset charset_;
  std::vector<Cell> cells_;
};

enum class Labeled { whole, shortened, left_out };

Labeled place_label(ScatterCanvas& canvas, const Spot& spot, const PlotOptions& options) {
  const std::string text = truncated(spot.point->label, options.max_label_width, options.charset);
  const Index width = display_width(text);
  const bool cut = text != escaped(spot.point->label, options.charset);
  const auto [column, row, point] = spot;
  struct Start {
    Index column;
    Index row;
  };
  const std::array<Start, 8> starts{{{column + 2, row},
                                     {column - 1 - width, row},
                                     {column - width / 2, row - 1},
                                     {column - width / 2, row + 1},
                                     {column + 1, row - 1},
                                     {column + 1, row + 1},
                                     {column - width, row - 1},
                                     {column - width, row + 1}}};
  for (const Start& start : starts) {
    if (!canvas.is_free(start.column, start.row, width)) continue;
    canvas.place_label(start.column, start.row, width, text);
    return cut ? Labeled::shortened : Labeled::whole;
  }
  for (Index room = width - 1; room >= kShortestLabel; --room) {
    if (!canvas.is_free(column + 2, row, room)) continue;
    canvas.place_label(column + 2, row, room, padded(text, room, Align::left, options.charset));
    return Labeled::shortened;
  }
  return Labeled::left_out;
}

std::optional<Index> zero_cell(const plot::Axis& axis, Index cells, bool downwards) {
  const double fraction = axis.fraction(0);
  if (!(fraction > 0 && fraction < 1)) return std::nullopt;
  return static_cast<Index>(
      std::lround((downwards ? 1 - fraction : fraction) * static_cast<double>(cells - 1)));
}

}  // namespace

std::string plot_scatter(std::span<const LabeledPoint> points, const PlotOptions& options) {
  plot::check_plot_options(options);
  if (options.log_y) throw_argument_error("log_y is set, a scatter plot has linear axes only");
  plot::Extent x_values;
  plot::Extent y_values;
  Index not_finite = 0;
  for (const LabeledPoint& point : points) {
    if (detail::is_finite(point.x) && detail::is_finite(point.y)) {
      x_values.add(point.x);
      y_values.add(point.y);
    } else {
      ++not_finite;
    }
  }
  const plot::PlotFrame frame =
      plot::make_frame(x_values, y_values, plot::AxisEnds::margins, plot::AxisEnds::margins, options);
  ScatterCanvas canvas(frame.columns, frame.rows, options.charset);
  canvas.draw_zero_lines(zero_cell(frame.x, frame.columns, false), zero_cell(frame.y, frame.rows, true));

  std::vector<Spot> spots;
  Index outside = 0;
  Index covered = 0;
  for (const LabeledPoint& point : points) {
    if (!detail::is_finite(point.x) || !detail::is_finite(point.y)) continue;
    const double x = frame.x.fraction(point.x);
    const double y = frame.y.fraction(point.y);
    if (!(x >= 0 && x <= 1 && y >= 0 && y <= 1)) {
      ++outside;
      continue;
    }
    const Spot spot{static_cast<Index>(std::lround(x * static_cast<double>(frame.columns - 1))),
                    static_cast<Index>(std::lround((1 - y) * static_cast<double>(frame.rows - 1))), &point};
    if (!canvas.place_point(spot.column, spot.row)) ++covered;
    spots.push_back(spot);
  }
  Index shortened = 0;
  Index left_out = 0;
  for (const Spot& spot : spots) {
    if (display_width(spot.point->label) == 0) continue;
    const Labeled result = place_label(canvas, spot, options);
    if (result == Labeled::shortened) ++shortened;
    if (result == Labeled::left_out) ++left_out;
  }

  std::vector<std::string> notes;
  if (points.empty()) notes.emplace_back("no points to draw");
  if (covered > 0) notes.push_back(plot::counted(covered, "point") + " in the cell of another");
  if (shortened > 0) notes.push_back(plot::counted(shortened, "label") + " shortened");
  if (left_out > 0) notes.push_back(plot::counted(left_out, "label") + " without room, left out");
  if (not_finite > 0) notes.push_back(plot::counted(not_finite, "point") + " not finite, left out");
  if (outside > 0) notes.push_back(plot::counted(outside, "point") + " outside of the range");
  return plot::draw_frame(
      frame, options, {}, [&](TextLine& line, Index row) { canvas.append_row(line, row, options.color); },
      notes);
}

std::string plot_scatter(std::initializer_list<LabeledPoint> points, const PlotOptions& options) {
  return plot_scatter(std::span<const LabeledPoint>(points.begin(), points.size()), options);
}

}  // namespace heed
