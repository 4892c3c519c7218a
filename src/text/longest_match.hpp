#pragma once

// Cuts words into the longest tokens of a vocabulary, from left to right, in linear time.
//
// The plain way, a trie walked from each cut, is quadratic where tokens share long beginnings: with the
// tokens "a" and "aa..ab" each 'a' of a run walks down the whole run and comes back with one letter. Instead,
// the automaton of
//   A. V. Aho, M. J. Corasick, "Efficient string matching: an aid to bibliographic search", CACM 18(6), 1975
// is built over the tokens spelled backwards and reads the word backwards. At each place it then knows the
// longest token that ends there in its own direction, which is the longest one that starts there in ours.
// Each place costs one step.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "heed/text/bpe.hpp"
#include "text/vocabulary.hpp"

namespace heed::text {

class LongestMatch {
 public:
  explicit LongestMatch(const Vocabulary& vocabulary);

  /// Appends the ids of a word of well-formed text and of its end. `scratch` is memory to be used again.
  void encode(std::string_view word, std::vector<TokenId>& ids, std::vector<TokenId>& scratch) const;

 private:
  using StateId = std::uint32_t;
  static constexpr StateId root = 0;
  static constexpr std::uint8_t end_of_word = 0xFF;  // stands for the mark; no byte of UTF-8 has these values
  static constexpr std::uint8_t no_byte = 0xFE;
  static constexpr TokenId no_token = -1;

  struct State {
    StateId fallback = root;           // of the longest proper suffix that is a state
    TokenId token = no_token;          // the longest token that is a suffix
    std::uint8_t next_byte = no_byte;  // the edge to the following state, if there is one
    bool has_branches = false;         // other edges are in branches_
  };

  void insert(std::string_view token, TokenId id);
  void link_fallbacks(const Vocabulary& vocabulary);
  [[nodiscard]] StateId child(StateId state, std::uint8_t byte) const noexcept;
  [[nodiscard]] StateId step(StateId state, std::uint8_t byte) const noexcept;
  void add_branch(StateId state, std::uint8_t byte, StateId to);

  // Tokens are inserted one after the other, so most states are followed by their only child.
  std::vector<State> states_;
  std::array<StateId, 256> root_children_{};

  struct Branch {
    std::uint64_t key;  // state * 256 + byte + 1; 0 is an empty slot
    StateId to;
  };
  std::vector<Branch> branches_;  // open addressing, linear probing, a power of two, half full at most
  std::size_t num_branches_ = 0;
  std::vector<std::uint32_t> lengths_;  // of tokens, in bytes; the end of a word counts as one
};

}  // namespace heed::text
