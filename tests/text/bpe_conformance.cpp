// bpe_conformance DIR...: checks the tokenizer against every *.json of the folders. A case file holds a
// corpus and the options of its training, the vocabulary and the merges that must come out, and texts with
// their ids.

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "heed/text/bpe.hpp"

namespace {

using nlohmann::json;

json read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot be opened");
  return json::parse(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Collects what differs between one case file and the library.
class Differences {
 public:
  template <class Value>
  void compare(const std::string& what, const Value& expected, const Value& actual) {
    if (expected == actual) return;
    found_.push_back(what + ": expected " + dump(expected) + ", got " + dump(actual));
  }
  [[nodiscard]] const std::vector<std::string>& found() const { return found_; }

  static std::string dump(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  }

 private:
  std::vector<std::string> found_;
};

using Ids = std::vector<heed::TokenId>;
using Pair = std::vector<std::string>;

void compare_vocabulary(const std::map<std::string, heed::TokenId>& expected,
                        const heed::BpeTokenizer& tokenizer, Differences& differences) {
  differences.compare("vocabulary size", std::ssize(expected), tokenizer.vocab_size());
  for (const auto& [token, id] : expected) {
    differences.compare("id of token " + Differences::dump(token), id,
                        tokenizer.token_to_id(token).value_or(-1));
  }
  for (heed::TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string& token = tokenizer.id_to_token(id);
    if (!expected.contains(token))
      differences.compare<std::string>("token " + std::to_string(id), "none", token);
  }
}

void compare_merges(const std::vector<Pair>& expected, const heed::BpeTokenizer& tokenizer,
                    Differences& differences) {
  const std::vector<heed::BpeMerge>& merges = tokenizer.merges();
  differences.compare("number of merges", expected.size(), merges.size());
  for (std::size_t i = 0; i < std::min(expected.size(), merges.size()); ++i) {
    const auto& [pair, rank, new_token] = merges[i];
    const std::string name = "merge " + std::to_string(i);
    differences.compare(name, expected[i], Pair{pair.first, pair.second});
    differences.compare(name + ", rank", static_cast<heed::Index>(i), rank);
    differences.compare(name + ", new token", pair.first + pair.second, new_token);
  }
}

void compare_encoding(const json& expected, const heed::BpeTokenizer& tokenizer, Differences& differences) {
  const auto text = expected.at("text").get<std::string>();
  const auto decoded = expected.at("decoded").get<std::string>();
  const std::string name = Differences::dump(text);
  const Ids ids = tokenizer.encode(text);
  const Ids with_specials = tokenizer.encode(text, {.begin = true, .end = true});
  differences.compare("ids of " + name, expected.at("ids").get<Ids>(), ids);
  differences.compare("ids with specials of " + name, expected.at("ids_with_specials").get<Ids>(),
                      with_specials);
  differences.compare("decoded ids of " + name, decoded, tokenizer.decode(ids));
  differences.compare("decoded ids with specials of " + name, decoded, tokenizer.decode(with_specials));
}

std::vector<std::string> check(const std::filesystem::path& path) {
  Differences differences;
  const json expected = read(path);
  const heed::BpeTrainOptions options{.vocab_size = expected.at("vocab_size").get<heed::Index>(),
                                      .min_frequency = expected.at("min_frequency").get<heed::Index>()};
  const heed::BpeTokenizer tokenizer = heed::train_bpe(expected.at("corpus").get<std::string>(), options);
  compare_vocabulary(expected.at("vocab").get<std::map<std::string, heed::TokenId>>(), tokenizer,
                     differences);
  compare_merges(expected.at("merges").get<std::vector<Pair>>(), tokenizer, differences);
  for (const json& encoding : expected.at("encode")) compare_encoding(encoding, tokenizer, differences);
  return differences.found();
}

bool passes(const std::filesystem::path& path) {
  std::vector<std::string> problems;
  try {
    problems = check(path);
  } catch (const std::exception& error) {
    problems.emplace_back(error.what());
  }
  for (const std::string& problem : problems)
    std::cout << "FAILED " << path.string() << ": " << problem << '\n';
  return problems.empty();
}

std::vector<std::filesystem::path> case_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int run(int argc, char** argv) {
  CLI::App app("Checks the BPE tokenizer against the case files (*.json) of folders.");
  std::vector<std::string> folders;
  demo::folders(app, folders, "folders of case files");
  if (const auto code = demo::parse(app, argc, argv)) return *code;

  int passed = 0;
  int failed = 0;
  for (const std::string& folder : folders) {
    for (const std::filesystem::path& file : case_files(folder)) ++(passes(file) ? passed : failed);
  }
  if (passed + failed == 0) std::cerr << "bpe_conformance: no *.json in these folders\n";
  std::cout << passed << " passed, " << failed << " failed, 0 skipped\n";
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("bpe_conformance", [&] { return run(argc, argv); });
}
