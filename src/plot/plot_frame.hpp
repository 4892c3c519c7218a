#pragma once

// The frame of every plot.

#include <functional>
#include <string>
#include <vector>

#include "heed/plot/curves.hpp"
#include "plot/axis.hpp"
#include "plot/text_block.hpp"

namespace heed::plot {

/// Throws ArgumentError for an option out of its bounds.
void check_plot_options(const PlotOptions& options);

/// The plot area and its axes: what a picture has before anything is drawn into it.
struct PlotFrame {
  Axis x{};
  Axis y{};
  Index gutter = 0;   ///< Columns of the texts left of the y axis.
  Index columns = 0;  ///< Cells of the plot area.
  Index rows = 0;
};

PlotFrame make_frame(const Extent& x, const Extent& y, AxisEnds x_ends, AxisEnds y_ends,
                     const PlotOptions& options);

/// Title, legend lines, the area with its axes, notes. append_row(line, row) draws a row of the area, exactly
/// frame.columns wide.
std::string draw_frame(const PlotFrame& frame, const PlotOptions& options,
                       const std::vector<TextLine>& legend,
                       const std::function<void(TextLine&, Index)>& append_row,
                       const std::vector<std::string>& notes);

/// "1 point" or "7 points", for the notes.
std::string counted(Index count, const char* what);

}  // namespace heed::plot
