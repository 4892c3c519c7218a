// Decodes, counts, appends and mends UTF-8.

#include "text/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace heed::text {
namespace {

// Table 3-7 of the Unicode standard: how many bytes follow a lead byte, and the range of the first of them.
// (All later ones are 80..BF.) The narrowed ranges keep out overlong forms, surrogates and beyond U+10FFFF.
struct Lead {
  std::size_t followers;
  unsigned char low;
  unsigned char high;
};

constexpr Lead lead_of(unsigned char byte) noexcept {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

// Where the first ill-formed sequence at or after `at` starts, or the text's size.
std::size_t find_ill_formed(std::string_view text, std::size_t at) noexcept {
  while (at < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) {  // most text is ASCII: eight bytes at a time
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const DecodedCharacter character = decode_character(text, at);
    if (!character.well_formed) return at;
    at += character.length;
  }
  return text.size();
}

}  // namespace

DecodedCharacter decode_character(std::string_view text, std::size_t at) noexcept {
  const auto byte_at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte_at(at);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  if (lead.followers == 0) return {0xFFFD, 1, false};
  char32_t code_point = first & (0x3FU >> lead.followers);
  for (std::size_t i = 1; i <= lead.followers; ++i) {
    if (at + i >= text.size()) return {0xFFFD, i, false};
    const unsigned char byte = byte_at(at + i);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0U) == 0x80;
    if (!fits) return {0xFFFD, i, false};
    code_point = (code_point << 6U) | (byte & 0x3FU);
  }
  return {code_point, lead.followers + 1, true};
}

std::size_t count_characters(std::string_view text) noexcept {
  std::size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80;
  return count;
}

void append_character(std::string& text, char32_t code_point) {
  const auto put = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
    return;
  }
  if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6U));
  } else {
    if (code_point < 0x10000) {
      put(0xE0 | (code_point >> 12U));
    } else {
      put(0xF0 | (code_point >> 18U));
      put(0x80 | ((code_point >> 12U) & 0x3FU));
    }
    put(0x80 | ((code_point >> 6U) & 0x3FU));
  }
  put(0x80 | (code_point & 0x3FU));
}

std::string_view well_formed(std::string_view text, std::string& storage) {
  std::size_t broken = find_ill_formed(text, 0);
  if (broken == text.size()) return text;
  storage.clear();
  storage.reserve(text.size() + text.size() / 8);
  std::size_t start = 0;
  while (broken < text.size()) {
    storage.append(text, start, broken - start);
    storage.append(replacement_character);
    start = broken + decode_character(text, broken).length;
    broken = find_ill_formed(text, start);
  }
  storage.append(text, start);
  return storage;
}

}  // namespace heed::text
