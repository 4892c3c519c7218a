#pragma once

// Axes of plots: the range of the values, and round numbers to read it by.

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "heed/plot/heat_map.hpp"

namespace heed::plot {

/// Finds the smallest and the largest of the values it is given.
class Extent {
 public:
  void add(double value) {
    if (!found_ || value < low_) low_ = value;
    if (!found_ || value > high_) high_ = value;
    found_ = true;
    whole_ = whole_ && value == std::floor(value);
  }
  [[nodiscard]] bool found() const { return found_; }
  [[nodiscard]] bool whole() const { return whole_; }  ///< All are whole numbers.
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }

 private:
  bool found_ = false;
  bool whole_ = true;
  double low_ = 0;
  double high_ = 0;
};

struct Tick {
  double fraction;  ///< Where on the axis, 0 to 1.
  std::string text;
};

/// A range of values laid along a line, with round numbers to read it by.
struct Axis {
  double low = 0;  ///< The decimal logarithms of the ends if logarithmic.
  double high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks{};

  /// 0 at the low end, 1 at the high one, not clamped. On a logarithmic axis the value must be positive.
  [[nodiscard]] double fraction(double value) const;
};

enum class AxisEnds {
  exact,    ///< At the smallest and the largest value.
  round,    ///< At the next ticks outwards.
  margins,  ///< A twentieth outside of the values.
};

/// The axis of a set of values, or of a given range, with at most about max_ticks ticks, at whole
/// numbers alone if all values are. Never of length 0:
/// around a single value it takes in a tenth of it on both sides, and without any value it is 0 to 1.
Axis linear_axis(const Extent& values, const std::optional<ValueRange>& given, AxisEnds ends,
                 Index max_ticks);

/// The axis of positive values with ticks at powers of ten, or at 1, 2 and 5 times those where the range is
/// short.
Axis logarithmic_axis(const Extent& values, const std::optional<ValueRange>& given, Index max_ticks);

}  // namespace heed::plot
