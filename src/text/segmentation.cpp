// Merges pairs and keeps their counts (segmentation.hpp has the idea and the proof).

#include "text/segmentation.hpp"

#include "heed/core/error.hpp"
#include "text/hash.hpp"

namespace heed::text {
namespace {

std::size_t hash_pair(Symbol left, Symbol right) noexcept {
  return static_cast<std::size_t>(mix((std::uint64_t{left} << 32U) | right));
}

}  // namespace

Segmentation::Segmentation(std::int64_t min_frequency)
    : min_frequency_(min_frequency), new_table_(1024, none) {}

void Segmentation::add_word(std::span<const Symbol> symbols, std::int64_t count) {
  if (symbols.size() >= none - nodes_.size()) {
    throw_argument_error("corpus has 2^32 or more characters in its distinct words");
  }
  const auto word = static_cast<std::uint32_t>(word_counts_.size());
  word_counts_.push_back(count);
  const auto begin = static_cast<NodeId>(nodes_.size());
  const auto end = static_cast<NodeId>(begin + symbols.size());
  nodes_.resize(end);
  for (NodeId id = begin; id < end; ++id) {
    Node& node = nodes_[id];
    node.symbol = symbols[id - begin];
    node.previous = id == begin ? none : id - 1;
    node.next = id + 1 == end ? none : id + 1;
    node.word = word;
    node.pair = none;
  }
  for (NodeId id = begin; id + 1 < end; ++id) add_occurrence(id);
}

std::optional<FrequentPair> Segmentation::most_frequent() {
  finish_round();
  while (!queue_.empty()) {
    const QueueEntry top = queue_.top();
    const Pair& pair = pairs_[top.pair];
    // Nothing lost since it was put in, so its first occurrence is the same too.
    if (top.count == pair.count) return FrequentPair{pair.left, pair.right, pair.count};
    queue_.pop();
    enqueue_or_retire(top.pair);
  }
  return std::nullopt;
}

void Segmentation::finish_round() {
  const std::size_t mask = new_table_.size() - 1;
  for (const PairId id : new_pairs_) {
    std::size_t at = hash_pair(pairs_[id].left, pairs_[id].right) & mask;
    while (new_table_[at] != id)
      at = (at + 1) & mask;  // it is there, maybe behind one that was just taken out
    new_table_[at] = none;
    enqueue_or_retire(id);
  }
  new_pairs_.clear();
}

void Segmentation::enqueue_or_retire(PairId id) {
  const Pair& pair = pairs_[id];
  if (pair.count >= min_frequency_) {
    queue_.push({pair.count, pair.first, id});
    return;
  }
  for (NodeId node = pair.first; node != none; node = nodes_[node].next_same) nodes_[node].pair = none;
  retired_.push_back(id);
}

void Segmentation::merge_most_frequent(Symbol symbol) {
  const PairId id = queue_.top().pair;
  // Merging at one place takes the next one out of the list too if the two overlap, as in "aaa". None comes
  // in: the new symbol is longer than both of the pair's.
  while (pairs_[id].first != none) merge_at(pairs_[id].first, symbol);
}

// previous [left right] next  ->  previous [symbol] next: three pairs lose an occurrence, two gain one.
void Segmentation::merge_at(NodeId id, Symbol symbol) {
  Node& left = nodes_[id];
  const NodeId right_id = left.next;
  const NodeId next_id = nodes_[right_id].next;
  if (left.previous != none) remove_occurrence(left.previous);
  remove_occurrence(id);
  if (next_id != none) remove_occurrence(right_id);

  left.symbol = symbol;
  left.next = next_id;
  if (left.previous != none) add_occurrence(left.previous);
  if (next_id != none) {
    nodes_[next_id].previous = id;
    add_occurrence(id);
  }
}

void Segmentation::add_occurrence(NodeId id) {
  Node& node = nodes_[id];
  node.pair = find_or_add_pair(node.symbol, nodes_[node.next].symbol);
  Pair& pair = pairs_[node.pair];
  node.previous_same = pair.last;
  node.next_same = none;
  (pair.last == none ? pair.first : nodes_[pair.last].next_same) = id;
  pair.last = id;
  pair.count += word_counts_[node.word];
}

void Segmentation::remove_occurrence(NodeId id) {
  const Node& node = nodes_[id];
  if (node.pair == none) return;
  Pair& pair = pairs_[node.pair];
  (node.previous_same == none ? pair.first : nodes_[node.previous_same].next_same) = node.next_same;
  (node.next_same == none ? pair.last : nodes_[node.next_same].previous_same) = node.previous_same;
  pair.count -= word_counts_[node.word];
}

Segmentation::PairId Segmentation::find_or_add_pair(Symbol left, Symbol right) {
  const std::size_t mask = new_table_.size() - 1;
  for (std::size_t at = hash_pair(left, right) & mask; new_table_[at] != none; at = (at + 1) & mask) {
    const Pair& pair = pairs_[new_table_[at]];
    if (pair.left == left && pair.right == right) return new_table_[at];
  }
  auto id = static_cast<PairId>(pairs_.size());
  if (retired_.empty()) {
    pairs_.emplace_back();
  } else {
    id = retired_.back();
    retired_.pop_back();
  }
  pairs_[id] = {.left = left, .right = right};
  new_pairs_.push_back(id);
  if (2 * new_pairs_.size() <= new_table_.size()) {
    place_in_table(id);
  } else {
    new_table_.assign(2 * new_table_.size(), none);
    for (const PairId new_pair : new_pairs_) place_in_table(new_pair);
  }
  return id;
}

void Segmentation::place_in_table(PairId id) {
  const std::size_t mask = new_table_.size() - 1;
  std::size_t at = hash_pair(pairs_[id].left, pairs_[id].right) & mask;
  while (new_table_[at] != none) at = (at + 1) & mask;
  new_table_[at] = id;
}

}  // namespace heed::text
