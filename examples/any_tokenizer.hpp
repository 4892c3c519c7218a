#pragma once

// Characters or byte pairs: what the mini GPT reads and writes by.

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "demo.hpp"
#include "heed/core/error.hpp"
#include "heed/text/bpe.hpp"
#include "heed/text/char_tokenizer.hpp"

namespace demo {

class AnyTokenizer {
 public:
  static AnyTokenizer characters(std::string_view text) { return AnyTokenizer(heed::CharTokenizer(text)); }
  static AnyTokenizer byte_pairs(std::string_view text, heed::Index vocab_size) {
    return AnyTokenizer(heed::train_bpe(text, {.vocab_size = vocab_size, .min_frequency = 2}));
  }
  /// What to_json() returned. Throws FileError.
  static AnyTokenizer from_json(const std::string& json) {
    try {
      return AnyTokenizer(heed::CharTokenizer::from_json(json));
    } catch (const heed::Error&) {
      return AnyTokenizer(heed::BpeTokenizer::from_json(json));
    }
  }

  std::vector<heed::TokenId> encode(std::string_view text) const {
    return std::visit([&](const auto& t) { return t.encode(text); }, tokenizer_);
  }
  std::string decode(std::span<const heed::TokenId> ids) const {
    return std::visit([&](const auto& t) { return t.decode(ids); }, tokenizer_);
  }
  const std::string& id_to_token(heed::TokenId id) const {
    return std::visit([&](const auto& t) -> const std::string& { return t.id_to_token(id); }, tokenizer_);
  }
  heed::Index vocab_size() const {
    return std::visit([](const auto& t) { return t.vocab_size(); }, tokenizer_);
  }
  std::string to_json() const {
    return std::visit([](const auto& t) { return t.to_json(); }, tokenizer_);
  }
  /// A sentence if some of the ids stand for nothing that the tokenizer knows; otherwise empty.
  std::string about_unknown(const std::vector<heed::TokenId>& ids) const {
    return std::holds_alternative<heed::BpeTokenizer>(tokenizer_) ? demo::about_unknown(ids) : "";
  }
  const char* kind() const {
    return std::holds_alternative<heed::CharTokenizer>(tokenizer_) ? "char" : "bpe";
  }
  const char* unit() const {
    return std::holds_alternative<heed::CharTokenizer>(tokenizer_) ? "character" : "token";
  }

 private:
  explicit AnyTokenizer(std::variant<heed::CharTokenizer, heed::BpeTokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  std::variant<heed::CharTokenizer, heed::BpeTokenizer> tokenizer_;
};

}  // namespace demo
