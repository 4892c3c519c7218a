// Characters as tokens: their numbers, what is no UTF-8, what is refused, and their JSON.

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/text/char_tokenizer.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

std::string refusal(std::string_view json) {
  return message_of<FileError>([&] { CharTokenizer::from_json(json); });
}

}  // namespace

TEST_CASE("characters are numbered by code point and give back the text to the byte", "[characters]") {
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

TEST_CASE("what is not UTF-8 is read as U+FFFD", "[characters]") {
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

TEST_CASE("an unknown character is refused by itself and its byte", "[characters]") {
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

TEST_CASE("tokens outside the vocabulary are refused by their numbers", "[characters]") {
  const CharTokenizer tokenizer("abc");
  for (const TokenId wrong :
       {3, -1, std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
    const std::vector<TokenId> ids = {0, wrong};
    const std::string expected = "token id " + std::to_string(wrong) + " is not in the vocabulary of 3";
    CHECK(contains(message_of<RangeError>([&] { tokenizer.decode(ids); }), expected));
    CHECK(contains(message_of<RangeError>([&] { tokenizer.id_to_token(wrong); }), expected));
  }
}

TEST_CASE("a tokenizer of characters survives its JSON", "[characters]") {
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

TEST_CASE("JSON that is no tokenizer of characters is refused with what is wrong", "[characters]") {
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
