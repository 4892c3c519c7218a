#pragma once

// How the values of a heat map become levels of its cells.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/plot/heat_map.hpp"

namespace heed::plot {

/// The scale of a picture, and what lies off it.
struct HeatMapScale {
  ValueRange range{0, 1};
  bool all_equal = false;  ///< No range was given and every value is range.low: there is nothing to compare.
  Index nan = 0;           ///< Cells that are NaN, and so on.
  Index plus_inf = 0;
  Index minus_inf = 0;
  Index below = 0;  ///< Finite cells below the range.
  Index above = 0;
};

inline constexpr int kHighestLevel = 8;

HeatMapScale heat_map_scale(std::span<const double> cells, const std::optional<ValueRange>& given);

/// 0 to kHighestLevel for a finite value; outside the range the nearer of the two.
int heat_level(double value, const HeatMapScale& scale);

/// '?', '!' or '.' for NaN, +inf and -inf; 0 for a finite value.
char special_mark(double value);

/// What a reader must know about the picture, in sentences: the reduction, the marks, the clamped values.
std::vector<std::string> heat_map_notes(const HeatMapPlan& plan, const HeatMapScale& scale,
                                        const HeatMapOptions& options, bool numbers);

}  // namespace heed::plot
