// A tokenizer's JSON: written from its tables, read back and checked before it is believed.

#include "text/bpe_json.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/core/error.hpp"
#include "io/json_string.hpp"
#include "io/quote.hpp"
#include "text/utf8.hpp"

namespace heed::text {
namespace {

using io::quote;

// What the file says, before it is believed.
struct RawFile {
  std::vector<std::pair<std::string, std::int64_t>> vocab;
  std::vector<BpeMerge> merges;
};

std::string merge_name(std::size_t index) {
  return "merges[" + std::to_string(index) + "]";
}

// Reads the JSON event by event: the format is flat, so a place and a field say where the reader is. No tree
// is built, and nothing recurses, however deep the file nests.
class Reader {
 public:
  RawFile result() && {
    if (!has_vocab_) throw_file_error("there is no \"vocab\"");
    if (!has_merges_) throw_file_error("there are no \"merges\"");
    if (!has_eow_) throw_file_error("there is no \"eow\"");
    return std::move(file_);
  }

  // The events, as nlohmann's parser names them.
  bool null() { return other("null"); }
  bool boolean(bool) { return other("a boolean"); }
  bool number_float(double, const std::string&) {
    return other("a number that is no integer, or is too large");
  }
  bool binary(std::vector<std::uint8_t>&) { return other("binary data"); }
  bool number_integer(std::int64_t number) { return integer(number); }
  bool number_unsigned(std::uint64_t number) {
    if (number > static_cast<std::uint64_t>(INT64_MAX)) return other("a number that is too large");
    return integer(static_cast<std::int64_t>(number));
  }
  bool string(std::string& text);
  bool key(std::string& name);
  bool start_object(std::size_t);
  bool end_object();
  bool start_array(std::size_t);
  bool end_array();
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error);

 private:
  enum class Place { outside, file, vocab, merges, merge, pair };
  enum class Field { unknown, vocab, merges, eow, pair, rank, new_token };
  static constexpr int max_skipped_depth = 64;

  bool integer(std::int64_t number);
  bool other(const std::string& what);
  [[noreturn]] void wrong_type(const std::string& found) const;
  [[nodiscard]] std::string where() const;
  [[nodiscard]] bool skipping() const {
    return skipped_depth_ > 0 ||
           ((place_ == Place::file || place_ == Place::merge) && field_ == Field::unknown);
  }
  bool skip_deeper();

  static Field once(bool& seen, const std::string& name, Field field) {
    if (seen) throw_file_error(name + " is there twice");
    seen = true;
    return field;
  }

  RawFile file_;
  Place place_ = Place::outside;
  Field field_ = Field::unknown;
  std::string token_;      // the key in "vocab"
  int skipped_depth_ = 0;  // of arrays and objects inside an unknown field
  int pair_size_ = 0;
  bool has_vocab_ = false, has_merges_ = false, has_eow_ = false;     // of the file
  bool has_pair_ = false, has_rank_ = false, has_new_token_ = false;  // of the merge
};

std::string Reader::where() const {
  switch (place_) {
    case Place::outside:
      return "the file";
    case Place::file:
      return field_ == Field::vocab ? "\"vocab\"" : field_ == Field::merges ? "\"merges\"" : "\"eow\"";
    case Place::vocab:
      return "the id of " + quote(token_);
    case Place::merges:
      return merge_name(file_.merges.size());
    case Place::merge:
      return merge_name(file_.merges.size() - 1) + (field_ == Field::pair   ? ".pair"
                                                    : field_ == Field::rank ? ".rank"
                                                                            : ".new_token");
    case Place::pair:
      break;
  }
  return merge_name(file_.merges.size() - 1) + ".pair[" + std::to_string(pair_size_) + "]";
}

void Reader::wrong_type(const std::string& found) const {
  const char* wanted = "an object";
  if (place_ == Place::file)
    wanted = field_ == Field::merges ? "an array" : field_ == Field::eow ? "a string" : wanted;
  if (place_ == Place::vocab) wanted = "an integer";
  if (place_ == Place::merge) {
    wanted = field_ == Field::pair ? "an array" : field_ == Field::rank ? "an integer" : "a string";
  }
  if (place_ == Place::pair) wanted = "a string";
  throw_file_error(where() + " is " + found + ", expected " + wanted);
}

bool Reader::other(const std::string& what) {
  if (!skipping()) wrong_type(what);
  return true;
}

bool Reader::integer(std::int64_t number) {
  if (skipping()) return true;
  if (place_ == Place::vocab) {
    file_.vocab.emplace_back(std::move(token_), number);
  } else if (place_ == Place::merge && field_ == Field::rank) {
    file_.merges.back().rank = static_cast<Index>(number);
  } else {
    wrong_type("an integer");
  }
  return true;
}

bool Reader::string(std::string& text) {
  if (skipping()) return true;
  if (place_ == Place::file && field_ == Field::eow) {
    if (text != end_of_word_mark)
      throw_file_error("\"eow\" is " + quote(text) + ", only \"</w>\" is supported");
  } else if (place_ == Place::merge && field_ == Field::new_token) {
    file_.merges.back().new_token = std::move(text);
  } else if (place_ == Place::pair && pair_size_ < 2) {
    auto& pair = file_.merges.back().pair;
    (pair_size_ == 0 ? pair.first : pair.second) = std::move(text);
    ++pair_size_;
  } else if (place_ == Place::pair) {
    throw_file_error(merge_name(file_.merges.size() - 1) + ".pair has more than two strings");
  } else {
    wrong_type("a string");
  }
  return true;
}

bool Reader::key(std::string& name) {
  if (skipped_depth_ > 0) return true;
  field_ = Field::unknown;
  if (place_ == Place::vocab) {
    token_ = std::move(name);
  } else if (place_ == Place::file) {
    if (name == "vocab") field_ = once(has_vocab_, "\"vocab\"", Field::vocab);
    if (name == "merges") field_ = once(has_merges_, "\"merges\"", Field::merges);
    if (name == "eow") field_ = once(has_eow_, "\"eow\"", Field::eow);
  } else {
    const std::string merge = merge_name(file_.merges.size() - 1);
    if (name == "pair") field_ = once(has_pair_, merge + ".pair", Field::pair);
    if (name == "rank") field_ = once(has_rank_, merge + ".rank", Field::rank);
    if (name == "new_token") field_ = once(has_new_token_, merge + ".new_token", Field::new_token);
  }
  return true;
}

bool Reader::skip_deeper() {
  if (++skipped_depth_ > max_skipped_depth) {
    throw_file_error("a field is nested more than " + std::to_string(max_skipped_depth) + " deep");
  }
  return true;
}

bool Reader::start_object(std::size_t) {
  if (skipping()) return skip_deeper();
  if (place_ == Place::outside) {
    place_ = Place::file;
  } else if (place_ == Place::file && field_ == Field::vocab) {
    place_ = Place::vocab;
  } else if (place_ == Place::merges) {
    file_.merges.emplace_back();
    has_pair_ = has_rank_ = has_new_token_ = false;
    place_ = Place::merge;
  } else {
    wrong_type("an object");
  }
  return true;
}

bool Reader::end_object() {
  if (skipped_depth_ > 0) {
    --skipped_depth_;
  } else if (place_ == Place::vocab) {
    place_ = Place::file;
  } else if (place_ == Place::merge) {
    const std::string merge = merge_name(file_.merges.size() - 1);
    if (!has_pair_) throw_file_error(merge + " has no \"pair\"");
    if (!has_rank_) throw_file_error(merge + " has no \"rank\"");
    if (!has_new_token_) throw_file_error(merge + " has no \"new_token\"");
    place_ = Place::merges;
  }
  return true;
}

bool Reader::start_array(std::size_t) {
  if (skipping()) return skip_deeper();
  if (place_ == Place::file && field_ == Field::merges) {
    place_ = Place::merges;
  } else if (place_ == Place::merge && field_ == Field::pair) {
    place_ = Place::pair;
    pair_size_ = 0;
  } else {
    wrong_type("an array");
  }
  return true;
}

bool Reader::end_array() {
  if (skipped_depth_ > 0) {
    --skipped_depth_;
  } else if (place_ == Place::merges) {
    place_ = Place::file;
  } else {
    if (pair_size_ != 2) throw_file_error(merge_name(file_.merges.size() - 1) + ".pair has not two strings");
    place_ = Place::merge;
  }
  return true;
}

bool Reader::parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
  constexpr std::size_t max_length = 200;  // the parser quotes what it last read, which may be the whole file
  std::string what = error.what();
  if (const std::size_t label = what.find("] "); label != std::string::npos) what.erase(0, label + 2);
  if (what.size() > max_length) what = what.substr(0, max_length) + "...";
  std::string mended;
  throw_file_error("not valid JSON: " + std::string(well_formed(what, mended)));
}

Vocabulary check_vocabulary(const RawFile& file) {
  const std::size_t size = file.vocab.size();
  std::vector<const std::string*> by_id(size, nullptr);
  std::size_t bytes = 0;
  for (const auto& [token, id] : file.vocab) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= size) {
      throw_file_error("vocab: " + quote(token) + " has id " + std::to_string(id) + ", but the ids of " +
                       std::to_string(size) + " tokens are 0 to " + std::to_string(size - 1));
    }
    const std::string*& place = by_id[static_cast<std::size_t>(id)];
    if (place != nullptr) {
      throw_file_error("vocab: id " + std::to_string(id) + " belongs to " + quote(*place) + " and to " +
                       quote(token));
    }
    place = &token;
    if (token.empty()) throw_file_error("vocab: id " + std::to_string(id) + " is an empty token");
    bytes += token.size();
  }
  if (bytes > max_vocabulary_bytes) {
    throw_file_error("vocab: the tokens have " + std::to_string(bytes) + " bytes of text, at most " +
                     std::to_string(max_vocabulary_bytes) + " are supported");
  }
  for (std::size_t id = 0; id < num_special_tokens; ++id) {
    if (id >= size || *by_id[id] != special_tokens[id]) {
      throw_file_error("vocab: id " + std::to_string(id) + " is " +
                       (id < size ? quote(*by_id[id]) : "missing") + ", must be " +
                       quote(special_tokens[id]));
    }
  }
  Vocabulary vocabulary;
  for (std::size_t id = num_special_tokens; id < size; ++id) {
    if (!vocabulary.add(*by_id[id]).second)
      throw_file_error("vocab: " + quote(*by_id[id]) + " is there twice");
  }
  return vocabulary;
}

// Replays the merges: each joins symbols that exist by then, and together they make all tokens but the
// characters.
void check_merges(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges) {
  std::vector<bool> exists(static_cast<std::size_t>(vocabulary.size()));
  for (TokenId id = num_special_tokens; id < vocabulary.size(); ++id) {
    exists[static_cast<std::size_t>(id)] = count_characters(vocabulary.token(id)) == 1;
  }
  const auto is_symbol = [&](const std::string& text) {
    const std::optional<TokenId> id = vocabulary.find(text);
    return id && exists[static_cast<std::size_t>(*id)];
  };
  // A pair that was merged once occurs no more: a second merge of it would never be used.
  std::map<std::pair<TokenId, TokenId>, std::size_t> merged;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto& [pair, rank, new_token] = merges[i];
    if (rank != static_cast<Index>(i)) {
      throw_file_error(merge_name(i) + " has rank " + std::to_string(rank) + ", must be " +
                       std::to_string(i));
    }
    if (!is_symbol(pair.first) || ends_word(pair.first)) {
      throw_file_error(merge_name(i) + ": " + quote(pair.first) +
                       " cannot be merged, no earlier merge makes it");
    }
    if (!is_symbol(pair.second) && pair.second != end_of_word_mark) {
      throw_file_error(merge_name(i) + ": " + quote(pair.second) +
                       " cannot be merged, no earlier merge makes it");
    }
    // <unk> is no symbol: its id stands for the end of a word.
    const std::pair<TokenId, TokenId> symbols(*vocabulary.find(pair.first),
                                              vocabulary.find(pair.second).value_or(0));
    if (const auto [first, is_new] = merged.emplace(symbols, i); !is_new) {
      throw_file_error(merge_name(i) + " joins " + quote(pair.first) + " and " + quote(pair.second) +
                       ", as " + merge_name(first->second) + " does");
    }
    if (new_token != pair.first + pair.second) {
      throw_file_error(merge_name(i) + ": new_token is " + quote(new_token) + ", must be " +
                       quote(pair.first + pair.second));
    }
    const std::optional<TokenId> id = vocabulary.find(new_token);
    if (!id || *id < num_special_tokens) {
      throw_file_error(merge_name(i) + ": new_token " + quote(new_token) +
                       " is not an ordinary token of the vocabulary");
    }
    exists[static_cast<std::size_t>(*id)] = true;
  }
  for (TokenId id = num_special_tokens; id < vocabulary.size(); ++id) {
    if (!exists[static_cast<std::size_t>(id)]) {
      throw_file_error("vocab: " + quote(vocabulary.token(id)) +
                       " is neither a character nor made by a merge");
    }
  }
}

std::string json_string(std::string_view text) {
  return io::json_string(text, "the token");
}

}  // namespace

std::string write_bpe_json(const Vocabulary& vocabulary, const std::vector<BpeMerge>& merges) {
  std::string json = "{\n \"vocab\": {";
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    json += id == 0 ? "\n  " : ",\n  ";
    json += json_string(vocabulary.token(id)) + ": " + std::to_string(id);
  }
  json += "\n },\n \"merges\": [";
  for (const auto& [pair, rank, new_token] : merges) {
    json += rank == 0 ? "\n  " : ",\n  ";
    json += "{\"pair\": [" + json_string(pair.first) + ", " + json_string(pair.second) +
            "], \"rank\": " + std::to_string(rank) + ", \"new_token\": " + json_string(new_token) + "}";
  }
  json += merges.empty() ? "],\n" : "\n ],\n";
  return json + " \"eow\": " + json_string(end_of_word_mark) + "\n}\n";
}

std::pair<Vocabulary, std::vector<BpeMerge>> read_bpe_json(std::string_view json) {
  if (const std::size_t nul = json.find('\0');
      nul != std::string_view::npos) {  // the parser would stop there
    throw_file_error("not valid JSON: NUL byte at place " + std::to_string(nul));
  }
  Reader reader;
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  RawFile file = std::move(reader).result();
  Vocabulary vocabulary = check_vocabulary(file);
  check_merges(vocabulary, file.merges);
  return {std::move(vocabulary), std::move(file.merges)};
}

}  // namespace heed::text
