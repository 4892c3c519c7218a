#pragma once

// Numbers as people read them.

#include <span>
#include <string>
#include <vector>

namespace heed::plot {

/// A number to read in a sentence or beside an axis: at most `digits` significant digits, no trailing zeros.
/// Independent of the locale, as all functions here; "nan", "inf" and "-inf" for what is no number.
std::string short_number(double value, int digits = 4);

/// With exactly `decimals` digits after the point, and no minus sign before a zero.
std::string fixed_number(double value, int decimals);

/// A table's numbers, all with the same number of decimals, chosen so that the largest shows three digits; in
/// scientific notation where that would be too long. An exact 0 is "0", so that it differs from what is
/// rounded to it. No text is longer than kWidestCell.
std::vector<std::string> cell_numbers(std::span<const double> values);
inline constexpr int kWidestCell = 9;

/// (value - low) / (high - low) for finite low < high, without overflow, not clamped.
double fraction_of_range(double value, double low, double high);

}  // namespace heed::plot
