// Stand-ins for the functions that make a name from a file safe to print, and count its columns: those of
// Heed need utf8proc, which is not there for AArch64. Good enough for the messages of a test.

#include "heed/plot/display_text.hpp"
#include "io/quote.hpp"

namespace heed {

std::string escaped(std::string_view text, Charset) {
  std::string result;
  for (const char c : text) result += c >= ' ' && c <= '~' ? c : '?';
  return result;
}

Index display_width(std::string_view text) {
  return static_cast<Index>(text.size());
}

namespace io {

std::string quote(std::string_view text, std::size_t max_bytes) {
  return '"' + escaped(text.substr(0, max_bytes)) + '"';
}

}  // namespace io
}  // namespace heed
