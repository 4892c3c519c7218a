// Numbers as people read them, in every locale the same.

#include "plot/number_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "heed/core/float_bits.hpp"

namespace heed::plot {
namespace {

std::string to_text(double value, std::chars_format format, int precision) {
  std::array<char, 400> buffer{};  // the longest double in fixed notation has 309 digits before the point
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision);
  return {buffer.data(), result.ptr};
}

std::string without_minus_zero(std::string text) {
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  if (is_zero && text.front() == '-') text.erase(0, 1);
  return text;
}

std::string not_a_number(double value) {
  return detail::is_nan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

std::string short_number(double value, int digits) {
  if (!detail::is_finite(value)) return not_a_number(value);
  return without_minus_zero(to_text(value, std::chars_format::general, digits));
}

std::string fixed_number(double value, int decimals) {
  if (!detail::is_finite(value)) return not_a_number(value);
  return without_minus_zero(to_text(value, std::chars_format::fixed, decimals));
}

std::vector<std::string> cell_numbers(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) {
    if (detail::is_finite(value)) largest = std::max(largest, std::abs(value));
  }
  const bool scientific = largest != 0 && (largest < 1e-3 || largest >= 1e6);
  int decimals = 2;
  if (largest >= 100) {
    decimals = 0;
  } else if (largest >= 10) {
    decimals = 1;
  } else {
    for (double bound = 1; decimals < 5 && largest != 0 && largest < bound; bound /= 10) ++decimals;
  }
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) {
    if (detail::is_nan(value)) {
      texts.emplace_back("?");  // as in every form, with a line that counts them
    } else if (value == 0) {
      texts.emplace_back("0");
    } else if (scientific && detail::is_finite(value)) {
      texts.push_back(to_text(value, std::chars_format::scientific, 1));
    } else {
      texts.push_back(fixed_number(value, decimals));
    }
  }
  return texts;
}

double fraction_of_range(double value, double low, double high) {
  const double span = high - low;
  const double distance = value - low;
  if (detail::is_finite(span) && detail::is_finite(distance)) return distance / span;
  return (value / 4 - low / 4) / (high / 4 - low / 4);
}

}  // namespace heed::plot
