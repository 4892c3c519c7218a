// Makes text of unknown origin fit for an error message.

#include "io/quote.hpp"

#include <utf8proc.h>

#include <array>
#include <cstdio>

namespace heed::io {
namespace {

std::string escaped(const char* format, unsigned value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

bool is_printable(utf8proc_int32_t code_point) {
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:  // among them the marks that turn the direction of the text
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::string quote(std::string_view text, std::size_t max_bytes) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  std::string result = "\"";
  std::size_t at = 0;
  while (at < text.size() && at < max_bytes) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
    if (length <= 0) {
      result += escaped("\\x%02x", bytes[at]);
      ++at;
      continue;
    }
    const std::string_view character = text.substr(at, static_cast<std::size_t>(length));
    if (character == "\"" || character == "\\") {
      result += '\\';
      result += character;
    } else if (is_printable(code_point)) {
      result += character;
    } else {
      result += escaped(code_point < 0x80 ? "\\x%02x" : "\\u%04x", static_cast<unsigned>(code_point));
    }
    at += static_cast<std::size_t>(length);
  }
  result += at < text.size() ? "\"..." : "\"";
  return result;
}

}  // namespace heed::io
