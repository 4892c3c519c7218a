// The tree of tokens and its fallbacks (longest_match.hpp has the idea and the proof).

#include "text/longest_match.hpp"

#include <utility>

#include "text/utf8.hpp"

namespace heed::text {
namespace {

constexpr std::uint64_t branch_key(std::uint32_t state, std::uint8_t byte) noexcept {
  return ((std::uint64_t{state} << 8U) | byte) + 1;
}

// Half of what mix() does: the keys are small numbers, and this is the innermost loop.
constexpr std::size_t scatter(std::uint64_t key) noexcept {
  key *= 0x9E3779B97F4A7C15U;  // 2^64 divided by the golden ratio
  return static_cast<std::size_t>(key ^ (key >> 32U));
}

// A token backwards, the end-of-word mark as one letter.
class Reversed {
 public:
  Reversed(std::string_view token, std::uint8_t end_byte)
      : end_of_word_(end_byte), has_end_(ends_word(token)), text_(token) {
    if (has_end_) text_.remove_suffix(end_of_word_mark.size());
  }

  [[nodiscard]] std::size_t size() const noexcept { return text_.size() + (has_end_ ? 1 : 0); }
  [[nodiscard]] std::uint8_t operator[](std::size_t i) const noexcept {
    if (has_end_ && i == 0) return end_of_word_;
    return static_cast<std::uint8_t>(text_[size() - 1 - i]);
  }

 private:
  std::uint8_t end_of_word_;
  bool has_end_;
  std::string_view text_;
};

}  // namespace

LongestMatch::LongestMatch(const Vocabulary& vocabulary) : states_(1), branches_(64, Branch{0, root}) {
  // Special tokens are left out: no text becomes one.
  lengths_.resize(num_special_tokens);
  for (TokenId id = num_special_tokens; id < vocabulary.size(); ++id) insert(vocabulary.token(id), id);
  link_fallbacks(vocabulary);
}

void LongestMatch::insert(std::string_view token, TokenId id) {
  const Reversed letters(token, end_of_word);
  StateId state = root;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const StateId known = child(state, letters[i]);
    if (known != root) {
      state = known;
      continue;
    }
    const auto added = static_cast<StateId>(states_.size());
    states_.emplace_back();
    if (state == root) {
      root_children_[letters[i]] = added;
    } else if (added == state + 1) {
      states_[state].next_byte = letters[i];
    } else {
      add_branch(state, letters[i], added);
    }
    state = added;
  }
  states_[state].token = id;
  lengths_.push_back(static_cast<std::uint32_t>(letters.size()));
}

// A state's fallback needs those of all shorter states, so all tokens are walked side by side, a letter at a
// time.
void LongestMatch::link_fallbacks(const Vocabulary& vocabulary) {
  struct Walk {
    TokenId token;
    StateId state;
  };
  std::vector<Walk> walks;
  for (TokenId id = num_special_tokens; id < vocabulary.size(); ++id) walks.push_back({id, root});
  for (std::size_t depth = 0; !walks.empty(); ++depth) {
    std::erase_if(walks,
                  [&](const Walk& walk) { return lengths_[static_cast<std::size_t>(walk.token)] == depth; });
    for (Walk& walk : walks) {
      const std::uint8_t letter = Reversed(vocabulary.token(walk.token), end_of_word)[depth];
      const StateId parent = walk.state;
      walk.state = child(parent, letter);
      State& state = states_[walk.state];
      if (parent != root) state.fallback = step(states_[parent].fallback, letter);
      if (state.token == no_token) state.token = states_[state.fallback].token;
    }
  }
}

void LongestMatch::encode(std::string_view word, std::vector<TokenId>& ids,
                          std::vector<TokenId>& scratch) const {
  // Backwards: the longest token at each place.
  std::vector<TokenId>& longest = scratch;
  if (longest.size() <= word.size()) longest.resize(word.size() + 1);
  StateId state = root_children_[end_of_word];
  longest[word.size()] = states_[state].token;
  for (std::size_t at = word.size(); at-- > 0;) {
    state = step(state, static_cast<std::uint8_t>(word[at]));
    longest[at] = states_[state].token;
  }
  // Forwards: from cut to cut.
  for (std::size_t at = 0; at <= word.size();) {
    const TokenId token = longest[at];
    if (token != no_token) {
      ids.push_back(token);
      at += lengths_[static_cast<std::size_t>(token)];
    } else {
      ids.push_back(BpeTokenizer::unk_id);
      at += at < word.size() ? character_length(word[at]) : 1;
    }
  }
}

LongestMatch::StateId LongestMatch::step(StateId state, std::uint8_t byte) const noexcept {
  while (state != root) {
    const StateId next = child(state, byte);
    if (next != root) return next;
    state = states_[state].fallback;
  }
  return root_children_[byte];
}

LongestMatch::StateId LongestMatch::child(StateId state, std::uint8_t byte) const noexcept {
  if (state == root) return root_children_[byte];
  const State& from = states_[state];
  if (from.next_byte == byte) return state + 1;
  if (!from.has_branches) return root;
  const std::uint64_t key = branch_key(state, byte);
  const std::size_t mask = branches_.size() - 1;
  std::size_t at = scatter(key) & mask;
  while (branches_[at].key != key) {
    if (branches_[at].key == 0) return root;
    at = (at + 1) & mask;
  }
  return branches_[at].to;
}

void LongestMatch::add_branch(StateId state, std::uint8_t byte, StateId to) {
  const auto put = [](std::vector<Branch>& table, const Branch& branch) {
    const std::size_t mask = table.size() - 1;
    std::size_t at = scatter(branch.key) & mask;
    while (table[at].key != 0) at = (at + 1) & mask;
    table[at] = branch;
  };
  states_[state].has_branches = true;
  put(branches_, {branch_key(state, byte), to});
  if (2 * ++num_branches_ <= branches_.size()) return;
  std::vector<Branch> larger(2 * branches_.size(), Branch{0, root});
  for (const Branch& branch : branches_) {
    if (branch.key != 0) put(larger, branch);
  }
  branches_ = std::move(larger);
}

}  // namespace heed::text
