#pragma once

// The vocabulary of a tokenizer.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heed/text/bpe.hpp"

namespace heed::text {

inline constexpr std::string_view end_of_word_mark = "</w>";
inline constexpr std::string_view special_tokens[] = {"<unk>", "<pad>", "<bos>", "<eos>"};
inline constexpr TokenId num_special_tokens = 4;

/// Bounds the tables that are built from a vocabulary, wherever it comes from.
inline constexpr std::size_t max_vocabulary_bytes = std::size_t{1} << 26U;

/// Tokens by id and ids by token. Starts with the special tokens.
class Vocabulary {
 public:
  Vocabulary();

  // tokens_ points at the keys of ids_, which stay where they are when the table is moved.
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary() = default;

  /// Gives the next id to a token, unless its text is a token already. Returns the text's id and whether it
  /// is new. Throws ArgumentError if the vocabulary would hold more than max_vocabulary_bytes.
  std::pair<TokenId, bool> add(std::string token);

  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const;
  [[nodiscard]] const std::string& token(TokenId id) const { return *tokens_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Index size() const noexcept { return static_cast<Index>(tokens_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view token) const noexcept {
      return std::hash<std::string_view>{}(token);
    }
  };

  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;
  std::size_t bytes_ = 0;
};

inline bool ends_word(std::string_view token) noexcept {
  return token.ends_with(end_of_word_mark);
}

}  // namespace heed::text
