#include "heed/error.hpp"

#include <charconv>
#include <cmath>

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

std::string detail::number_text(double value) {
  // 500000, not 5e+05.
  if (std::abs(value) < 1e15 && value == std::trunc(value))
    return number_text(value, std::chars_format::fixed, 0);
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string detail::number_text(float value) {
  if (std::abs(value) < 1e15F && value == std::trunc(value)) return number_text(static_cast<double>(value));
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string detail::number_text(double value, std::chars_format form, int precision) {
  char text[512];  // the largest double has 309 digits before the point
  const auto result = std::to_chars(text, text + sizeof text, value, form, precision);
  return {text, result.ec == std::errc() ? result.ptr : text};
}

}  // namespace heed
