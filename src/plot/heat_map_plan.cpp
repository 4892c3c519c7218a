// Plans a heat map before any value is read: its form, the size of its blocks, and its labels.

#include <algorithm>
#include <cmath>

#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/plot/heat_map.hpp"
#include "plot/heat_map_layout.hpp"
#include "plot/number_text.hpp"

namespace heed {
namespace {

constexpr Index kMinWidth = 40;

void require_at_least(const char* name, Index value, Index least) {
  if (value >= least) return;
  throw_argument_error(std::string(name) + " is " + std::to_string(value) + ", it must be at least " +
                       std::to_string(least));
}

void require_labels(const char* name, const std::vector<std::string>& labels, Index count, const char* what) {
  if (labels.empty() || static_cast<Index>(labels.size()) == count) return;
  throw_shape_error(std::string(name) + " has " + std::to_string(labels.size()) +
                    " entries, the matrix has " + std::to_string(count) + " " + what);
}

void check(Index rows, Index cols, const HeatMapOptions& options) {
  require_at_least("rows", rows, 0);
  require_at_least("cols", cols, 0);
  require_at_least("max_rows", options.max_rows, 1);
  require_at_least("max_cols", options.max_cols, 1);
  require_at_least("max_width", options.max_width, kMinWidth);
  require_at_least("max_label_width", options.max_label_width, 1);
  require_labels("row_labels", options.row_labels, rows, "rows");
  require_labels("col_labels", options.col_labels, cols, "columns");
  if (!options.range) return;
  const auto [low, high] = *options.range;
  if (detail::is_finite(low) && detail::is_finite(high) && low < high) return;
  throw_argument_error("range is [" + plot::short_number(low, 17) + ", " + plot::short_number(high, 17) +
                       "], it must be finite with low < high");
}

Index ceil_divide(Index count, Index parts) {
  return count / parts + (count % parts != 0 ? 1 : 0);
}

// The cells that surely have room in a line, whatever the values turn out to be.
Index cells_in(Index columns, const HeatMapOptions& options) {
  if (plot::is_color(options.form)) return columns / 2;
  const bool numbers = options.form == HeatMapForm::ascii && options.ascii_cells == AsciiCells::numbers;
  return numbers ? (columns - 1) / (plot::kWidestCell + 1) : columns;
}

}  // namespace

HeatMapPlan plan_heat_map(Index rows, Index cols, const HeatMapOptions& options) {
  check(rows, cols, options);
  HeatMapPlan plan{rows, cols, 1, 1, 0, 0};
  plan.block_rows = std::max<Index>(1, ceil_divide(rows, options.max_rows));
  plan.shown_rows = ceil_divide(rows, plan.block_rows);
  const Index room = plot::heat_map_labels(rows, plan.block_rows, options).cell_columns;
  const Index most = std::clamp<Index>(cells_in(room, options), 1, options.max_cols);
  plan.block_cols = std::max<Index>(1, ceil_divide(cols, most));
  plan.shown_cols = ceil_divide(cols, plan.block_cols);
  return plan;
}

HeatMapForm heat_map_form(ColorDepth depth, bool unicode) {
  if (depth == ColorDepth::true_color) return HeatMapForm::true_color;
  if (depth == ColorDepth::indexed) return HeatMapForm::indexed_color;
  return unicode ? HeatMapForm::blocks : HeatMapForm::ascii;
}

namespace plot {

Index label_columns(const std::string& label, HeatMapForm form) {
  return form == HeatMapForm::ascii ? static_cast<Index>(escaped(label, Charset::ascii).size())
                                    : display_width(label);
}

HeatMapLabels heat_map_labels(Index rows, Index block_rows, const HeatMapOptions& options) {
  HeatMapLabels labels;
  const bool numbered = options.index_labels || options.form == HeatMapForm::ascii;
  const bool has_rows = numbered || !options.row_labels.empty();
  labels.framed = has_rows || !options.col_labels.empty();
  for (Index row = 0; has_rows && row < rows; row += block_rows) {
    labels.rows.push_back(options.row_labels.empty() ? std::to_string(row)
                                                     : options.row_labels[static_cast<std::size_t>(row)]);
    labels.row_columns = std::max(labels.row_columns, label_columns(labels.rows.back(), options.form));
    if (rows - row <= block_rows) break;
  }
  labels.row_columns = std::min({labels.row_columns, options.max_label_width, options.max_width / 2});
  const Index separator = labels.row_columns > 0 ? 1 : 0;
  const Index frame = labels.framed && !is_color(options.form) ? 2 : 0;
  labels.cell_columns = options.max_width - labels.row_columns - separator - frame;
  return labels;
}

}  // namespace plot
}  // namespace heed
