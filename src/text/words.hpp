#pragma once

// Pre-tokenization: text to words. A word is a run of letters, numbers and '_', or one other character that
// is not white space.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/utf8.hpp"

namespace heed::text {

enum class CharacterClass : std::uint8_t {
  space,   // Unicode property White_Space: separates words
  word,    // general categories L* and N*, and '_': words are runs of these
  single,  // everything else: a word of its own
};

CharacterClass classify(char32_t code_point) noexcept;

constexpr CharacterClass classify_ascii(unsigned char byte) noexcept {
  const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  if (letter || (byte >= '0' && byte <= '9') || byte == '_') return CharacterClass::word;
  if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return CharacterClass::space;
  return CharacterClass::single;
}

inline constexpr auto ascii_classes = [] {
  std::array<CharacterClass, 128> classes{};
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = classify_ascii(static_cast<unsigned char>(i));
  return classes;
}();

struct ClassifiedCharacter {
  CharacterClass character_class;
  std::size_t length;  // bytes
};

inline ClassifiedCharacter classify_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {ascii_classes[byte], 1};
  const DecodedCharacter character = decode_character(text, at);
  return {classify(character.code_point), character.length};
}

/// Reads text from left to right, ill-formed UTF-8 as U+FFFD, and calls on_word with each word, and on_space
/// with each character of white space, both as views of the text.
template <class OnWord, class OnSpace>
void for_each_word(std::string_view text, OnWord&& on_word, OnSpace&& on_space) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t start = at;
    const ClassifiedCharacter first = classify_at(text, at);
    at += first.length;
    if (first.character_class == CharacterClass::space) {
      on_space(text.substr(start, first.length));
      continue;
    }
    if (first.character_class == CharacterClass::word) {
      while (at < text.size()) {
        const ClassifiedCharacter next = classify_at(text, at);
        if (next.character_class != CharacterClass::word) break;
        at += next.length;
      }
    }
    on_word(text.substr(start, at - start));
  }
}

}  // namespace heed::text
