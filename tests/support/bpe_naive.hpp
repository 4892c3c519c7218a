#pragma once

// Byte-pair encoding as plainly as it can be said: every round counts everything again, every match tries
// every length. For ASCII text.

#include <cctype>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heed/text/bpe.hpp"

namespace naive {

inline std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool in_word = false;
  for (const char c : text) {
    const bool word_character = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (word_character && in_word) {
      words.back() += c;
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      words.emplace_back(1, c);
    }
    in_word = word_character;
  }
  return words;
}

inline std::vector<std::string> symbols_of(const std::string& word) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  symbols.emplace_back("</w>");
  return symbols;
}

struct Model {
  std::vector<std::string> tokens = {"<unk>", "<pad>", "<bos>", "<eos>"};
  std::vector<heed::BpeMerge> merges;
  std::vector<heed::Index> frequencies;  // of the merges' pairs

  [[nodiscard]] heed::TokenId id_of(const std::string& token) const {
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id] == token) return static_cast<heed::TokenId>(id);
    }
    return -1;
  }
};

using Pair = std::pair<std::string, std::string>;

// All words of the text are kept, each as often as it occurs, in their places.
inline Pair most_frequent_pair(const std::vector<std::vector<std::string>>& words, heed::Index& best_count) {
  std::map<Pair, heed::Index> counts;
  for (const auto& word : words) {
    for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
  }
  best_count = 0;
  for (const auto& entry : counts) best_count = std::max(best_count, entry.second);
  for (const auto& word : words) {
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      if (counts[{word[i], word[i + 1]}] == best_count) return {word[i], word[i + 1]};
    }
  }
  return {};
}

inline std::vector<std::string> merged(const std::vector<std::string>& word, const Pair& pair) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i + 1 < word.size() && word[i] == pair.first && word[i + 1] == pair.second) {
      result.push_back(word[i] + word[i + 1]);
      ++i;
    } else {
      result.push_back(word[i]);
    }
  }
  return result;
}

inline Model train(const std::string& corpus, const heed::BpeTrainOptions& options) {
  Model model;
  for (int c = 0; c < 128; ++c) {
    if (corpus.find(static_cast<char>(c)) != std::string::npos)
      model.tokens.emplace_back(1, static_cast<char>(c));
  }
  std::vector<std::vector<std::string>> words;
  for (const std::string& word : words_of(corpus)) words.push_back(symbols_of(word));
  while (std::ssize(model.tokens) < options.vocab_size) {
    heed::Index count = 0;
    const Pair pair = most_frequent_pair(words, count);
    if (count == 0 || count < options.min_frequency) break;
    const std::string token = pair.first + pair.second;
    model.merges.push_back({pair, std::ssize(model.merges), token});
    model.frequencies.push_back(count);
    if (model.id_of(token) < 0) model.tokens.push_back(token);
    for (auto& word : words) word = merged(word, pair);
  }
  return model;
}

// `id_of` gives the id of a token's text, or -1.
template <class IdOf>
std::vector<heed::TokenId> encode(const std::string& text, IdOf id_of) {
  std::vector<heed::TokenId> ids;
  for (const std::string& word : words_of(text)) {
    const std::vector<std::string> symbols = symbols_of(word);
    for (std::size_t at = 0; at < symbols.size();) {
      std::size_t length = symbols.size() - at;
      heed::TokenId id = -1;
      for (; length > 0 && id < 0; --length) {
        std::string token;
        for (std::size_t i = 0; i < length; ++i) token += symbols[at + i];
        id = id_of(token);
      }
      ids.push_back(id < 0 ? 0 : id);
      at += id < 0 ? 1 : length + 1;
    }
  }
  return ids;
}

}  // namespace naive
