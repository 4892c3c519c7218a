#include "text/segmentation.hpp"

#include "heed/error.hpp"
#include "text/hash.hpp"

namespace heed::text {
namespace {

std::size_t hash_pair(Symbol left, Symbol right) noexcept {
  return static_cast<std::size_t>(mix((std::uint64_t{left} << 32U) | right));
}

}  // namespace

Segmentation::Segmentation(std::int64_t min_frequency)
    : min_frequency_(min_frequency), pair_table_(1024, none) {}

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
  }
  for (NodeId id = begin; id + 1 < end; ++id) add_occurrence(id);
}

std::optional<FrequentPair> Segmentation::most_frequent() {
  for (; num_enqueued_ < pairs_.size(); ++num_enqueued_) enqueue(num_enqueued_);
  while (!queue_.empty()) {
    const QueueEntry top = queue_.top();
    const Pair& pair = pairs_[top.pair];
    // Nothing lost since it was put in, so its first occurrence is the same too.
    if (top.count == pair.count) return FrequentPair{pair.left, pair.right, pair.count};
    queue_.pop();
    enqueue(top.pair);
  }
  return std::nullopt;
}

void Segmentation::enqueue(PairId id) {
  const Pair& pair = pairs_[id];
  if (pair.count >= min_frequency_) queue_.push({pair.count, pair.first, id});
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
  Pair& pair = pairs_[node.pair];
  (node.previous_same == none ? pair.first : nodes_[node.previous_same].next_same) = node.next_same;
  (node.next_same == none ? pair.last : nodes_[node.next_same].previous_same) = node.previous_same;
  pair.count -= word_counts_[node.word];
}

Segmentation::PairId Segmentation::find_or_add_pair(Symbol left, Symbol right) {
  const std::size_t mask = pair_table_.size() - 1;
  std::size_t at = hash_pair(left, right) & mask;
  while (pair_table_[at] != none) {
    const Pair& pair = pairs_[pair_table_[at]];
    if (pair.left == left && pair.right == right) return pair_table_[at];
    at = (at + 1) & mask;
  }
  const auto id = static_cast<PairId>(pairs_.size());
  pairs_.push_back({.left = left, .right = right});
  pair_table_[at] = id;
  if (2 * pairs_.size() > pair_table_.size()) grow_pair_table();
  return id;
}

void Segmentation::grow_pair_table() {
  std::vector<PairId> larger(2 * pair_table_.size(), none);
  const std::size_t mask = larger.size() - 1;
  for (PairId id = 0; id < pairs_.size(); ++id) {
    std::size_t at = hash_pair(pairs_[id].left, pairs_[id].right) & mask;
    while (larger[at] != none) at = (at + 1) & mask;
    larger[at] = id;
  }
  pair_table_ = std::move(larger);
}

}  // namespace heed::text
