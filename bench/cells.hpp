#pragma once

// A cell is one line of the table: a problem that Heed solves, with what it is compared to on the same data.

#include <regex>
#include <string>
#include <vector>

namespace heed::bench {

/// Heed and what this program itself compares it to. heed is planned beforehand, as in a program that runs
/// the same sizes again and again; heed_call is the one-line call, which checks, plans and takes memory each
/// time: the same bits. col_major is heed with query, key, value and out in column-major order: the same bits
/// too. Where one token is decoded, heed reads a KvCache, matrices is Heed on the caller's key and value
/// matrices (the same bits), and bfloat16 a cache of half the bytes. nothing is an empty body, for a guard.
enum class Contender { heed, heed_call, naive, eigen, col_major, matrices, bfloat16, nothing };

/// The last part of a benchmark's name.
constexpr const char* name_of(Contender contender) {
  switch (contender) {
    case Contender::heed:
      return "heed";
    case Contender::heed_call:
      return "heed call";
    case Contender::naive:
      return "naive";
    case Contender::eigen:
      return "eigen";
    case Contender::col_major:
      return "col_major";
    case Contender::matrices:
      return "matrices";
    case Contender::bfloat16:
      return "bfloat16";
    case Contender::nothing:
      break;
  }
  return "nothing";
}

/// Somebody who solves a cell's problem: a contender or a peer.
struct Contestant {
  std::string name;       // as in the benchmark's name, "<cell>/<contestant>"
  std::string version;    // empty: Heed's own program
  std::string way;        // what was called, if there was a choice
  double max_error = -1;  // of Heed see Cell; of the others, against Heed's result
  std::string failure;    // why it is not timed: a wrong result, or what it said
};

struct Cell {
  std::string name;    // "attention/float/d64/causal/n1024/t1"
  std::string scalar;  // "float" or "double"
  int threads = 1;
  long batch = 1;
  long heads = 1;
  long kv_heads = 1;
  long query_len = 0;
  long kv_len = 0;
  long head_dim = 0;
  long value_dim = 0;
  long d_model = 0;  // of a whole layer with its projections, 0 for attention alone
  long depth = 0;    // of a matrix product: (query_len x depth) times (depth x cols), else 0
  long cols = 0;
  bool causal = false;
  bool gradients = false;     // attention with its logsumexp, and then the gradients of query, key and value
  long window = 0;            // keys that a query sees at most, its own the last; 0: no window
  long kv_length = 0;         // keys that exist, the rest is padding; 0: all
  std::vector<long> lengths;  // of the sequences of a ragged batch; empty: equally long
  double bytes = 0;           // of keys and values, where one token is decoded: reading them is the limit
  double flops = 0;           // of one run, those of visible keys alone
  double max_error = -1;      // of Heed: against long double on some rows, a layer against the naive loops
  std::vector<Contestant> contestants;  // Heed first

  bool decodes() const { return d_model == 0 && cols == 0 && !gradients && query_len == 1 && kv_len > 1; }
};

/// Google Benchmark's filter: a regular expression, found anywhere in a name, or all others behind a minus.
class Filter {
 public:
  /// Throws std::regex_error.
  explicit Filter(const std::string& text = ".*")
      : others_(text.starts_with('-')), pattern_(others_ ? text.substr(1) : text) {}

  bool selects(const std::string& name) const { return std::regex_search(name, pattern_) != others_; }

 private:
  bool others_;
  std::regex pattern_;
};

struct Grid {
  bool quick = false;
  int max_threads = 1;
  Filter filter{};  // cells none of whose benchmarks it selects are not even checked
};

/// Checks Heed on every cell of the grid, and registers a Google Benchmark "<cell>/<contender>" for each
/// contender. Throws std::runtime_error, which names the cell, if a result is wrong.
std::vector<Cell> register_cells(const Grid& grid);

struct PeerGrid {
  bool quick = false;
  int threads = 1;
  Filter filter{};
};

/// The same for the problems that other libraries solve too, with these as contestants. One that gives
/// another result than Heed, or fails, is reported and not timed.
std::vector<Cell> register_peer_cells(const PeerGrid& grid);

}  // namespace heed::bench
