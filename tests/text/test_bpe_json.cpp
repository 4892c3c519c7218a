// Tokenizers as JSON: what is saved loads as an equal one, a save replaces its file whole, and what is not
// the format is refused with its place.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/text/bpe.hpp"

namespace {

using heed::BpeTokenizer;
using nlohmann::ordered_json;
using namespace std::string_literals;
namespace fs = std::filesystem;

// A folder that is removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::random_device random;
    path_ = fs::temp_directory_path() / ("heed-bpe-" + std::to_string(random()));
    fs::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] fs::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename().string());
    return names;
  }

 private:
  fs::path path_;
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

BpeTokenizer small() {
  return heed::train_bpe("low low lower", {.vocab_size = 30, .min_frequency = 2});
}

ordered_json small_json() {
  return ordered_json::parse(small().to_json());
}

// The message of the FileError that reading this must end with.
std::string refusal(const std::string& json) {
  try {
    (void)BpeTokenizer::from_json(json);
  } catch (const heed::FileError& error) {
    return error.what();
  }
  FAIL("accepted: " << json.substr(0, 1000));
  return {};
}

std::string refusal(const ordered_json& json) {
  return refusal(json.dump());
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

std::string quoted(const std::string& text) {
  return std::string(1, '"').append(text).append(1, '"');
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

}  // namespace

TEST_CASE("what is saved loads as an equal tokenizer, byte for byte", "[bpe][json]") {
  const TemporaryFolder folder;
  const std::vector<std::string> corpora = {
      "a",
      "   ",
      "low lower newest \u4F60\u597D \U0001F44D\U0001F44D caf\u00E9 caf\u00E9",
      "ab\0cd ab\0cd"s,
      "\"quoted\" \\back\\ \x1B[31m \x7F \u0085 \u2028 <bos> </w>",
      "broken \xFF\xFE utf-8"};
  for (const std::string& corpus : corpora) {
    const BpeTokenizer tokenizer = heed::train_bpe(corpus, {.vocab_size = 100, .min_frequency = 1});
    tokenizer.save(folder / "tokenizer.json");
    const BpeTokenizer loaded = BpeTokenizer::load(folder / "tokenizer.json");
    CHECK(loaded == tokenizer);
    CHECK(loaded.merges() == tokenizer.merges());
    CHECK(loaded.to_json() == content_of(folder / "tokenizer.json"));
    CHECK(loaded.encode(corpus + " x") == tokenizer.encode(corpus + " x"));
  }
  CHECK(folder.files() == std::vector<std::string>{"tokenizer.json"});
}

TEST_CASE("the file has the fields vocab, merges and eow", "[bpe][json]") {
  const ordered_json json = small_json();
  CHECK(json.size() == 3);
  CHECK(json["eow"] == "</w>");
  CHECK(json["vocab"]["<eos>"] == 3);
  CHECK(json["vocab"].size() == 13);
  CHECK(json["merges"][0] == ordered_json({{"pair", {"l", "o"}}, {"rank", 0}, {"new_token", "lo"}}));
}

TEST_CASE("tokenizers differ if a token or a merge differs", "[bpe][json]") {
  CHECK(BpeTokenizer::from_json(small().to_json()) == small());
  const BpeTokenizer tokenizer = heed::train_bpe("abc abc", {.vocab_size = 10, .min_frequency = 1});
  ordered_json json = ordered_json::parse(tokenizer.to_json());
  REQUIRE(json["merges"].size() == 2);  // ab, abc
  json["merges"].push_back({{"pair", {"ab", "c"}}, {"rank", 2}, {"new_token", "abc"}});
  json["merges"][1] = {{"pair", {"b", "c"}}, {"rank", 1}, {"new_token", "bc"}};
  json["vocab"]["bc"] = 10;
  const BpeTokenizer two_ways = BpeTokenizer::from_json(json.dump());
  json["merges"][2]["pair"] = {"a", "bc"};
  const BpeTokenizer other_merges = BpeTokenizer::from_json(json.dump());
  CHECK(two_ways.vocab_size() == other_merges.vocab_size());
  CHECK_FALSE(two_ways == other_merges);
  CHECK_FALSE(heed::train_bpe("ab", {.vocab_size = 5}) == heed::train_bpe("ac", {.vocab_size = 5}));
}

TEST_CASE("saving replaces a file whole, and says what is wrong where it cannot", "[bpe][json]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "tokenizer.json") << repeated("old ", 100000);
  std::ofstream(folder / "tokenizer.json.tmp0") << "somebody else's";
  small().save(folder / "tokenizer.json");
  CHECK(content_of(folder / "tokenizer.json") == small().to_json());
  CHECK(content_of(folder / "tokenizer.json.tmp0") == "somebody else's");
  CHECK(folder.files().size() == 2);

  CHECK_THROWS_AS(small().save(folder / "missing/tokenizer.json"), heed::FileError);
  fs::create_directory(folder / "directory");
  CHECK_THROWS_AS(small().save(folder / "directory"), heed::FileError);
  CHECK_THROWS_AS(small().save(""), heed::FileError);
  CHECK_THROWS_AS(small().save("/dev/null"), heed::FileError);
  CHECK(folder.files().size() == 3);
}

TEST_CASE("a save removes what killed saves of its file left behind, and nothing else", "[bpe][json]") {
  const TemporaryFolder folder;
  const std::vector<std::string> left = {"t.json.heed-99999999-0.tmp", "t.json.heed-1-12.tmp"};
  std::vector<std::string> others = {"t.json",
                                     "t.json.1234-0.tmp",
                                     "t.json.heed-.tmp",
                                     "t.json.heed-1.tmp",
                                     "t.json.heed-1-.tmp",
                                     "t.json.heed--1.tmp",
                                     "t.json.heed-1-1.tmp~",
                                     "t.json.heed-1-x.tmp",
                                     "t.json.heed-tmp",
                                     "other.json.heed-1-0.tmp",
                                     "heed-1-0.tmp",
                                     "t.json.heed-7-0.tmp"};
  for (const std::string& name : left) std::ofstream(folder / name) << "half";
  for (const std::string& name : others) std::ofstream(folder / name) << "whole";
  // One that is being written, by somebody who still lives.
  const int writer = ::open((folder / others.back()).c_str(), O_WRONLY);
  REQUIRE(::flock(writer, LOCK_EX) == 0);
  small().save(folder / "t.json");
  std::vector<std::string> files = folder.files();
  std::sort(files.begin(), files.end());
  std::sort(others.begin(), others.end());
  CHECK(files == others);
  ::close(writer);
  small().save(folder / "t.json");
  CHECK(folder.files().size() == others.size() - 1);
  CHECK(BpeTokenizer::load(folder / "t.json") == small());
  // A save that fails leaves nothing of its own.
  fs::create_directories(folder / "folder");
  CHECK_THROWS_AS(small().save(folder / "folder"), heed::FileError);
  CHECK(folder.files().size() == others.size());
}

TEST_CASE("saving through a symbolic link replaces what it points to", "[bpe][json]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "real.json") << "old";
  fs::create_symlink("real.json", folder / "link.json");
  small().save(folder / "link.json");
  CHECK(fs::is_symlink(folder / "link.json"));
  CHECK(content_of(folder / "real.json") == small().to_json());
}

TEST_CASE("loading names the path and the problem", "[bpe][json]") {
  const TemporaryFolder folder;
  const auto message = [](const fs::path& path) {
    try {
      (void)BpeTokenizer::load(path);
    } catch (const heed::FileError& error) {
      return std::string(error.what());
    }
    return "no error"s;
  };
  CHECK(contains(message(folder / "missing.json"), "missing.json"));
  CHECK(contains(message(fs::temp_directory_path()), "directory"));
  CHECK(contains(message("/dev/zero"), "not a regular file"));
  std::ofstream(folder / "broken.json") << "{\"vocab\": ";
  CHECK(contains(message(folder / "broken.json"), "broken.json"));
  CHECK(contains(message(folder / "broken.json"), "not valid JSON"));
  std::ofstream(folder / "empty.json").flush();
  CHECK(contains(message(folder / "empty.json"), "not valid JSON"));
}

TEST_CASE("what is not the format is refused, with the place in the message", "[bpe][json]") {
  const auto with = [](const auto& change) {
    ordered_json json = small_json();
    change(json);
    return refusal(json);
  };
  CHECK(contains(refusal("[]"s), "the file is an array, expected an object"));
  CHECK(contains(refusal("17"s), "expected an object"));
  CHECK(contains(refusal("{}"s), "\"vocab\""));
  for (const std::string field : {"vocab", "merges", "eow"}) {
    CHECK(contains(with([&](auto& j) { j.erase(field); }), quoted(field)));
    for (const ordered_json& wrong :
         {ordered_json(nullptr), ordered_json(1), ordered_json(true), ordered_json(1.5), ordered_json(-1)}) {
      CHECK(contains(with([&](auto& j) { j[field] = wrong; }), quoted(field) + " is "));
    }
  }
  CHECK(contains(with([](auto& j) { j["vocab"] = ordered_json::array(); }), "\"vocab\" is an array"));
  CHECK(contains(with([](auto& j) { j["merges"] = ordered_json::object(); }), "\"merges\" is an object"));
  CHECK(contains(with([](auto& j) { j["eow"] = "@@"; }), "\"@@\""));
  for (const ordered_json& wrong :
       {ordered_json("5"), ordered_json(nullptr), ordered_json(5.0), ordered_json(1e300),
        ordered_json::array(), ordered_json::object(), ordered_json(UINT64_MAX)}) {
    CHECK(contains(with([&](auto& j) { j["vocab"]["l"] = wrong; }), "the id of \"l\""));
  }
  for (const ordered_json& wrong :
       {ordered_json("x"), ordered_json(3), ordered_json(nullptr), ordered_json::array()}) {
    CHECK(contains(with([&](auto& j) { j["merges"][1] = wrong; }), "merges[1] is "));
  }
  for (const std::string field : {"pair", "rank", "new_token"}) {
    CHECK(contains(with([&](auto& j) { j["merges"][2].erase(field); }), "merges[2] has no " + quoted(field)));
    CHECK(contains(with([&](auto& j) { j["merges"][2][field] = false; }),
                   "merges[2]." + field + " is a boolean"));
    CHECK(contains(with([&](auto& j) {
                     j["merges"][2][field] = {{"x", 1}};
                   }),
                   "merges[2]." + field + " is an object"));
  }
  CHECK(contains(with([](auto& j) { j["merges"][0]["pair"] = {"l"}; }), "two strings"));
  CHECK(contains(with([](auto& j) { j["merges"][0]["pair"] = {"l", "o", "w"}; }), "two strings"));
  CHECK(contains(with([](auto& j) {
                   j["merges"][0]["pair"] = {"l", 3};
                 }),
                 "merges[0].pair[1] is an integer"));
  CHECK(contains(with([](auto& j) {
                   j["merges"][0]["pair"] = {"l", {"o"}};
                 }),
                 "merges[0].pair[1] is an array"));
}

TEST_CASE("a vocabulary whose ids or special tokens are not in order is refused", "[bpe][json]") {
  const auto with = [](const std::string& token, const ordered_json& id) {
    ordered_json json = small_json();
    json["vocab"][token] = id;
    return refusal(json);
  };
  CHECK(contains(with("low", 4), "id 4 belongs to "));
  CHECK(contains(with("low", 13), "ids of 13 tokens are 0 to 12"));
  CHECK(contains(with("low", -1), "has id -1"));
  CHECK(contains(with("low", INT64_MAX), "has id 9223372036854775807"));
  CHECK(contains(with("new", 13), "\"new\" is neither a character nor made by a merge"));
  CHECK(contains(with("</w>", 13), "neither a character nor made by a merge"));
  CHECK(contains(with("", 13), "empty token"));
  CHECK(contains(with("x", 14), "ids of 14 tokens are 0 to 13"));
  const std::string json = small_json().dump();
  const auto replaced = [&json](const std::string& from, const std::string& to) {
    std::string copy = json;
    copy.replace(copy.find(from), from.size(), to);
    return refusal(copy);
  };
  CHECK(contains(replaced("\"<bos>\":2", "\"[bos]\":2"), "must be \"<bos>\""));
  CHECK(contains(replaced("\"<unk>\":0,\"<pad>\":1", "\"<unk>\":1,\"<pad>\":0"), "must be \"<unk>\""));
  CHECK(contains(replaced("\"l\":", "\"o\":"), "is there twice"));
  CHECK(contains(replaced("\"eow\"", "\"vocab\":{},\"eow\""), "\"vocab\" is there twice"));
  CHECK(contains(replaced("\"rank\":0", "\"rank\":0,\"rank\":0"), "merges[0].rank is there twice"));
  CHECK(contains(refusal(R"({"vocab": {}, "merges": [], "eow": "</w>"})"s), "id 0 is missing"));
}

TEST_CASE("merges that do not make the vocabulary are refused", "[bpe][json]") {
  const auto with = [](std::size_t index, const std::string& left, const std::string& right,
                       const std::string& token) {
    ordered_json json = small_json();
    json["merges"][index]["pair"] = {left, right};
    json["merges"][index]["new_token"] = token;
    return refusal(json);
  };
  CHECK(contains(with(0, "l", "o", "ol"), "new_token is \"ol\", must be \"lo\""));
  CHECK(contains(with(0, "lo", "w", "low"), "no earlier merge makes it"));
  CHECK(contains(with(0, "l", "x", "lx"), "\"x\" cannot be merged"));
  CHECK(contains(with(0, "</w>", "l", "</w>l"), "\"</w>\" cannot be merged"));
  CHECK(contains(with(0, "<bos>", "l", "<bos>l"), "\"<bos>\" cannot be merged"));
  CHECK(contains(with(0, "", "lo", "lo"), "\"\" cannot be merged"));
  CHECK(contains(with(0, "o", "l", "ol"), "not an ordinary token"));
  // Not even if the vocabulary has what they make: nothing follows the end of a word, and text makes no
  // special token.
  ordered_json after_end = small_json();
  after_end["vocab"]["low</w>l"] = 13;
  after_end["merges"].push_back({{"pair", {"low</w>", "l"}}, {"rank", 3}, {"new_token", "low</w>l"}});
  CHECK(contains(refusal(after_end), "\"low</w>\" cannot be merged"));
  CHECK(contains(
      refusal(R"({"vocab": {"<unk>": 0, "<pad>": 1, "<bos>": 2, "<eos>": 3, "<": 4, ">": 5, "b": 6, "o": 7,
    "s": 8, "<b": 9, "<bo": 10, "<bos": 11}, "merges": [{"pair": ["<", "b"], "rank": 0, "new_token": "<b"},
    {"pair": ["<b", "o"], "rank": 1, "new_token": "<bo"}, {"pair": ["<bo", "s"], "rank": 2, "new_token": "<bos"},
    {"pair": ["<bos", ">"], "rank": 3, "new_token": "<bos>"}], "eow": "</w>"})"s),
      "merges[3]: new_token \"<bos>\" is not an ordinary token"));
  ordered_json ranks = small_json();
  ranks["merges"][1]["rank"] = 7;
  CHECK(contains(refusal(ranks), "merges[1] has rank 7, must be 1"));
  ordered_json fewer = small_json();
  fewer["merges"].clear();
  CHECK(contains(refusal(fewer), "neither a character nor made by a merge"));
}

TEST_CASE("a merge that an earlier one makes already is refused with both places", "[bpe][json]") {
  const auto again = [](std::size_t first, std::size_t second) {
    ordered_json json = small_json();
    json["merges"][second] = json["merges"][first];
    json["merges"][second]["rank"] = second;
    return refusal(json);
  };
  CHECK(contains(again(0, 2), "merges[2] joins \"l\" and \"o\", as merges[0] does"));
  CHECK(contains(again(2, 3), "merges[3] joins \"low\" and \"</w>\", as merges[2] does"));
}

TEST_CASE("unknown fields are skipped, but not to any depth", "[bpe][json]") {
  ordered_json json = small_json();
  json["version"] = 3;
  json["about"] = {{"vocab", {1, 2, {{"eow", nullptr}}}}, {"merges", "none"}};
  json["merges"][0]["count"] = {1, 2.5, true, "x"};
  CHECK(BpeTokenizer::from_json(json.dump()) == small());

  const std::string deep = repeated("[", 100000);
  const std::string deep_object = repeated("{\"a\":", 100000);
  CHECK(contains(refusal("{\"x\": " + deep), "nested"));
  CHECK(contains(refusal("{\"x\": " + deep_object), "nested"));
  CHECK(contains(refusal("{\"x\": " + deep + repeated("]", 100000) + "}"), "nested"));
  CHECK(contains(refusal(deep), "expected an object"));
  CHECK(contains(refusal("{\"vocab\": " + deep_object), "expected an integer"));
  CHECK(contains(refusal("{\"merges\": " + deep), "expected an object"));
}

TEST_CASE("text that is no JSON or no UTF-8 is refused, in a short message", "[bpe][json]") {
  const std::string json = small().to_json();
  for (std::size_t length = 0; length + 2 < json.size(); ++length) {
    CHECK(contains(refusal(json.substr(0, length)), "not valid JSON"));
  }
  CHECK(contains(refusal(json + "x"), "not valid JSON"));
  CHECK(contains(refusal(json + '\0'), "NUL byte"));
  CHECK(contains(refusal(json + "\0{"s), "NUL byte"));
  for (const std::string bad :
       {"\xFF", "\xC0\xAF", "\xED\xA0\x80", "\\ud800", "\\udc00\\ud800", "\x01", "\n", "\\x"}) {
    CHECK(contains(refusal("{\"vocab\": {\"" + bad + "\": 0}}"), "not valid JSON"));
  }
  CHECK(contains(refusal("{\"vocab\": {\"a\": 1e999}}"s), "not valid JSON"));
  const std::string huge(1 << 20, 'x');
  CHECK(refusal("{\"vocab\": {\"" + huge).size() < 500);
  CHECK(refusal("{\"vocab\": {\"" + huge + "\": null}}").size() < 500);
  CHECK(refusal("{\"vocab\": {\"" + huge + "\": 7}}").size() < 500);
  CHECK(refusal("{\"vocab\": {}, \"eow\": \"" + huge + "\"}").size() < 500);
}

TEST_CASE("a vocabulary with more than 64 MiB of text is refused", "[bpe][json]") {
  std::string json = R"({"vocab": {"<unk>": 0, "<pad>": 1, "<bos>": 2, "<eos>": 3, "a": 4, ")";
  json.append((std::size_t{1} << 26U) - 10, 'a');
  json += R"(": 5}, "merges": [], "eow": "</w>"})";
  CHECK(contains(refusal(json), "bytes of text, at most 67108864 are supported"));
}

TEST_CASE("damaged files load or are refused, nothing else", "[bpe][json]") {
  std::mt19937 random(26);
  const std::string json = small().to_json();
  int loaded = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = json;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % damaged.size();
      const char structure = "{}[]\",:0123456789-.e\\n"[random() % 22];
      const char byte = random() % 2 == 0 ? static_cast<char>(random() % 256) : structure;
      if (random() % 3 == 0) {
        damaged.erase(at, 1 + random() % 20);
      } else if (random() % 2 == 0) {
        damaged[at] = byte;
      } else {
        damaged.insert(at, 1, byte);
      }
      if (damaged.empty()) damaged.assign(1, '{');
    }
    try {
      const BpeTokenizer tokenizer = BpeTokenizer::from_json(damaged);
      ++loaded;
      REQUIRE(BpeTokenizer::from_json(tokenizer.to_json()) == tokenizer);
      REQUIRE(tokenizer.decode(tokenizer.encode("low lower")).size() >= 8);
    } catch (const heed::FileError&) {
    }
  }
  CHECK(loaded < 10000);
}
