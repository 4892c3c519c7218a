// Training byte pairs: equal to counting everything again in each round, whatever runs, ties and borders
// there are, and what is too little to learn from.

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bpe_naive.hpp"
#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/text/bpe.hpp"

namespace {

using heed::BpeTokenizer;
using heed::Index;
using heed::TokenId;

std::string random_text(std::mt19937& random, std::string_view alphabet, std::size_t max_length) {
  std::string text(1 + random() % max_length, ' ');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

std::vector<std::string> tokens_of(const BpeTokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) tokens.push_back(tokenizer.id_to_token(id));
  return tokens;
}

// Trains both ways and compares all that can be seen.
naive::Model require_equal_training(const std::string& corpus, const heed::BpeTrainOptions& options) {
  naive::Model expected = naive::train(corpus, options);
  std::vector<Index> frequencies;
  const BpeTokenizer tokenizer = heed::train_bpe(
      corpus, options, [&](const heed::BpeTrainStep& step) { frequencies.push_back(step.frequency); });
  INFO("corpus \"" << corpus << "\", vocab_size " << options.vocab_size << ", min_frequency "
                   << options.min_frequency);
  REQUIRE(tokenizer.merges() == expected.merges);
  REQUIRE(frequencies == expected.frequencies);
  REQUIRE(tokens_of(tokenizer) == expected.tokens);
  return expected;
}

std::vector<std::string> merged_pairs(const BpeTokenizer& tokenizer) {
  std::vector<std::string> pairs;
  for (const heed::BpeMerge& merge : tokenizer.merges())
    pairs.push_back(merge.pair.first + "+" + merge.pair.second);
  return pairs;
}

}  // namespace

TEST_CASE("training equals counting everything again in each round: one word of a and b, 4 merges",
          "[bpe][training]") {
  std::mt19937 random(19);
  for (int i = 0; i < 10000; ++i) {
    const std::string corpus = random_text(random, "ab", 14);
    const auto characters = static_cast<Index>(std::set<char>(corpus.begin(), corpus.end()).size());
    require_equal_training(corpus,
                           {.vocab_size = 4 + std::max<Index>(characters, 1) + 4, .min_frequency = 1});
  }
}

TEST_CASE("training equals counting everything again in each round: many words, to the last merge",
          "[bpe][training]") {
  std::mt19937 random(20);
  for (int i = 0; i < 4000; ++i) {
    const std::string corpus = random_text(random, i % 2 == 0 ? "ab " : "aabbc. \n", 120);
    const naive::Model model =
        require_equal_training(corpus, {.vocab_size = 5 + static_cast<Index>(random() % 100),
                                        .min_frequency = static_cast<Index>(random() % 4)});
    // The trainer's bookkeeping rests on this.
    std::set<std::string> tokens;
    for (const heed::BpeMerge& merge : model.merges) REQUIRE(tokens.insert(merge.new_token).second);
  }
}

TEST_CASE("the places of a run overlap when they are counted, and are merged from left to right",
          "[bpe][training]") {
  std::vector<Index> frequencies;
  const BpeTokenizer tokenizer =
      heed::train_bpe("aaaaa bc bc bc", {.vocab_size = 11, .min_frequency = 1},
                      [&](const heed::BpeTrainStep& step) { frequencies.push_back(step.frequency); });
  CHECK(merged_pairs(tokenizer) == std::vector<std::string>{"a+a", "b+c", "bc+</w>"});
  CHECK(frequencies == std::vector<Index>{4, 3, 3});
  CHECK(tokenizer.encode("aaaaa") == std::vector<TokenId>{8, 8, 5, 0});
}

TEST_CASE("among equally frequent pairs the one that occurs first in the text is learned first",
          "[bpe][training]") {
  std::vector<std::string_view> documents = {"cd", "ab", "xy", "ab", "xy", "cd"};
  std::sort(documents.begin(), documents.end());
  do {
    std::string joined;
    for (const std::string_view document : documents) joined += std::string(document) + " ";
    const heed::BpeTrainOptions options{.vocab_size = 4 + 6 + 3, .min_frequency = 1};
    const BpeTokenizer tokenizer = heed::train_bpe(documents, options);
    // Each of the three words has both its pairs twice, so its merges follow each other.
    const std::string first(documents[0]);
    CHECK(tokenizer.merges()[0].new_token == first);
    CHECK(tokenizer.merges()[1].new_token == first + "</w>");
    // The documents' borders are no characters; otherwise they are like blanks.
    CHECK(tokenizer.merges() ==
          heed::train_bpe(joined, {.vocab_size = options.vocab_size + 1, .min_frequency = 1}).merges());
    CHECK(tokenizer.vocab_size() == 13);
  } while (std::next_permutation(documents.begin(), documents.end()));
}

TEST_CASE("training twice gives the same bytes", "[bpe][training]") {
  std::mt19937 random(18);
  const std::string corpus = random_text(random, "abcdefgh    \n.", 20000);
  const heed::BpeTrainOptions options{.vocab_size = 500, .min_frequency = 2};
  CHECK(heed::train_bpe(corpus, options).to_json() == heed::train_bpe(corpus, options).to_json());
}

TEST_CASE("words do not reach across the borders of documents", "[bpe][training]") {
  const std::vector<std::string_view> documents = {"ab", "cd"};
  const BpeTokenizer tokenizer = heed::train_bpe(documents, {.vocab_size = 100, .min_frequency = 1});
  CHECK(merged_pairs(tokenizer) == std::vector<std::string>{"a+b", "ab+</w>", "c+d", "cd+</w>"});
}

TEST_CASE("a character cut in two by a document border is two ill-formed halves", "[bpe][training]") {
  const std::vector<std::string_view> documents = {"\xC3", "\xA9"};
  const BpeTokenizer tokenizer = heed::train_bpe(documents, {.vocab_size = 100, .min_frequency = 2});
  CHECK(tokens_of(tokenizer) ==
        std::vector<std::string>{"<unk>", "<pad>", "<bos>", "<eos>", "\xEF\xBF\xBD", "\xEF\xBF\xBD</w>"});
}

TEST_CASE("training on too little text stops early and reports the true size of the vocabulary",
          "[bpe][training]") {
  const heed::BpeTrainOptions options{.vocab_size = 300, .min_frequency = 1};
  CHECK(heed::train_bpe("   ", options).vocab_size() == 5);
  CHECK(heed::train_bpe("a", options).vocab_size() == 6);   // a, a</w>
  CHECK(heed::train_bpe("ab", options).vocab_size() == 8);  // a, b, ab, ab</w>
  CHECK(heed::train_bpe("ab", {.vocab_size = 300, .min_frequency = 2}).vocab_size() == 6);
  CHECK(heed::train_bpe("ab", {.vocab_size = 6, .min_frequency = 1}).merges().empty());
}

TEST_CASE("an empty corpus is refused: there is nothing to learn from", "[bpe][training]") {
  using Documents = std::vector<std::string_view>;
  for (const Documents& documents : {Documents{""}, Documents{}, Documents{"", ""}}) {
    CAPTURE(documents.size());
    CHECK_THROWS_AS(heed::train_bpe(documents, {}), heed::ArgumentError);
  }
  CHECK(heed::train_bpe(Documents{"", "a", ""}, {}) == heed::train_bpe("a", {}));
  try {
    heed::train_bpe("", {});
    FAIL("no exception");
  } catch (const heed::ArgumentError& error) {
    CHECK(std::string(error.what()) == "the corpus is empty: there is nothing to learn from");
  }
}

TEST_CASE("all characters are kept and nothing is learned if vocab_size is smaller than that",
          "[bpe][training]") {
  const BpeTokenizer tokenizer = heed::train_bpe("ab ab ab", {.vocab_size = 5, .min_frequency = 1});
  CHECK(tokens_of(tokenizer) == std::vector<std::string>{"<unk>", "<pad>", "<bos>", "<eos>", " ", "a", "b"});
  CHECK(tokenizer.merges().empty());
}

TEST_CASE("a vocab_size without room for a character and a negative min_frequency are refused",
          "[bpe][training]") {
  for (const Index vocab_size : {Index{4}, Index{0}, Index{-1}, std::numeric_limits<Index>::min()}) {
    CHECK_THROWS_AS(heed::train_bpe("ab", {.vocab_size = vocab_size, .min_frequency = 1}),
                    heed::ArgumentError);
  }
  CHECK_THROWS_AS(heed::train_bpe("ab", {.vocab_size = 10, .min_frequency = -1}), heed::ArgumentError);
  try {
    heed::train_bpe("ab", {.vocab_size = 3, .min_frequency = 1});
    FAIL("no exception");
  } catch (const heed::ArgumentError& error) {
    CHECK(std::string(error.what()).find("vocab_size is 3") != std::string::npos);
  }
}

TEST_CASE("a min_frequency of 0 is the same as 1, and one beyond all counts learns nothing",
          "[bpe][training]") {
  const std::string corpus = "low low lower newest";
  CHECK(heed::train_bpe(corpus, {.vocab_size = 50, .min_frequency = 0}) ==
        heed::train_bpe(corpus, {.vocab_size = 50, .min_frequency = 1}));
  CHECK(heed::train_bpe(corpus, {.vocab_size = 50, .min_frequency = std::numeric_limits<Index>::max()})
            .merges()
            .empty());
}

TEST_CASE("training reports each merge, and what its callback throws reaches the caller", "[bpe][training]") {
  Index calls = 0;
  const BpeTokenizer tokenizer = heed::train_bpe(
      "low low lower newest", {.vocab_size = 30, .min_frequency = 1}, [&](const heed::BpeTrainStep& step) {
        CHECK(step.merge.rank == calls++);
        CHECK(step.target_vocab_size == 30);
        CHECK(step.vocab_size <= 30);
      });
  CHECK(calls == std::ssize(tokenizer.merges()));
  CHECK_THROWS_AS(
      heed::train_bpe("low low", {}, [](const heed::BpeTrainStep&) { throw heed::TextError("enough"); }),
      heed::TextError);
}
