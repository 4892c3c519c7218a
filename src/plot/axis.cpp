// Axes: ranges of values, round ticks, and powers of ten.

#include "plot/axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "heed/core/float_bits.hpp"
#include "plot/number_text.hpp"

namespace heed::plot {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

// Below this share of the value, the difference between two ticks would not be seen in their texts.
constexpr double kShortestRelativeLength = 1e-9;

// The largest power of ten: steps beyond it would be infinite.
constexpr double kLargestStep = 1e308;
constexpr double kMaxExponent = 308;
constexpr double kMinExponent = -307;

ValueRange widened(double low, double high) {
  const double size = std::max(std::abs(low), std::abs(high));
  if (high / 2 - low / 2 > size * (kShortestRelativeLength / 2)) return {low, high};
  const double half = size == 0 ? 1 : std::max(size / 10, std::numeric_limits<double>::min());
  return {std::max(low - half, -kLargest), std::min(high + half, kLargest)};
}

// The smallest 1, 2 or 5 times a power of ten that covers the range in max_ticks - 1 steps.
double round_step(ValueRange range, Index max_ticks) {
  const auto parts = static_cast<double>(std::max<Index>(1, max_ticks - 1));
  const double least = std::min(range.high / parts - range.low / parts, kLargestStep);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  if (power == 0) return least;  // below the smallest power of ten that double knows
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-12)) return std::min(factor * power, kLargestStep);
  }
  return std::min(10 * power, kLargestStep);
}

std::string tick_text(double value, double step, double size) {
  if (std::abs(value) < step / 2) return "0";
  const double step_digits = std::floor(std::log10(step) + 1e-9);
  if (size >= 1e6 || size < 1e-4) {
    const double digits = std::floor(std::log10(std::abs(value))) - step_digits + 1;
    if (!std::isfinite(digits)) return short_number(value);  // of an infinite value or step
    return short_number(value, static_cast<int>(std::clamp(digits, 1.0, 15.0)));
  }
  return fixed_number(value, static_cast<int>(std::clamp(-step_digits, 0.0, 15.0)));
}

void add_linear_ticks(Axis& axis, double step) {
  const double size = std::max(std::abs(axis.low), std::abs(axis.high));
  const double first = std::ceil(axis.low / step - 1e-9);
  const double last = std::floor(axis.high / step + 1e-9);
  if (!detail::is_finite(first) || !detail::is_finite(last)) return;
  for (double k = first; k <= last && axis.ticks.size() < 64; ++k) {
    const double value = k * step;
    const double place = fraction_of_range(value, axis.low, axis.high);
    axis.ticks.push_back({std::clamp(place, 0.0, 1.0), tick_text(value, step, size)});
  }
}

void add_decade_ticks(Axis& axis, Index max_ticks) {
  const double first = std::max(std::ceil(axis.low - 1e-9), kMinExponent);
  const double last = std::min(std::floor(axis.high + 1e-9), kMaxExponent);
  const double stride = std::max(1.0, std::ceil((last - first + 1) / static_cast<double>(max_ticks)));
  for (double exponent = first; exponent <= last; exponent += stride) {
    const double place = (exponent - axis.low) / (axis.high - axis.low);
    axis.ticks.push_back({std::clamp(place, 0.0, 1.0), short_number(std::pow(10.0, exponent))});
  }
}

void add_ticks_within_decades(Axis& axis, std::span<const double> factors) {
  for (double exponent = std::floor(axis.low); exponent <= axis.high; ++exponent) {
    for (const double factor : factors) {
      const double place = (exponent + std::log10(factor) - axis.low) / (axis.high - axis.low);
      const double value = factor * std::pow(10.0, exponent);
      if (place < -1e-9 || place > 1 + 1e-9 || !detail::is_finite(value) || value == 0) continue;
      axis.ticks.push_back({std::clamp(place, 0.0, 1.0), short_number(value)});
    }
  }
}

}  // namespace

double Axis::fraction(double value) const {
  return fraction_of_range(logarithmic ? std::log10(value) : value, low, high);
}

Axis linear_axis(const Extent& values, const std::optional<ValueRange>& given, AxisEnds ends,
                 Index max_ticks) {
  Axis axis;
  ValueRange range{0, 1};
  if (given) {
    range = *given;
  } else if (values.found()) {
    range = widened(values.low(), values.high());
  }
  double step = round_step(range, max_ticks);
  if (values.found() && values.whole() && range.high - range.low >= 1) step = std::max(step, 1.0);
  if (!given && ends == AxisEnds::round) {
    const double low = std::floor(range.low / step + 1e-9) * step;
    const double high = std::ceil(range.high / step - 1e-9) * step;
    if (detail::is_finite(low) && detail::is_finite(high))
      range = {std::min(low, range.low), std::max(high, range.high)};
  } else if (!given && ends == AxisEnds::margins) {
    const double margin = range.high / 20 - range.low / 20;
    range = {std::max(range.low - margin, -kLargest), std::min(range.high + margin, kLargest)};
  }
  axis.low = range.low;
  axis.high = range.high;
  add_linear_ticks(axis, step);
  return axis;
}

Axis logarithmic_axis(const Extent& values, const std::optional<ValueRange>& given, Index max_ticks) {
  Axis axis;
  axis.logarithmic = true;
  if (given) {
    axis.low = std::log10(given->low);
    axis.high = std::log10(given->high);
  } else if (values.found()) {
    axis.low = std::log10(values.low());
    axis.high = std::log10(values.high());
  }
  if (axis.high - axis.low < 1e-9) {
    axis.low -= 0.5;
    axis.high += 0.5;
  } else if (!given) {
    const double margin = (axis.high - axis.low) / 50;
    axis.low -= margin;
    axis.high += margin;
  }
  constexpr std::array<double, 9> all{1, 2, 3, 4, 5, 6, 7, 8, 9};
  constexpr std::array<double, 3> some{1, 2, 5};
  const double decades = axis.high - axis.low;
  if (decades >= 2.5) {
    add_decade_ticks(axis, max_ticks);
  } else {
    add_ticks_within_decades(axis,
                             decades < 0.7 ? std::span<const double>(all) : std::span<const double>(some));
  }
  if (axis.ticks.size() <
      2) {  // a short range between two of them: ticks by their values, placed by their logarithms
    axis.ticks.clear();
    const double low = std::pow(10.0, axis.low);
    const double high = std::min(std::pow(10.0, axis.high), kLargest);
    const double step = round_step({low, high}, max_ticks);
    for (double k = std::ceil(low / step); k * step <= high && axis.ticks.size() < 64; ++k) {
      axis.ticks.push_back({std::clamp(axis.fraction(k * step), 0.0, 1.0), tick_text(k * step, step, high)});
    }
  }
  return axis;
}

}  // namespace heed::plot
