// Values on their way to cells: the scale, what lies off it, and the notes about it.

#include "plot/heat_map_values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/core/float_bits.hpp"
#include "plot/number_text.hpp"

namespace heed::plot {
namespace {

// Weights and probabilities that were computed in float may be this far outside of [0, 1].
constexpr double kRounding = 1e-6;

std::string size_text(Index rows, Index cols) {
  return std::to_string(rows) + " x " + std::to_string(cols);
}

std::string cells_text(Index count) {
  return std::to_string(count) + (count == 1 ? " cell" : " cells");
}

std::string reduction_note(const HeatMapPlan& plan, const HeatMapOptions& options) {
  std::string note = "reduced " + size_text(plan.rows, plan.cols) + " to " +
                     size_text(plan.shown_rows, plan.shown_cols) + ", each cell the " +
                     (options.reduction == Reduction::mean ? "mean of " : "largest of ") +
                     size_text(plan.block_rows, plan.block_cols);
  const bool uneven = plan.rows % plan.block_rows != 0 || plan.cols % plan.block_cols != 0;
  return uneven ? note + " (fewer at the edge)" : note;
}

}  // namespace

HeatMapScale heat_map_scale(std::span<const double> cells, const std::optional<ValueRange>& given) {
  HeatMapScale scale;
  Index finite = 0;
  double low = 0;
  double high = 0;
  for (const double value : cells) {
    if (detail::is_nan(value)) {
      ++scale.nan;
    } else if (detail::is_infinite(value)) {
      ++(value > 0 ? scale.plus_inf : scale.minus_inf);
    } else {
      low = finite == 0 ? value : std::min(low, value);
      high = finite == 0 ? value : std::max(high, value);
      ++finite;
      if (given && value < given->low) ++scale.below;
      if (given && value > given->high) ++scale.above;
    }
  }
  if (given) {
    scale.range = *given;
  } else if (low >= -kRounding * std::clamp(high, 0.0, 1.0) && high <= 1 + kRounding) {
    const bool visible = high == 0 || high >= 1.0 / kHighestLevel;
    scale.range = {0, visible ? 1 : high};
  } else {
    scale.range = {low, high};
    scale.all_equal = low == high;
  }
  return scale;
}

int heat_level(double value, const HeatMapScale& scale) {
  if (scale.all_equal) return kHighestLevel / 2;
  const double fraction = fraction_of_range(value, scale.range.low, scale.range.high);
  return static_cast<int>(std::clamp(std::floor(fraction * kHighestLevel), 0.0, double{kHighestLevel}));
}

char special_mark(double value) {
  if (detail::is_nan(value)) return '?';
  if (detail::is_infinite(value)) return value > 0 ? '!' : '.';
  return '\0';
}

std::vector<std::string> heat_map_notes(const HeatMapPlan& plan, const HeatMapScale& scale,
                                        const HeatMapOptions& options, bool numbers) {
  std::vector<std::string> notes;
  if (plan.block_rows > 1 || plan.block_cols > 1) notes.push_back(reduction_note(plan, options));
  std::string marks;
  const auto explain = [&](Index count, const char* meaning) {
    if (count > 0) marks += (marks.empty() ? "" : ", ") + (meaning + (" (" + cells_text(count) + ")"));
  };
  explain(scale.nan, "? is NaN");
  if (!numbers) {
    explain(scale.plus_inf, "! is +inf");
    explain(scale.minus_inf, ". is -inf");
  }
  if (!marks.empty()) notes.push_back(marks);
  if (numbers) return notes;  // a number, inf and -inf too, speaks for itself
  if (scale.below > 0) {
    notes.push_back(cells_text(scale.below) + " below " + short_number(scale.range.low) +
                    " drawn as the lowest level");
  }
  if (scale.above > 0) {
    notes.push_back(cells_text(scale.above) + " above " + short_number(scale.range.high) +
                    " drawn as the highest level");
  }
  return notes;
}

}  // namespace heed::plot

namespace heed {

double BlockReducer::value() const {
  if (has_nan_) return std::numeric_limits<double>::quiet_NaN();
  if (!mean_ || (detail::is_infinite(largest_) && largest_ > 0) || count_ == 0) return largest_;
  return static_cast<double>(sum_ / static_cast<long double>(count_));
}

}  // namespace heed
