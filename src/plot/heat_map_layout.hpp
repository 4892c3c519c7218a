#pragma once

// How a heat map is laid out: labels, cells and the room they take.

#include <string>
#include <vector>

#include "heed/plot/heat_map.hpp"

namespace heed::plot {

/// The labels of the cells drawn and the room they leave.
struct HeatMapLabels {
  bool framed = false;              ///< There are labels, so the cells stand in a frame.
  std::vector<std::string> rows{};  ///< One for each line of cells, or none; not yet escaped.
  Index row_columns = 0;            ///< Columns of the row labels.
  Index cell_columns = 0;           ///< Columns left for the cells of one line.
};

inline Charset charset_of(HeatMapForm form) {
  return form == HeatMapForm::ascii ? Charset::ascii : Charset::utf8;
}

inline bool is_color(HeatMapForm form) {
  return form == HeatMapForm::indexed_color || form == HeatMapForm::true_color;
}

/// Columns that a label takes in a form.
Index label_columns(const std::string& label, HeatMapForm form);

/// The row labels of a picture in which each line stands for block_rows rows.
HeatMapLabels heat_map_labels(Index rows, Index block_rows, const HeatMapOptions& options);

}  // namespace heed::plot
