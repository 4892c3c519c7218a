// BpeTokenizer: encoding, decoding and files.

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "heed/core/error.hpp"
#include "heed/text/bpe.hpp"
#include "io/file.hpp"
#include "text/bpe_json.hpp"
#include "text/bpe_tables.hpp"
#include "text/utf8.hpp"
#include "text/words.hpp"

namespace heed {
namespace {

std::string not_in_vocabulary(TokenId id, Index vocab_size) {
  return "token id " + std::to_string(id) + " is not in the vocabulary of " + std::to_string(vocab_size) +
         " tokens";
}

}  // namespace

BpeTokenizer::BpeTokenizer()
    : BpeTokenizer(std::make_shared<const text::BpeTables>(text::Vocabulary(), std::vector<BpeMerge>())) {}

BpeTokenizer::BpeTokenizer(std::shared_ptr<const text::BpeTables> tables) noexcept
    : tables_(std::move(tables)) {}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text, BpeEncodeOptions options) const {
  std::string mended;
  text = text::well_formed(text, mended);
  std::vector<TokenId> ids;
  std::vector<TokenId> scratch;
  ids.reserve(text.size() / 4 + 2);  // about what natural text needs
  if (options.begin) ids.push_back(bos_id);
  text::for_each_word(
      text, [&](std::string_view word) { tables_->longest_match.encode(word, ids, scratch); },
      [](std::string_view) {});
  if (options.end) ids.push_back(eos_id);
  return ids;
}

std::string BpeTokenizer::decode(std::span<const TokenId> ids) const {
  const Index size = vocab_size();
  for (std::size_t place = 0; place < ids.size(); ++place) {
    if (ids[place] < 0 || ids[place] >= size) {
      throw_range_error("ids[" + std::to_string(place) + "]: " + not_in_vocabulary(ids[place], size));
    }
  }
  std::string text;
  bool word_ended = false;
  for (const TokenId id : ids) {
    if (id == pad_id || id == bos_id || id == eos_id) continue;
    if (word_ended) text += ' ';
    std::string_view token = id == unk_id ? text::replacement_character : tables_->vocabulary.token(id);
    word_ended = text::ends_word(token);
    if (word_ended) token.remove_suffix(text::end_of_word_mark.size());
    text += token;
  }
  return text;
}

std::string BpeTokenizer::decode(std::initializer_list<TokenId> ids) const {
  return decode(std::span<const TokenId>(ids.begin(), ids.size()));
}

const std::string& BpeTokenizer::id_to_token(TokenId id) const {
  if (id < 0 || id >= vocab_size()) throw_range_error(not_in_vocabulary(id, vocab_size()));
  return tables_->vocabulary.token(id);
}

std::optional<TokenId> BpeTokenizer::token_to_id(std::string_view token) const {
  return tables_->vocabulary.find(token);
}

Index BpeTokenizer::vocab_size() const noexcept {
  return tables_->vocabulary.size();
}

const std::vector<BpeMerge>& BpeTokenizer::merges() const noexcept {
  return tables_->merges;
}

std::string BpeTokenizer::to_json() const {
  return text::write_bpe_json(tables_->vocabulary, tables_->merges);
}

BpeTokenizer BpeTokenizer::from_json(std::string_view json) {
  auto [vocabulary, merges] = text::read_bpe_json(json);
  return BpeTokenizer(std::make_shared<const text::BpeTables>(std::move(vocabulary), std::move(merges)));
}

void BpeTokenizer::save(const std::filesystem::path& path) const {
  const std::string json = to_json();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(json));
  io::replace_file(path, std::span(&bytes, 1));
}

BpeTokenizer BpeTokenizer::load(const std::filesystem::path& path) {
  io::InputFile file(path);
  std::string json(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(json)));
  try {
    return from_json(json);
  } catch (const FileError& error) {
    throw_file_error(io::quote_path(path) + ": " + error.what());
  }
}

bool operator==(const BpeTokenizer& left, const BpeTokenizer& right) {
  if (left.tables_ == right.tables_) return true;
  if (left.vocab_size() != right.vocab_size() || left.merges() != right.merges()) return false;
  for (TokenId id = 0; id < left.vocab_size(); ++id) {
    if (left.id_to_token(id) != right.id_to_token(id)) return false;
  }
  return true;
}

}  // namespace heed
