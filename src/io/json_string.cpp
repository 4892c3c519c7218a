// Writes a string as JSON.

#include "io/json_string.hpp"

#include <utf8proc.h>

#include <array>
#include <cstdio>

#include "heed/core/error.hpp"
#include "io/quote.hpp"

namespace heed::io {

std::string json_string(std::string_view text, std::string_view what) {
  constexpr std::string_view shorts = "\"\"\\\\\bb\ff\nn\rr\tt";  // each with the letter it is escaped by
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  std::string json = "\"";
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code_point);
    if (length <= 0) throw_argument_error(std::string(what) + " " + quote(text) + " is not valid UTF-8");
    std::size_t escape = 0;
    while (escape < shorts.size() && shorts[escape] != text[at]) escape += 2;
    if (escape < shorts.size()) {
      json += '\\';
      json += shorts[escape + 1];
    } else if (code_point < 0x20) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(code_point));
      json += escaped.data();
    } else {
      json += text.substr(at, static_cast<std::size_t>(length));
    }
    at += static_cast<std::size_t>(length);
  }
  return json + '"';
}

}  // namespace heed::io
