// CharTokenizer: a token for each character.

#include "heed/text/char_tokenizer.hpp"

#include <set>

#include "heed/core/error.hpp"
#include "io/json_object.hpp"
#include "io/json_string.hpp"
#include "io/quote.hpp"
#include "text/utf8.hpp"

namespace heed {

namespace {

/// Calls f(character, place) for each character, place being its first byte in the text.
template <class F>
void for_each_character(std::string_view text, F f) {
  for (std::size_t at = 0; at < text.size();) {
    const text::DecodedCharacter character = text::decode_character(text, at);
    f(character.well_formed ? text.substr(at, character.length) : text::replacement_character, at);
    at += character.length;
  }
}

}  // namespace

CharTokenizer::CharTokenizer(std::string_view text) {
  // The order of UTF-8 is that of code points.
  std::set<std::string, std::less<>> found;
  for_each_character(text, [&](std::string_view character, std::size_t) {
    if (found.find(character) == found.end()) found.emplace(character);
  });
  for (const std::string& character : found) {
    ids_.emplace(character, static_cast<TokenId>(characters_.size()));
    characters_.push_back(character);
  }
}

std::vector<TokenId> CharTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size());
  for_each_character(text, [&](std::string_view character, std::size_t at) {
    const auto id = ids_.find(character);
    if (id == ids_.end()) {
      throw_text_error("the character " + io::quote(character) + " at byte " + std::to_string(at) +
                       " is not among the " + std::to_string(vocab_size()) + " of the vocabulary");
    }
    ids.push_back(id->second);
  });
  return ids;
}

std::string CharTokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += id_to_token(id);
  return text;
}

const std::string& CharTokenizer::id_to_token(TokenId id) const {
  if (id < 0 || id >= vocab_size()) {
    throw_range_error("token id " + std::to_string(id) + " is not in the vocabulary of " +
                      std::to_string(vocab_size()) + " characters");
  }
  return characters_[static_cast<std::size_t>(id)];
}

std::string CharTokenizer::to_json() const {
  std::string json = "{\n \"characters\": [";
  for (std::size_t id = 0; id < characters_.size(); ++id)
    json += (id == 0 ? "\n  " : ",\n  ") + io::json_string(characters_[id], "the character");
  return json + (characters_.empty() ? "]\n}\n" : "\n ]\n}\n");
}

CharTokenizer CharTokenizer::from_json(std::string_view text) {
  using Kind = io::JsonValue::Kind;
  CharTokenizer tokenizer;
  bool seen = false;
  const auto add = [&](const io::JsonValue& value) {
    const std::string where = "characters[" + std::to_string(tokenizer.characters_.size()) + "]";
    if (value.kind != Kind::string) throw_file_error(where + " is no text");
    const std::string character(value.string);
    if (character.empty() || text::count_characters(character) != 1)
      throw_file_error(where + " is " + io::quote(character) + ", it must be one character");
    if (!tokenizer.ids_.emplace(character, static_cast<TokenId>(tokenizer.characters_.size())).second)
      throw_file_error(where + " is " + io::quote(character) + ", which occurs before");
    tokenizer.characters_.push_back(character);
  };
  io::read_json_object(text, "the tokenizer of characters",
                       [&](const io::JsonPlace& place, const io::JsonValue& value) {
                         if (place.field != "characters") return;
                         if (place.depth == 2) return add(value);
                         if (seen) throw_file_error("the tokenizer of characters has \"characters\" twice");
                         if (value.kind != Kind::array)
                           throw_file_error("there is no list of \"characters\"");
                         seen = true;
                       });
  if (!seen) throw_file_error("there is no list of \"characters\"");
  return tokenizer;
}

}  // namespace heed
