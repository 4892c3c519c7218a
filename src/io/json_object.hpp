#pragma once

// JSON, read event by event: no tree is built, so that memory stays in proportion to the text, nothing
// recurses, and running out of memory is an exception wherever it happens.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace heed::io {

/// A value as the text has it. An array or object comes without its content.
struct JsonValue {
  enum class Kind { null, boolean, integer, number, string, array, object };

  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;      ///< The value of Kind::integer; a larger one is a number.
  double number = 0;             ///< The value of Kind::integer and Kind::number.
  std::string_view string = {};  ///< The value of Kind::string, as long as the event lasts.

  /// The value for a message: "\"text\"", "1.5", "array".
  std::string text() const;
};

/// Where a value stands in an object.
struct JsonPlace {
  std::size_t depth = 0;   ///< 1: a field of the object itself, 2: within such a field.
  std::string_view field;  ///< The object's own field that the value is or is within.
  std::size_t index = 0;   ///< At depth 2: how many values came before it in the field.
};

/// Calls on_value for each value in the JSON object in a text that is a field or stands directly within one,
/// in the order of the text. Throws FileError, beginning with `what`, if the text is no JSON object; what
/// on_value throws passes through.
void read_json_object(std::string_view text, const std::string& what,
                      const std::function<void(const JsonPlace&, const JsonValue&)>& on_value);

/// The number as JSON: the shortest digits that give it, never as an integer.
std::string json_number(double value);

}  // namespace heed::io
