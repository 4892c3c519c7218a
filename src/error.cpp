#include "heed/error.hpp"

#include <charconv>

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
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace heed
