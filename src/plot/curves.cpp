// Plots of curves over numbers or steps.

#include "heed/plot/curves.hpp"

#include <algorithm>
#include <cmath>

#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "plot/color_scale.hpp"
#include "plot/line_canvas.hpp"
#include "plot/number_text.hpp"
#include "plot/plot_frame.hpp"

namespace heed {
namespace {

using plot::TextLine;

// A series as the drawing sees it, whatever owns its numbers.
struct Curve {
  std::string_view name;
  std::span<const double> x;  ///< Empty: 0, 1, 2, ...
  std::span<const double> y;

  [[nodiscard]] double x_at(std::size_t i) const { return x.empty() ? static_cast<double>(i) : x[i]; }
};

enum class Drawable { yes, not_finite, not_positive };

struct Left {
  Index not_finite = 0;
  Index not_positive = 0;
  Index outside = 0;
};

Drawable drawable(double x, double y, bool log_y) {
  if (!detail::is_finite(x) || !detail::is_finite(y)) return Drawable::not_finite;
  return log_y && y <= 0 ? Drawable::not_positive : Drawable::yes;
}

void check_sizes(std::span<const Curve> curves) {
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i];
    if (curve.x.empty() || curve.x.size() == curve.y.size()) continue;
    throw_shape_error("series " + std::to_string(i) + " (" + truncated(curve.name, 40) + ") has " +
                      std::to_string(curve.x.size()) + " x and " + std::to_string(curve.y.size()) + " y");
  }
}

bool within(double value, const std::optional<ValueRange>& range) {
  return !range || (value >= range->low && value <= range->high);
}

void draw_curve(plot::LineCanvas& canvas, const plot::PlotFrame& frame, const Curve& curve,
                std::size_t series, bool log_y) {
  bool joined = false;  // the point before was drawn, so a line leads from it
  bool alone = false;   // and nothing has been joined to it yet
  plot::Place last{0, 0};
  for (std::size_t i = 0; i < curve.y.size(); ++i) {
    const double x = curve.x_at(i);
    const double y = curve.y[i];
    plot::Place place{0, 0};
    bool usable = drawable(x, y, log_y) == Drawable::yes;
    if (usable) {
      place = {frame.x.fraction(x), frame.y.fraction(y)};
      usable = detail::is_finite(place.x) && detail::is_finite(place.y);
    }
    if (usable && joined) {
      canvas.line(last, place, series);
    } else if (!usable && alone) {
      canvas.point(last, series);
    }
    alone = usable && !joined;
    joined = usable;
    last = place;
  }
  if (alone) canvas.point(last, series);
}

std::vector<TextLine> legend_of(std::span<const Curve> curves, const PlotOptions& options) {
  constexpr Index sample_columns = 4;
  std::vector<TextLine> lines;
  const bool named =
      std::any_of(curves.begin(), curves.end(), [](const Curve& c) { return !c.name.empty(); });
  if (!named) return lines;
  const Index room = std::min(options.max_label_width, options.width - sample_columns - 1);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::string name = truncated(curves[i].name, room, options.charset);
    const Index width = display_width(name);
    const Index entry = sample_columns + 1 + width;
    if (lines.empty() || lines.back().columns() + 3 + entry > options.width) {
      lines.emplace_back();
    } else {
      lines.back().gap(3);
    }
    plot::LineCanvas sample(sample_columns, 1, options.charset);
    sample.line({0, 0.4}, {1, 0.4}, i);
    sample.append_row(lines.back(), 0, options.color);
    lines.back().gap(1).add(name, width);
  }
  return lines;
}

std::vector<std::string> notes_of(const Left& left, std::span<const Curve> curves, Index columns) {
  std::vector<std::string> notes;
  std::size_t longest = 0;
  std::size_t total = 0;
  for (const Curve& curve : curves) {
    longest = std::max(longest, curve.y.size());
    total += curve.y.size();
  }
  if (total == 0) notes.emplace_back("no points to draw");
  if (longest > static_cast<std::size_t>(columns)) {
    notes.push_back(std::to_string(longest) + " points in " + std::to_string(columns) +
                    " columns: each column spans its smallest to its largest value");
  }
  if (left.not_finite > 0) notes.push_back(plot::counted(left.not_finite, "point") + " not finite, left out");
  if (left.not_positive > 0) {
    notes.push_back(plot::counted(left.not_positive, "point") +
                    " not above 0, left out of the logarithmic axis");
  }
  if (left.outside > 0) notes.push_back(plot::counted(left.outside, "point") + " outside of the range");
  return notes;
}

std::string draw(std::span<const Curve> curves, const PlotOptions& options) {
  plot::check_plot_options(options);
  check_sizes(curves);
  plot::Extent x_values;
  plot::Extent y_values;
  Left left;
  for (const Curve& curve : curves) {
    for (std::size_t i = 0; i < curve.y.size(); ++i) {
      const double x = curve.x_at(i);
      const double y = curve.y[i];
      const Drawable kind = drawable(x, y, options.log_y);
      if (kind == Drawable::not_finite) ++left.not_finite;
      if (kind == Drawable::not_positive) ++left.not_positive;
      if (kind != Drawable::yes) continue;
      if (!within(x, options.x_range) || !within(y, options.y_range)) ++left.outside;
      x_values.add(x);
      if (within(x, options.x_range)) y_values.add(y);
    }
  }
  const plot::PlotFrame frame =
      plot::make_frame(x_values, y_values, plot::AxisEnds::exact, plot::AxisEnds::round, options);
  plot::LineCanvas canvas(frame.columns, frame.rows, options.charset);
  for (std::size_t i = 0; i < curves.size(); ++i) draw_curve(canvas, frame, curves[i], i, options.log_y);
  return plot::draw_frame(
      frame, options, legend_of(curves, options),
      [&](TextLine& line, Index row) { canvas.append_row(line, row, options.color); },
      notes_of(left, curves, frame.columns));
}

}  // namespace

std::string plot_curves(std::span<const Series> series, const PlotOptions& options) {
  std::vector<Curve> curves;
  curves.reserve(series.size());
  for (const Series& one : series) curves.push_back({one.name, one.x, one.y});
  return draw(curves, options);
}

std::string plot_curves(std::initializer_list<Series> series, const PlotOptions& options) {
  return plot_curves(std::span<const Series>(series.begin(), series.size()), options);
}

std::string plot_curve(std::span<const double> y, const PlotOptions& options) {
  const Curve curve{{}, {}, y};
  return draw(std::span<const Curve>(&curve, 1), options);
}

}  // namespace heed
