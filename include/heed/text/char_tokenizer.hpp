#pragma once

// A tokenizer of characters, the simplest there is.
//
//   const heed::CharTokenizer tokenizer(text);
//   const std::vector<heed::TokenId> ids = tokenizer.encode(text);
//   const bool same = tokenizer.decode(ids) == text;  // true

#include "heed/core/config.hpp"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/core/token.hpp"
#include "heed/core/view.hpp"

namespace heed {

/// A token for each character of a text: unlike BPE it keeps white space, so that decode gives back the text
/// to the byte. Characters are Unicode code points of UTF-8; what is not UTF-8 is read as U+FFFD, as by
/// BpeTokenizer. Immutable: safe to use from any number of threads at once.
class HEED_EXPORT CharTokenizer {
 public:
  /// Makes a tokenizer of the characters that occur in the text, by code point.
  explicit CharTokenizer(std::string_view text);

  /// Throws TextError, naming the character and its place, for one that is not in the vocabulary.
  std::vector<TokenId> encode(std::string_view text) const;

  /// Throws RangeError for an id that is not in the vocabulary.
  std::string decode(std::span<const TokenId> ids) const;

  /// Returns the UTF-8 of one token. Throws RangeError.
  const std::string& id_to_token(TokenId id) const;

  Index vocab_size() const noexcept { return static_cast<Index>(characters_.size()); }

  /// Returns {"characters": ["\n", " ", "a", ...]}, and reads it back. from_json throws FileError that says
  /// what is wrong.
  std::string to_json() const;
  static CharTokenizer from_json(std::string_view text);

  friend bool operator==(const CharTokenizer& a, const CharTokenizer& b) {
    return a.characters_ == b.characters_;
  }

 private:
  CharTokenizer() = default;

  std::vector<std::string> characters_;
  std::map<std::string, TokenId, std::less<>> ids_;
};

}  // namespace heed
