// Windows over a stream of tokens, and characters as tokens.

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/models/token_windows.hpp"
#include "heed/text/char_tokenizer.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// 0, 1, 2, ...: a window shows where it is from.
std::vector<TokenId> counted(Index count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), TokenId{0});
  return tokens;
}

std::string refusal(std::string_view json) {
  return message_of<FileError>([&] { CharTokenizer::from_json(json); });
}

}  // namespace

TEST_CASE("five tokens have one window of four") {
  const TokenWindows windows({7, 8, 9, 10, 11}, 4);
  CHECK(windows.count() == 1);
  const TokenBatch only = windows.window(0);
  CHECK(only.inputs == std::vector<TokenId>{7, 8, 9, 10});
  CHECK(only.targets == std::vector<TokenId>{8, 9, 10, 11});
  Random random(1);
  TokenBatch batch;
  windows.draw(random, 3, batch);
  for (std::size_t b = 0; b < 3; ++b) {
    CHECK(
        std::equal(only.inputs.begin(), only.inputs.end(), batch.inputs.begin() + 4 * static_cast<long>(b)));
    CHECK(std::equal(only.targets.begin(), only.targets.end(),
                     batch.targets.begin() + 4 * static_cast<long>(b)));
  }
  CHECK(contains(message_of<RangeError>([&] { windows.window(1); }), "token 1 is wanted, there are 1"));
  CHECK(contains(message_of<RangeError>([&] { windows.window(-1); }), "token -1"));
}

TEST_CASE("too few tokens for a window are refused with both numbers") {
  CHECK(contains(message_of<ShapeError>([] { TokenWindows(counted(4), 4); }),
                 "there are 4 tokens: a window of 4 and the token after it need more"));
  CHECK(contains(message_of<ShapeError>([] { TokenWindows({}, 1); }), "there are 0 tokens"));
  for (const Index wrong : {Index{0}, Index{-1}, std::numeric_limits<Index>::min()}) {
    CHECK(contains(message_of<ShapeError>([&] { TokenWindows(counted(9), wrong); }),
                   "seq_len is " + std::to_string(wrong)));
  }
  CHECK(contains(message_of<ShapeError>([] { TokenWindows(counted(9), std::numeric_limits<Index>::max()); }),
                 "there are 9 tokens"));
}

TEST_CASE("drawn windows start everywhere, equally often, and targets are inputs one later") {
  const TokenWindows seven(counted(7), 4);
  Random random(2);
  TokenBatch batch;
  std::set<TokenId> starts;
  for (int n = 0; n < 1000; ++n) {
    seven.draw(random, 1, batch);
    starts.insert(batch.inputs[0]);
  }
  CHECK(starts == std::set<TokenId>{0, 1, 2});

  const TokenWindows windows(counted(25), 5);
  std::vector<double> found(20);
  windows.draw(random, 10000, batch);
  REQUIRE(batch.inputs.size() == 50000);
  REQUIRE(batch.targets.size() == 50000);
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    REQUIRE(batch.targets[i] == batch.inputs[i] + 1);
    if (i % 5 == 0) {
      ++found[static_cast<std::size_t>(batch.inputs[i])];
    } else {
      REQUIRE(batch.inputs[i] == batch.inputs[i - 1] + 1);
    }
  }
  double chi_square = 0;
  for (const double often : found) chi_square += (often - 500) * (often - 500) / 500;
  CHECK(chi_square < 50.8);  // of 19 degrees of freedom: once in 10000
}

TEST_CASE("a drawn window takes one number from the generator") {
  const TokenWindows windows(counted(1000), 7);
  Random random(3);
  Random other(3);
  TokenBatch batch;
  windows.draw(random, 5, batch);
  for (std::size_t b = 0; b < 5; ++b)
    CHECK(batch.inputs[7 * b] == static_cast<TokenId>(other.random() * 993));
  CHECK(random.state() == other.state());
  for (const Index wrong : {Index{1} << 62, std::numeric_limits<Index>::max()}) {
    const std::string expected = "a batch of batch_size " + std::to_string(wrong) + " and seq_len 7";
    CHECK(contains(message_of<ArgumentError>([&] { windows.draw(random, wrong, batch); }), expected));
    CHECK(contains(message_of<ArgumentError>([&] { windows.in_order(wrong); }), expected));
  }
  for (const Index wrong : {Index{0}, Index{-2}}) {
    CHECK(contains(message_of<ShapeError>([&] { windows.draw(random, wrong, batch); }),
                   "batch_size is " + std::to_string(wrong)));
    CHECK(contains(message_of<ShapeError>([&] { windows.in_order(wrong); }),
                   "batch_size is " + std::to_string(wrong)));
  }
  CHECK(random.state() == other.state());
  CHECK(batch.inputs.size() == 35);
}

TEST_CASE("in order, every token but the first is asked for once") {
  for (const Index seq_len : {1, 2, 3, 4, 7}) {
    for (Index tokens = seq_len + 1; tokens < 40; ++tokens) {
      for (const Index batch_size : {1, 2, 5, 50}) {
        CAPTURE(seq_len, tokens, batch_size);
        const std::vector<TokenBatch> batches = TokenWindows(counted(tokens), seq_len).in_order(batch_size);
        TokenId next = 1;
        for (const TokenBatch& batch : batches) {
          REQUIRE(std::ssize(batch.inputs) == batch_size * seq_len);
          REQUIRE(batch.targets.size() == batch.inputs.size());
          REQUIRE(batch.targets[0] != ignored_target);
          for (std::size_t i = 0; i < batch.targets.size(); ++i) {
            // What fills the last batch is a token as well.
            REQUIRE((batch.inputs[i] >= 0 && batch.inputs[i] < tokens));
            if (batch.targets[i] == ignored_target) {
              REQUIRE(next == tokens);
              continue;
            }
            REQUIRE(batch.targets[i] == next);
            REQUIRE(batch.inputs[i] == next - 1);
            ++next;
          }
        }
        REQUIRE(next == tokens);
      }
    }
  }
}

TEST_CASE("characters are numbered by code point and give back the text to the byte") {
  const std::string text = std::string("b a\n\tz\0é", 9) + "日本\xF0\x9F\x91\x8D e\u0301 \r\n";
  const CharTokenizer tokenizer(text);
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  CHECK(tokenizer.vocab_size() == 14);
  CHECK(tokenizer.id_to_token(0) == std::string(1, '\0'));
  CHECK(tokenizer.id_to_token(13) == "\xF0\x9F\x91\x8D");
  CHECK(tokenizer.encode("日 a").size() == 3);
  for (TokenId id = 1; id < 14; ++id) {
    // Of UTF-8 the order of bytes is that of code points.
    CHECK(std::lexicographical_compare(
        tokenizer.id_to_token(id - 1).begin(), tokenizer.id_to_token(id - 1).end(),
        tokenizer.id_to_token(id).begin(), tokenizer.id_to_token(id).end(),
        [](char a, char b) { return static_cast<unsigned char>(a) < static_cast<unsigned char>(b); }));
    CHECK(tokenizer.encode(tokenizer.id_to_token(id)) == std::vector<TokenId>{id});
  }
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.decode({}).empty());
  CHECK(CharTokenizer("").vocab_size() == 0);
  std::string all(256, '\0');
  for (std::size_t c = 0; c < 128; ++c) all[2 * c] = static_cast<char>(c);
  CHECK(CharTokenizer(all).vocab_size() == 128);
  CHECK(CharTokenizer(all).decode(CharTokenizer(all).encode(all)) == all);
}

TEST_CASE("what is not UTF-8 is read as U+FFFD") {
  const std::string mended = "\uFFFD";
  const CharTokenizer tokenizer("a\xFFz");
  CHECK(tokenizer.vocab_size() == 3);
  CHECK(tokenizer.id_to_token(2) == mended);
  // A lone follower, a character cut short, an overlong form, half of a pair, beyond Unicode.
  CHECK(tokenizer.decode(tokenizer.encode("a\x80z")) == "a" + mended + "z");
  CHECK(tokenizer.decode(tokenizer.encode("\xF0\x9F\x91")) == mended);
  CHECK(tokenizer.decode(tokenizer.encode("\xC0\xAF")) == mended + mended);
  CHECK(tokenizer.decode(tokenizer.encode("\xED\xA0\x80z")) == mended + mended + mended + "z");
  CHECK(tokenizer.decode(tokenizer.encode("\xF4\x90\x80\x80")) == mended + mended + mended + mended);
}

TEST_CASE("an unknown character is refused by itself and its byte") {
  const CharTokenizer tokenizer("abc");
  const auto message = [&](const CharTokenizer& t, std::string_view text) {
    return message_of<TextError>([&] { t.encode(text); });
  };
  CHECK(contains(message(tokenizer, "abx"), "\"x\" at byte 2 is not among the 3"));
  CHECK(contains(message(tokenizer, "日a"), "\"日\" at byte 0"));
  CHECK(contains(message(tokenizer, std::string_view("a\0", 2)), "at byte 1"));
  CHECK(contains(message(tokenizer, "ab\xFF"), "at byte 2"));
  // The byte is one of the text that was given, not of the mended one.
  CHECK(contains(message(CharTokenizer("a\xFF"), "a\xFF\xFF日"), "\"日\" at byte 3"));
  CHECK(contains(message(CharTokenizer(""), "a"), "among the 0"));
}

TEST_CASE("tokens outside the vocabulary are refused by their numbers") {
  const CharTokenizer tokenizer("abc");
  for (const TokenId wrong :
       {3, -1, std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
    const std::vector<TokenId> ids = {0, wrong};
    const std::string expected = "token id " + std::to_string(wrong) + " is not in the vocabulary of 3";
    CHECK(contains(message_of<RangeError>([&] { tokenizer.decode(ids); }), expected));
    CHECK(contains(message_of<RangeError>([&] { tokenizer.id_to_token(wrong); }), expected));
  }
}

TEST_CASE("a tokenizer of characters survives its JSON") {
  for (const std::string& text : {std::string(), std::string("\0\x01\x7F\"\\/\n", 7),
                                  std::string("日本👍\xFF"), std::string("\u2028\uFFFD\u00AD")}) {
    const CharTokenizer tokenizer(text);
    const CharTokenizer read = CharTokenizer::from_json(tokenizer.to_json());
    CHECK(read == tokenizer);
    CHECK(read.to_json() == tokenizer.to_json());
    CHECK(read.encode(text) == tokenizer.encode(text));
  }
  CHECK_FALSE(CharTokenizer("ab") == CharTokenizer("abc"));
  const CharTokenizer given =
      CharTokenizer::from_json(R"({"characters": ["b", "a", "\u0000", "\ud83d\udc4d"]})");
  CHECK(given.encode("ab") == std::vector<TokenId>{1, 0});
  CHECK(given.encode("👍") == std::vector<TokenId>{3});
}

TEST_CASE("JSON that is no tokenizer of characters is refused with what is wrong") {
  for (const char* json : {"", "{", "[]", "null", "3", "\"a\"", "[\"a\"]", R"({"characters": ["\ud83d"]})",
                           "{\"characters\": [\"\xFF\"]}", R"({"characters": ["a"]} x)"}) {
    CAPTURE(json);
    CHECK(contains(refusal(json), "is no JSON object"));
  }
  for (const char* json : {"{}", R"({"characters": "a"})", R"({"characters": {"a": 1}})",
                           R"({"characters": null})", R"({"Characters": ["a"]})"}) {
    CAPTURE(json);
    CHECK(contains(refusal(json), "no list of \"characters\""));
  }
  CHECK(contains(refusal(R"({"characters": ["a", "b", "a"]})"),
                 R"(characters[2] is "a", which occurs before)"));
  CHECK(contains(refusal(R"({"characters": ["a", "bc"]})"), R"(characters[1] is "bc", it must be one)"));
  CHECK(contains(refusal(R"({"characters": ["e\u0301"]})"), "must be one character"));
  CHECK(contains(refusal(R"({"characters": [""]})"), R"(characters[0] is "")"));
  CHECK(contains(refusal(R"({"characters": ["a", 7]})"), "characters[1] is no text"));
  CHECK(contains(refusal(R"({"characters": [["a"]]})"), "characters[0] is no text"));
  // Which of both lists would it be?
  CHECK(contains(refusal(R"({"characters": ["a"], "characters": ["b"]})"), "has \"characters\" twice"));
  const std::string deep = "{\"characters\": " + std::string(100'000, '[');
  CHECK(contains(refusal("{\"other\": " + std::string(100'000, '[')), "is no JSON object"));
  CHECK(contains(refusal(deep + std::string(100'000, ']') + "}"), "characters[0] is no text"));
}
