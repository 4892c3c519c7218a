#pragma once

// Curves and scatter plots as text: a training run, or words by the two main directions of their embeddings.
//
//   std::cout << heed::plot_curve(losses);                           // losses: std::vector<double>
//   std::cout << heed::plot_curves({{"train", {}, train}, {"held out", steps, held_out}}, options);
//   std::cout << heed::plot_scatter({{x0, y0, "cat"}, {x1, y1, "dog"}}, options);
//
// The result is a string of lines, each ended by '\n', all of the same display width, always valid UTF-8
// (only ASCII with Charset::ascii). Nothing is printed. Names and labels may be any bytes (see
// display_text.hpp).
//
// What cannot be drawn is never dropped in silence: a line below the picture counts values that are no finite
// numbers or, on a logarithmic axis, not positive, points outside a given range, and labels without room.
//
// Time and memory: O(points + cells). All functions may run in any threads at once.

#include "heed/core/config.hpp"

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/plot/display_text.hpp"
#include "heed/plot/heat_map.hpp"

namespace heed {

/// Values y against x. Where x is empty, the values stand at 0, 1, 2, ...
struct Series {
  std::string name{};       ///< Shown in the legend; a plot whose series have no names has none.
  std::vector<double> x{};  ///< Empty, or as many as y. Points are joined in the order given.
  std::vector<double> y{};  ///< NaN and infinities leave a gap.
};

/// A point of a scatter plot.
struct LabeledPoint {
  double x = 0;
  double y = 0;
  std::string label{};  ///< May be empty.
};

/// How a plot is drawn.
struct PlotOptions {
  Charset charset = Charset::utf8;  ///< utf8: Braille dots and line-drawing characters.
  bool color = false;               ///< Series in colors of the terminal's 256.
  std::string title{};
  std::string x_label{};
  std::string y_label{};
  bool log_y = false;                   ///< Logarithmic y axis; values of 0 and below leave a gap.
  std::optional<ValueRange> x_range{};  ///< Given: both finite, low < high. Else chosen from the points.
  std::optional<ValueRange> y_range{};  ///< As x_range; with log_y also low > 0.
  Index width = 80;                     ///< Columns of the whole picture, at least 40: see Terminal::width.
  Index height = 16;                    ///< Lines of the plot area alone, at least 3.
  Index max_label_width = 20;           ///< Columns of a name or label, at least 1.
};

/// Draws series as lines: the first solid, the next dashed, dotted and so on; in ASCII each with its own
/// mark. All points are drawn, also where there are more than columns: a column then spans the smallest to
/// the largest of its values. A point between two gaps is a dot. Throws ArgumentError for an option out of
/// bounds, ShapeError for x and y of different sizes, naming both.
HEED_EXPORT std::string plot_curves(std::span<const Series> series, const PlotOptions& options = {});
HEED_EXPORT std::string plot_curves(std::initializer_list<Series> series, const PlotOptions& options = {});

/// Draws one series of values at 0, 1, 2, ...
HEED_EXPORT std::string plot_curve(std::span<const double> y, const PlotOptions& options = {});

/// Draws points with their labels beside them. Points are placed first and labels never cover them nor each
/// other: a label goes right of its point, else left, above or below; else it is shortened; else left out.
/// Earlier points choose first. log_y is for curves alone: ArgumentError here.
HEED_EXPORT std::string plot_scatter(std::span<const LabeledPoint> points, const PlotOptions& options = {});
HEED_EXPORT std::string plot_scatter(std::initializer_list<LabeledPoint> points,
                                     const PlotOptions& options = {});

}  // namespace heed
