// Counts the tokens of a tokenizer's JSON.

#include "text/tokenizer_size.hpp"

#include <string>

#include "heed/core/error.hpp"
#include "io/json_object.hpp"

namespace heed::text {

std::optional<Index> tokenizer_size(std::string_view json) {
  using Kind = io::JsonValue::Kind;
  std::optional<Index> size;
  try {
    io::read_json_object(json, "the tokenizer", [&](const io::JsonPlace& place, const io::JsonValue& value) {
      const bool is_vocabulary = place.field == "characters" || place.field == "vocab";
      if (!is_vocabulary) return;
      const Kind kind = place.field == "vocab" ? Kind::object : Kind::array;
      if (place.depth == 1 && value.kind == kind) size = 0;
      if (place.depth == 2 && size) ++*size;
    });
  } catch (const Error&) {
    return std::nullopt;
  }
  return size;
}

}  // namespace heed::text
