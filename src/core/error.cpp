// The throwing halves of errors, and numbers as text for messages.

#include "heed/core/error.hpp"

#include <charconv>
#include <cmath>

#include "heed/core/float_bits.hpp"

namespace heed {

void throw_shape_error(const std::string& message) {
  throw ShapeError(message);
}
void throw_argument_error(const std::string& message) {
  throw ArgumentError(message);
}
void throw_range_error(const std::string& message) {
  throw RangeError(message);
}
void throw_file_error(const std::string& message) {
  throw FileError(message);
}
void throw_text_error(const std::string& message) {
  throw TextError(message);
}
void throw_training_error(const std::string& message) {
  throw TrainingError(message);
}

namespace {

// The number as std::to_chars has it in these forms. NaN is "nan": what made it sets its sign, differently on
// every processor.
template <class T, class... Forms>
std::string text_of(T value, Forms... forms) {
  if (detail::is_nan(value)) return "nan";
  char text[512];  // the largest double has 309 digits before the point
  const auto result = std::to_chars(text, text + sizeof text, value, forms...);
  return {text, result.ec == std::errc() ? result.ptr : text};
}

}  // namespace

std::string detail::number_text(double value) {
  // 500000, not 5e+05.
  if (std::abs(value) < 1e15 && value == std::trunc(value)) {
    return text_of(value, std::chars_format::fixed, 0);
  }
  return text_of(value);
}

std::string detail::number_text(float value) {
  if (std::abs(value) < 1e15F && value == std::trunc(value)) return number_text(static_cast<double>(value));
  return text_of(value);
}

std::string detail::number_text(double value, std::chars_format form, int precision) {
  return text_of(value, form, precision);
}

}  // namespace heed
