// Reads a JSON object event by event, and writes numbers as JSON.

#include "io/json_object.hpp"

#include <nlohmann/json.hpp>

#include "heed/core/error.hpp"
#include "io/quote.hpp"

namespace heed::io {
namespace {

/// Turns the parser's events into values and their places.
class ObjectReader {
 public:
  using Kind = JsonValue::Kind;

  ObjectReader(const std::string& what,
               const std::function<void(const JsonPlace&, const JsonValue&)>& on_value)
      : what_(what), on_value_(on_value) {}

  // The events, as nlohmann's parser names them.
  bool null() { return report({}); }
  bool boolean(bool value) { return report({.kind = Kind::boolean, .boolean = value}); }
  bool number_integer(std::int64_t value) {
    return report({.kind = Kind::integer, .integer = value, .number = static_cast<double>(value)});
  }
  bool number_unsigned(std::uint64_t value) {
    if (std::in_range<std::int64_t>(value)) return number_integer(static_cast<std::int64_t>(value));
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(double value, const std::string& /*text*/) {
    return report({.kind = Kind::number, .number = value});
  }
  bool string(std::string& value) { return report({.kind = Kind::string, .string = value}); }
  bool binary(std::vector<std::uint8_t>& /*value*/) { return report({}); }

  bool key(std::string& name) {
    if (depth_ == 1) field_ = std::move(name);
    return true;
  }
  bool start_object(std::size_t /*size*/) { return start(Kind::object); }
  bool start_array(std::size_t /*size*/) { return start(Kind::array); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }

  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& /*error*/) const {
    throw_file_error(what_ + " is no JSON object: what stands at byte " +
                     std::to_string(position == 0 ? 0 : position - 1) + " is no JSON in UTF-8");
  }

 private:
  bool report(const JsonValue& value) {
    if (depth_ == 0 && value.kind != Kind::object) throw_file_error(what_ + " is no JSON object");
    if (depth_ == 1) {
      on_value_({1, field_, 0}, value);
      index_ = 0;
    } else if (depth_ == 2) {
      on_value_({2, field_, index_}, value);
      ++index_;
    }
    return true;
  }
  bool start(Kind kind) {
    report({.kind = kind});
    ++depth_;
    return true;
  }
  bool end() {
    --depth_;
    return true;
  }

  const std::string& what_;
  const std::function<void(const JsonPlace&, const JsonValue&)>& on_value_;
  std::size_t depth_ = 0;  ///< How many arrays and objects are around the next value.
  std::string field_;
  std::size_t index_ = 0;
};

}  // namespace

std::string JsonValue::text() const {
  switch (kind) {
    case Kind::boolean:
      return boolean ? "true" : "false";
    case Kind::integer:
      return std::to_string(integer);
    case Kind::number:
      return detail::number_text(number);
    case Kind::string:
      return quote(string);
    case Kind::array:
      return "array";
    case Kind::object:
      return "object";
    default:
      return "null";
  }
}

void read_json_object(std::string_view text, const std::string& what,
                      const std::function<void(const JsonPlace&, const JsonValue&)>& on_value) {
  // The parser would take a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw_file_error(what + " is no JSON object: it has a zero byte at " + std::to_string(zero));
  ObjectReader reader(what, on_value);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
}

std::string json_number(double value) {
  std::string text = detail::number_text(value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace heed::io
