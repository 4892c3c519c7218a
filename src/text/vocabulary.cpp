// Tokens by id and ids by token.

#include "text/vocabulary.hpp"

#include "heed/core/error.hpp"

namespace heed::text {

Vocabulary::Vocabulary() {
  for (const std::string_view token : special_tokens) add(std::string(token));
}

std::pair<TokenId, bool> Vocabulary::add(std::string token) {
  if (const auto known = ids_.find(std::string_view(token)); known != ids_.end())
    return {known->second, false};
  if (token.size() > max_vocabulary_bytes - bytes_) {
    throw_argument_error("vocabulary would hold more than " + std::to_string(max_vocabulary_bytes) +
                         " bytes of text: its " + std::to_string(tokens_.size()) + " tokens have " +
                         std::to_string(bytes_) + ", the next one has " + std::to_string(token.size()));
  }
  bytes_ += token.size();
  const auto id = static_cast<TokenId>(tokens_.size());
  tokens_.push_back(&ids_.emplace(std::move(token), id).first->first);
  return {id, true};
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const auto known = ids_.find(token);
  if (known == ids_.end()) return std::nullopt;
  return known->second;
}

}  // namespace heed::text
