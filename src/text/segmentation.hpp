#pragma once

// The bookkeeping that makes training fast. The naive trainer counts all pairs again in each round; here the
// counts, and the places where each pair occurs, are kept up to date merge by merge.
//
// Nodes: one per symbol of each distinct word, linked to its neighbors within the word. A node's place in
// the array is its place in the text, so "occurs first" is "has the smaller number". A merge keeps the left
// node, with the new symbol, and takes the right one out.
//
// Pairs: the number of occurrences of each pair, and a list of where they are, threaded through the nodes in
// the order of the text. A node is in the list of the pair that it starts. Pairs below the minimal frequency
// are forgotten: they never come back.
//
// Queue: pairs by (frequency, first occurrence). An entry may promise too much, since a merge also destroys
// occurrences of other pairs; it is corrected when it reaches the top. It never promises too little, because
// a pair gains occurrences only in the round that first makes it:
//
// No text is made by two different merges. Merges that reach over the ends of a span keep it from ever being
// one symbol; the others cut it in a way that its own text decides, also in runs like "aaaa", whose pairs are
// merged from the left. So each merge makes a symbol that was not there before, and the pairs with that
// symbol all arise in that round.

#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <vector>

namespace heed::text {

using Symbol = std::uint32_t;

/// A pair of neighboring symbols and how often it occurs, each distinct word counted as often as the corpus
/// has it.
struct FrequentPair {
  Symbol left;
  Symbol right;
  std::int64_t frequency;
};

class Segmentation {
 public:
  /// Pairs that occur less often than min_frequency, which is at least 1, are not looked for.
  explicit Segmentation(std::int64_t min_frequency);

  /// Appends the next distinct word of the corpus, which occurs `count` times.
  void add_word(std::span<const Symbol> symbols, std::int64_t count);

  /// The pair with the most occurrences, overlapping ones included; among equals the one that occurs first.
  std::optional<FrequentPair> most_frequent();

  /// Replaces the pair that most_frequent() returned by `symbol`, a new one, from left to right in every
  /// word.
  void merge_most_frequent(Symbol symbol);

 private:
  using NodeId = std::uint32_t;
  using PairId = std::uint32_t;
  static constexpr std::uint32_t none = 0xFFFFFFFFU;

  struct Node {
    Symbol symbol;
    NodeId previous;  // neighbors within the word, or none
    NodeId next;
    std::uint32_t word;
    PairId pair;           // that this node and the next one form, none if it is forgotten
    NodeId previous_same;  // neighbors in the list of that pair's occurrences, or none
    NodeId next_same;
  };

  struct Pair {
    Symbol left = 0;
    Symbol right = 0;
    std::int64_t count = 0;
    NodeId first = none;  // of the list of occurrences
    NodeId last = none;
  };

  struct QueueEntry {
    std::int64_t count;
    NodeId first;
    PairId pair;
    // std::priority_queue puts the greatest on top.
    friend bool operator<(const QueueEntry& a, const QueueEntry& b) noexcept {
      return a.count != b.count ? a.count < b.count : a.first > b.first;
    }
  };

  PairId find_or_add_pair(Symbol left, Symbol right);
  void place_in_table(PairId id);
  void finish_round();
  void add_occurrence(NodeId id);
  void remove_occurrence(NodeId id);
  void merge_at(NodeId id, Symbol symbol);
  void enqueue_or_retire(PairId id);

  std::int64_t min_frequency_;
  std::vector<std::int64_t> word_counts_;
  std::vector<Node> nodes_;
  std::vector<Pair> pairs_;
  std::vector<PairId> retired_;    // places in pairs_ to be used again
  std::vector<PairId> new_pairs_;  // of this round
  std::vector<PairId>
      new_table_;  // new_pairs_ by symbols: open addressing, linear probing, at most half full
  std::priority_queue<QueueEntry> queue_;  // at most one entry per pair
};

}  // namespace heed::text
