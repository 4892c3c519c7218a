// Byte-pair encoding: texts to ids and back, equal to the naive way; what a word is; ill-formed UTF-8;
// unknown ids and characters.

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bpe_naive.hpp"
#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/text/bpe.hpp"

namespace {

using heed::BpeTokenizer;
using heed::TokenId;
using Ids = std::vector<TokenId>;
using namespace std::string_literals;

const std::string tutorial_corpus =
    "the quick brown fox jumps over the lazy dog the quick brown fox jumps over the lazy dog "
    "she sells seashells by the seashore she sells seashells by the seashore ";

// A vocabulary of single characters only.
BpeTokenizer characters_of(const std::string& corpus) {
  return heed::train_bpe(corpus, {.vocab_size = 5, .min_frequency = 1});
}

std::vector<std::string> tokens_in(const BpeTokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> tokens;
  for (const TokenId id : tokenizer.encode(text)) tokens.push_back(tokenizer.id_to_token(id));
  return tokens;
}

}  // namespace

TEST_CASE("the tutorial's sentence has the tutorial's ids and comes back", "[bpe]") {
  const BpeTokenizer tokenizer = heed::train_bpe(tutorial_corpus, {.vocab_size = 80, .min_frequency = 2});
  CHECK(tokenizer.vocab_size() == 78);
  CHECK(tokenizer.encode("the quick brown fox") == Ids{33, 45, 50, 53});
  CHECK(tokenizer.encode("the quick brown fox", {.begin = true}) == Ids{2, 33, 45, 50, 53});
  CHECK(tokenizer.encode("the quick brown fox", {.end = true}) == Ids{33, 45, 50, 53, 3});
  CHECK(tokenizer.decode({2, 33, 45, 1, 50, 53, 3, 1}) == "the quick brown fox");
  CHECK(tokenizer.merges()[0] == heed::BpeMerge{{"h", "e"}, 0, "he"});
  CHECK(tokenizer.token_to_id("quick</w>") == 45);
  CHECK(tokenizer.token_to_id("quick") == 44);
  CHECK_FALSE(tokenizer.token_to_id("slow"));
  CHECK(tokenizer.id_to_token(45) == "quick</w>");
}

TEST_CASE("an empty text has no ids but those asked for", "[bpe]") {
  for (const BpeTokenizer& tokenizer : {BpeTokenizer(), characters_of("ab")}) {
    CHECK(tokenizer.encode("").empty());
    CHECK(tokenizer.encode(" \n\t ").empty());
    CHECK(tokenizer.encode("", {.begin = true, .end = true}) == Ids{2, 3});
    CHECK(tokenizer.decode({}).empty());
    CHECK(tokenizer.decode({1, 2, 3}).empty());
  }
}

TEST_CASE("encoding equals trying every token length at every place", "[bpe]") {
  std::mt19937 random(5);
  const auto text_of = [&random](std::string_view alphabet, std::size_t max_length) {
    std::string text(random() % (max_length + 1), ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    return text;
  };
  for (int i = 0; i < 1000; ++i) {
    const BpeTokenizer tokenizer =
        heed::train_bpe("a" + text_of("aabc .", 200), {.vocab_size = 80, .min_frequency = 1});
    for (int j = 0; j < 5; ++j) {
      const std::string text = text_of("aaabbcd .", 60);
      INFO(tokenizer.to_json() << "\ntext: " << text);
      REQUIRE(tokenizer.encode(text) == naive::encode(text, [&](const std::string& token) {
                return tokenizer.token_to_id(token).value_or(-1);
              }));
    }
  }
}

TEST_CASE("encoding takes the longest token from the left, whatever the merges' ranks", "[bpe]") {
  const BpeTokenizer tokenizer = BpeTokenizer::from_json(R"({
    "vocab": {"<unk>": 0, "<pad>": 1, "<bos>": 2, "<eos>": 3, "a": 4, "b": 5, "c": 6, "bc": 7, "ab": 8, "bc</w>": 9},
    "merges": [{"pair": ["b", "c"], "rank": 0, "new_token": "bc"}, {"pair": ["a", "b"], "rank": 1, "new_token": "ab"},
               {"pair": ["bc", "</w>"], "rank": 2, "new_token": "bc</w>"}],
    "eow": "</w>"})");
  CHECK(tokens_in(tokenizer, "abc") == std::vector<std::string>{"ab", "c", "<unk>"});
  CHECK(tokens_in(tokenizer, "bc") == std::vector<std::string>{"bc</w>"});
  CHECK(tokens_in(tokenizer, "bca") == std::vector<std::string>{"bc", "a", "<unk>"});
}

TEST_CASE("text that spells a special token or the end-of-word mark stays text", "[bpe]") {
  const std::string hostile = "<unk> <pad> <bos> <eos> </w> a</w> <bos></w>";
  for (const std::string& corpus : {tutorial_corpus, hostile, hostile + hostile + hostile}) {
    const BpeTokenizer tokenizer = heed::train_bpe(corpus, {.vocab_size = 200, .min_frequency = 1});
    for (const TokenId id : tokenizer.encode(hostile)) CHECK((id == BpeTokenizer::unk_id || id > 3));
    for (TokenId id = 4; id < tokenizer.vocab_size(); ++id) {
      std::string text = tokenizer.id_to_token(id);
      if (text.ends_with("</w>")) text.resize(text.size() - 4);
      INFO(text);
      CHECK((text.size() == 1 || text.find_first_of("</>") == std::string::npos));
    }
    CHECK(BpeTokenizer::from_json(tokenizer.to_json()) == tokenizer);
  }
  const BpeTokenizer tokenizer = heed::train_bpe(hostile, {.vocab_size = 200, .min_frequency = 1});
  CHECK(tokenizer.decode(tokenizer.encode("<bos>")) == "< bos >");
  CHECK(tokenizer.decode(tokenizer.encode("</w>")) == "< / w >");
  CHECK(tokenizer.decode(tokenizer.encode("<unk>")) == "< unk >");
}

TEST_CASE("NUL is a character like others", "[bpe]") {
  const std::string text = "ab\0cd"s;
  const BpeTokenizer tokenizer = heed::train_bpe(text, {.vocab_size = 100, .min_frequency = 1});
  CHECK(tokenizer.token_to_id("\0"s) == 4);
  CHECK(tokenizer.token_to_id("\0</w>"s).has_value());
  CHECK(tokenizer.decode(tokenizer.encode(text)) == "ab \0 cd"s);
  CHECK(tokenizer.encode("\0"s) != tokenizer.encode("\0\0"s));
  CHECK(tokenizer.encode("\0\0"s).size() == 2);
  CHECK(BpeTokenizer::from_json(tokenizer.to_json()) == tokenizer);
}

TEST_CASE("words are runs of letters, numbers and underscores of any script, everything else stands alone",
          "[bpe]") {
  const auto words = [](const std::string& text) {
    const BpeTokenizer tokenizer = heed::train_bpe(text, {.vocab_size = 1000, .min_frequency = 1});
    return tokenizer.decode(tokenizer.encode(text));
  };
  CHECK(words("it's") == "it ' s");
  CHECK(words("snake_case9 x--y") == "snake_case9 x - - y");
  CHECK(words("caf\u00E9\u00DF\u4F60\u597D") == "caf\u00E9\u00DF\u4F60\u597D");
  CHECK(words("x\u00B2\u00BD\u2167\u0663") == "x\u00B2\u00BD\u2167\u0663");  // No, No, Nl, Nd
  CHECK(words("e\u0301a") == "e \u0301 a");                                  // a combining mark is no letter
  CHECK(words("a\u200Bb") == "a \u200B b");                                  // nor is it white space: Cf
  CHECK(words("\U0001F44D\U0001F44D") == "\U0001F44D \U0001F44D");
  CHECK(words("\u20ACa\u2192b") == "\u20AC a \u2192 b");
}

TEST_CASE("combining marks end a word, as in Python's \\w, and decode gives them back as words", "[bpe]") {
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"e\u0301te\u0301", "e \u0301 te \u0301"},  // decomposed accents
      {"\u0939\u093F\u0928\u094D\u0926\u0940", "\u0939 \u093F \u0928 \u094D \u0926 \u0940"},  // Hindi
      {"\u05E9\u05B8\u05C1\u05DC\u05D5\u05B9\u05DD",
       "\u05E9 \u05B8 \u05C1 \u05DC\u05D5 \u05B9 \u05DD"},                                    // Hebrew
      {"\u0E17\u0E35\u0E48\u0E19\u0E35\u0E48", "\u0E17 \u0E35 \u0E48 \u0E19 \u0E35 \u0E48"},  // Thai
      {"\u00E9t\u00E9 \u05E9\u05DC\u05D5\u05DD", "\u00E9t\u00E9 \u05E9\u05DC\u05D5\u05DD"}};  // without marks
  for (const auto& [text, words] : texts) {
    CAPTURE(text);
    const BpeTokenizer tokenizer = heed::train_bpe(text, {.vocab_size = 1000, .min_frequency = 1});
    CHECK(tokenizer.decode(tokenizer.encode(text)) == words);
  }
}

TEST_CASE("white space is Unicode's White_Space, and part of the vocabulary but of no word", "[bpe]") {
  for (const std::string space : {" ", "\t", "\n", "\v", "\f", "\r", "\u0085", "\u00A0", "\u1680", "\u2003",
                                  "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    const BpeTokenizer tokenizer =
        heed::train_bpe("a" + space + "b", {.vocab_size = 100, .min_frequency = 1});
    CHECK(tokenizer.token_to_id(space).has_value());
    CHECK_FALSE(tokenizer.token_to_id(space + "</w>"));
    CHECK(tokenizer.decode(tokenizer.encode("a" + space + space + "b")) == "a b");
  }
  for (const std::string other : {"\x1B", "\x7F", "\u180E", "\u200B", "\u2060", "\uFEFF"}) {
    const BpeTokenizer tokenizer = heed::train_bpe(other, {.vocab_size = 100, .min_frequency = 1});
    CHECK(tokenizer.token_to_id(other + "</w>").has_value());
  }
}

TEST_CASE("each maximal ill-formed subsequence of UTF-8 is one U+FFFD, in training and in encoding",
          "[bpe]") {
  struct Case {
    std::string bytes;
    std::size_t replacements;
  };
  const std::vector<Case> cases = {
      {"\x80", 1},                  // a continuation alone
      {"\xC0\xAF", 2},              // overlong
      {"\xE0\x80\xAF", 3},          // overlong
      {"\xED\xA0\x80", 3},          // a surrogate
      {"\xF4\x90\x80\x80", 4},      // beyond U+10FFFF
      {"\xFF\xFE", 2},              // never in UTF-8
      {"\xE2\x82", 1},              // cut short
      {"\xF0\x9F\x91", 1},          // cut short
      {"\xF0\x9F\x91\xF0\x9F", 2},  // cut short twice
      {"\xE2\xE2\x82\xE2\x82", 3},
  };
  const BpeTokenizer tokenizer = characters_of("ab\uFFFD");
  const TokenId replacement = *tokenizer.token_to_id("\uFFFD");
  for (const Case& c : cases) {
    // Each U+FFFD is a word of its own here, with an end that is unknown.
    Ids expected = {4, 0};
    for (std::size_t i = 0; i < c.replacements; ++i) expected.insert(expected.end(), {replacement, 0});
    expected.insert(expected.end(), {5, 0});
    CHECK(tokenizer.encode("a" + c.bytes + "b") == expected);
    CHECK(tokenizer.encode("a" + c.bytes) == Ids(expected.begin(), expected.end() - 2));
    // Training sees the same.
    std::string mended = "a";
    for (std::size_t i = 0; i < c.replacements; ++i) mended += "\uFFFD";
    CHECK(heed::train_bpe("a" + c.bytes, {.vocab_size = 50, .min_frequency = 1}) ==
          heed::train_bpe(mended, {.vocab_size = 50, .min_frequency = 1}));
  }
  // Every boundary of what is well-formed.
  for (const std::string text :
       {"\u0080", "\u07FF", "\u0800", "\uD7FF", "\uE000", "\uFFFF", "\U00010000", "\U0010FFFF"}) {
    CHECK(characters_of(text).token_to_id(text) == 4);
    CHECK_FALSE(characters_of(text).token_to_id("\uFFFD"));
  }
}

TEST_CASE("decoding names the id that is not in the vocabulary, its place, and the vocabulary's size",
          "[bpe]") {
  const BpeTokenizer tokenizer = characters_of("ab");
  for (const TokenId id : {TokenId{6}, TokenId{-1}, std::numeric_limits<TokenId>::max()}) {
    CHECK_THROWS_AS(tokenizer.decode({4, id}), heed::RangeError);
    CHECK_THROWS_AS(tokenizer.id_to_token(id), heed::RangeError);
  }
  try {
    (void)tokenizer.decode({4, 5, 77});
    FAIL("no exception");
  } catch (const heed::RangeError& error) {
    CHECK(error.what() == "ids[2]: token id 77 is not in the vocabulary of 6 tokens"s);
  }
}

TEST_CASE("unknown characters and unknown ends of words are one <unk> each, shown as U+FFFD", "[bpe]") {
  const BpeTokenizer tokenizer = heed::train_bpe("ab ab", {.vocab_size = 20, .min_frequency = 2});
  CHECK(tokenizer.encode("ab\u4F60\u597D a") == Ids{7, 0, 0, 0, 5, 0});
  CHECK(tokenizer.decode(tokenizer.encode("ab\u4F60 ab")) == "ab\uFFFD\uFFFDab");
}

TEST_CASE("a copied, assigned or moved-from tokenizer works, in many threads at once", "[bpe][threads]") {
  BpeTokenizer original = heed::train_bpe(tutorial_corpus, {.vocab_size = 80, .min_frequency = 2});
  const BpeTokenizer copy = std::move(original);
  CHECK(original == copy);
  std::vector<Ids> results(8);
  std::vector<std::thread> threads;
  for (Ids& result : results) {
    threads.emplace_back([&result, &copy] {
      for (int i = 0; i < 100; ++i) result = copy.encode(tutorial_corpus);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) CHECK(result == copy.encode(tutorial_corpus));
}
