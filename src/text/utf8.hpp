#pragma once

// UTF-8: reading characters, and mending text that is not UTF-8.

#include <cstddef>
#include <string>
#include <string_view>

namespace heed::text {

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";  // U+FFFD

struct DecodedCharacter {
  char32_t code_point;  // U+FFFD if ill-formed
  std::size_t length;   // bytes; of an ill-formed sequence its maximal subpart, at least 1
  bool well_formed;
};

/// The character that starts at text[at]; `at` must be inside the text.
DecodedCharacter decode_character(std::string_view text, std::size_t at) noexcept;

/// The length in bytes of a character of well-formed text, from its first byte.
constexpr std::size_t character_length(char first_byte) noexcept {
  const auto byte = static_cast<unsigned char>(first_byte);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The number of characters of well-formed text.
std::size_t count_characters(std::string_view text) noexcept;

void append_character(std::string& text, char32_t code_point);

/// The text itself if it is well-formed; else a copy, made in `storage`, in which each maximal ill-formed
/// subsequence is U+FFFD.
std::string_view well_formed(std::string_view text, std::string& storage);

}  // namespace heed::text
