#include "text/quote.hpp"

#include "text/utf8.hpp"

namespace heed::text {

std::string quote(std::string_view text, std::size_t max_bytes) {
  constexpr char hex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (std::size_t at = 0; at < text.size();) {
    if (at >= max_bytes) {
      quoted += "...";
      break;
    }
    const DecodedCharacter character = decode_character(text, at);
    at += character.length;
    const char32_t code_point = character.code_point;
    if (code_point == '"' || code_point == '\\') {
      quoted += '\\';
      quoted += static_cast<char>(code_point);
    } else if (code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0)) {  // C0 and C1 controls
      quoted += "\\u00";
      quoted += hex[code_point >> 4U];
      quoted += hex[code_point & 0xFU];
    } else {
      append_character(quoted, code_point);
    }
  }
  return quoted + '"';
}

}  // namespace heed::text
