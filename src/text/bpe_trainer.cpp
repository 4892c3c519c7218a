// Byte-pair encoding, the algorithm of Sennrich, Haddow and Birch (ACL 2016, algorithm 1):
//
//   1. Count the distinct words of the corpus.
//   2. Begin with a vocabulary of characters, and with each word cut into characters and an end-of-word mark.
//   3. Find the most frequent pair of neighboring symbols; among equals the one that occurs first.
//   4. Write a merge down: the pair becomes one new symbol, in the vocabulary and everywhere in the words.
//   5. Go to 3 until the vocabulary is full or no pair is frequent enough.
//
// The paper's listing counts all pairs again in step 3. Segmentation keeps the counts up to date instead,
// with the same result.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/core/error.hpp"
#include "heed/text/bpe.hpp"
#include "text/bpe_tables.hpp"
#include "text/segmentation.hpp"
#include "text/utf8.hpp"
#include "text/word_counts.hpp"
#include "text/words.hpp"

namespace heed {
namespace text {
namespace {

// Symbols are the vocabulary's ids, and the end-of-word mark, which alone is no token.
constexpr Symbol end_of_word = 0xFFFFFFFFU;

void check(const BpeTrainOptions& options) {
  if (options.vocab_size <= num_special_tokens) {
    throw_argument_error("vocab_size is " + std::to_string(options.vocab_size) + ", must be at least " +
                         std::to_string(num_special_tokens + 1) + ": the special tokens alone are " +
                         std::to_string(num_special_tokens));
  }
  if (options.min_frequency < 0) {
    throw_argument_error("min_frequency is " + std::to_string(options.min_frequency) +
                         ", must not be negative");
  }
}

class Trainer {
 public:
  explicit Trainer(std::int64_t min_frequency) : segmentation_(min_frequency) {}

  void read(std::string_view document);
  void cut_words_into_characters();
  void learn(Index vocab_size, const BpeTrainCallback& on_merge);
  std::pair<Vocabulary, std::vector<BpeMerge>> result() && {
    return {std::move(vocabulary_), std::move(merges_)};
  }

 private:
  [[nodiscard]] std::string_view text_of(Symbol symbol) const {
    return symbol == end_of_word ? end_of_word_mark : vocabulary_.token(static_cast<TokenId>(symbol));
  }
  void see_characters(std::string_view text);

  WordCounts word_counts_;
  std::vector<bool> seen_;  // by code point
  Vocabulary vocabulary_;
  Segmentation segmentation_;
  std::vector<BpeMerge> merges_;
};

// Step 1. Ill-formed UTF-8 is read as U+FFFD here and in step 2, by decode_character.
void Trainer::read(std::string_view document) {
  for_each_word(
      document, [this](std::string_view word) { word_counts_.add(word); },
      [this](std::string_view space) { see_characters(space); });
}

void Trainer::see_characters(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const DecodedCharacter character = decode_character(text, at);
    if (character.code_point >= seen_.size()) seen_.resize(character.code_point + 1);
    seen_[character.code_point] = true;
    at += character.length;
  }
}

// Step 2.
void Trainer::cut_words_into_characters() {
  for (const CountedWord& word : word_counts_.words()) see_characters(word.text);

  std::vector<Symbol> symbol_of(seen_.size());  // by code point
  for (char32_t code_point = 0; code_point < seen_.size(); ++code_point) {
    if (!seen_[code_point]) continue;
    std::string character;
    append_character(character, code_point);
    symbol_of[code_point] = static_cast<Symbol>(vocabulary_.add(std::move(character)).first);
  }

  std::vector<Symbol> symbols;
  for (const CountedWord& word : word_counts_.words()) {
    symbols.clear();
    symbols.reserve(word.text.size() + 1);
    for (std::size_t at = 0; at < word.text.size();) {
      const DecodedCharacter character = decode_character(word.text, at);
      symbols.push_back(symbol_of[character.code_point]);
      at += character.length;
    }
    symbols.push_back(end_of_word);
    segmentation_.add_word(symbols, word.count);
  }
}

void Trainer::learn(Index vocab_size, const BpeTrainCallback& on_merge) {
  while (vocabulary_.size() < vocab_size) {
    // Step 3.
    const std::optional<FrequentPair> pair = segmentation_.most_frequent();
    if (!pair) break;

    // Step 4.
    BpeMerge merge{.pair = {std::string(text_of(pair->left)), std::string(text_of(pair->right))},
                   .rank = static_cast<Index>(merges_.size()),
                   .new_token = {}};
    merge.new_token = merge.pair.first + merge.pair.second;
    segmentation_.merge_most_frequent(static_cast<Symbol>(vocabulary_.add(merge.new_token).first));
    merges_.push_back(std::move(merge));
    if (on_merge) {
      on_merge({merges_.back(), static_cast<Index>(pair->frequency), vocabulary_.size(), vocab_size});
    }
  }
}

}  // namespace
}  // namespace text

BpeTokenizer train_bpe(std::span<const std::string_view> documents, const BpeTrainOptions& options,
                       const BpeTrainCallback& on_merge) {
  text::check(options);
  const auto is_empty = [](std::string_view document) { return document.empty(); };
  if (std::all_of(documents.begin(), documents.end(), is_empty))
    throw_argument_error("the corpus is empty: there is nothing to learn from");
  // The trainer's memory is given back before the tokenizer's tables are built.
  auto [vocabulary, merges] = [&] {
    text::Trainer trainer(std::max<Index>(options.min_frequency, 1));
    for (const std::string_view document : documents) trainer.read(document);
    trainer.cut_words_into_characters();
    trainer.learn(options.vocab_size, on_merge);
    return std::move(trainer).result();
  }();
  return BpeTokenizer(std::make_shared<const text::BpeTables>(std::move(vocabulary), std::move(merges)));
}

BpeTokenizer train_bpe(std::string_view corpus, const BpeTrainOptions& options,
                       const BpeTrainCallback& on_merge) {
  return train_bpe(std::span(&corpus, 1), options, on_merge);
}

}  // namespace heed
