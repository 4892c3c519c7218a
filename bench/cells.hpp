#pragma once

// A cell is one line of the table: a problem that Heed solves, with what it is compared to on the same data.

#include <string>
#include <vector>

namespace heed::bench {

/// col_major is Heed again, with query, key, value and out in column-major order: the same bits. nothing is
/// an empty body, for a guard.
enum class Contender { heed, naive, eigen, col_major, nothing };

/// The last part of a benchmark's name.
constexpr const char* name_of(Contender contender) {
  switch (contender) {
    case Contender::heed:
      return "heed";
    case Contender::naive:
      return "naive";
    case Contender::eigen:
      return "eigen";
    case Contender::col_major:
      return "col_major";
    case Contender::nothing:
      break;
  }
  return "nothing";
}

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
  bool causal = false;
  double flops = 0;  // of one run, those of the visible half if causal
  double max_error =
      -1;  // of Heed: attention against long double on some rows, a layer against the naive loops
};

struct Grid {
  bool quick = false;
  int most_threads = 1;
};

/// Checks Heed on every cell of the grid, and registers a Google Benchmark "<cell>/<contender>" for each
/// contender. Throws std::runtime_error, which names the cell, if a result is wrong.
std::vector<Cell> register_cells(const Grid& grid);

}  // namespace heed::bench
