#include "cells.hpp"

#include <utility>

#include "contest.hpp"
#include "gpt_cells.hpp"

namespace heed::bench {

namespace {

/// The cells of a grid, as far as its filter selects them.
struct Cells {
  const Grid& grid;
  std::vector<Cell> list{};

  template <class T>
  void add(Cell sizes, const std::vector<Contender>& rivals) {
    Cell cell = completed<T>(std::move(sizes));
    if (!selects(grid.filter, cell, rivals)) return;
    enter<T>(cell, rivals);
    list.push_back(cell);
  }
};

// Above this length the naive loops take seconds for one sample.
constexpr long kLongestNaive = 1024;
// Up to this length, what the one-line call does besides the attention shows in its time.
constexpr long kLongestCall = 16;

template <class T>
void add_attention(Cells& cells, long n, long head_dim, bool causal, int threads) {
  Cell cell;
  cell.threads = threads;
  cell.query_len = cell.kv_len = n;
  cell.head_dim = cell.value_dim = head_dim;
  cell.causal = causal;
  std::vector<Contender> rivals;
  if (n <= kLongestCall) rivals.push_back(Contender::heed_call);
  if (threads == 1) rivals.push_back(Contender::eigen);
  if (threads == 1 && n <= kLongestNaive) rivals.push_back(Contender::naive);
  if (threads == 1 && head_dim == 64 && (n == 512 || n == 1024)) rivals.push_back(Contender::col_major);
  cells.add<T>(cell, rivals);
}

/// What is hidden costs nothing: the fraction of the peak, by the operations for visible keys alone, tells
/// what is lost beside the same length in full.
void add_hidden(Cells& cells) {
  Cell cell;
  cell.heads = cell.kv_heads = 4;
  cell.query_len = cell.kv_len = 4096;
  cell.head_dim = cell.value_dim = 64;
  const auto add = [&cells](const Cell& sizes) { cells.add<float>(sizes, {}); };
  add(cell);
  cell.window = 256;
  add(cell);
  cell.window = 0;
  cell.kv_length = 2048;
  add(cell);
  cell.kv_length = 0;
  cell.causal = true;
  cell.lengths = {100, 1900, 40, 500, 2000, 1, 700, 300};
  cell.batch = static_cast<long>(cell.lengths.size());
  cell.query_len = cell.kv_len = 2000;
  add(cell);
}

/// One new token against a cache of n, for 32 heads of 128.
void add_decode(Cells& cells, long kv_heads, long n, int threads) {
  Cell cell;
  cell.threads = threads;
  cell.heads = 32;
  cell.kv_heads = kv_heads;
  cell.query_len = 1;
  cell.kv_len = n;
  cell.head_dim = cell.value_dim = 128;
  std::vector<Contender> rivals = {Contender::bfloat16, Contender::matrices};
  if (threads == 1) rivals.push_back(Contender::eigen);
  cells.add<float>(cell, rivals);
}

/// Attention as in training: forward, and backward to query, key and value.
template <class T>
void add_gradients(Cells& cells, long batch, long heads, long n, int threads) {
  Cell cell;
  cell.gradients = true;
  cell.threads = threads;
  cell.batch = batch;
  cell.heads = cell.kv_heads = heads;
  cell.query_len = cell.kv_len = n;
  cell.head_dim = cell.value_dim = 64;
  cell.causal = true;
  std::vector<Contender> rivals;
  if (threads == 1 && batch == 1) rivals.push_back(Contender::naive);
  cells.add<T>(cell, rivals);
}

/// The projection of n tokens to query, key and value in a model of 768.
void add_product(Cells& cells, long n) {
  Cell cell;
  cell.query_len = n;
  cell.depth = 768;
  cell.cols = 3 * cell.depth;
  cells.add<float>(cell, {Contender::eigen});
}

template <class T>
void add_layer(Cells& cells, long n, long d_model, long heads, int threads) {
  Cell cell;
  cell.threads = threads;
  cell.heads = cell.kv_heads = heads;
  cell.query_len = cell.kv_len = n;
  cell.head_dim = cell.value_dim = d_model / heads;
  cell.d_model = d_model;
  cell.causal = true;
  std::vector<Contender> rivals;
  if (n <= kLongestCall) rivals.push_back(Contender::heed_call);
  if (threads == 1) rivals.insert(rivals.end(), {Contender::eigen, Contender::naive});
  cells.add<T>(cell, rivals);
}

}  // namespace

std::vector<Cell> register_cells(const Grid& grid) {
  Cells cells{grid};
  const std::vector<long> lengths =
      grid.quick ? std::vector<long>{4, 64, 256, 1024}
                 : std::vector<long>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  for (const bool causal : {false, true}) {
    for (const long n : lengths) add_attention<float>(cells, n, 64, causal, 1);
  }
  for (const bool causal : {false, true}) {
    for (const long n : lengths) {
      if (!grid.quick || n == 1024) add_attention<double>(cells, n, 64, causal, 1);
    }
  }
  if (!grid.quick) {
    for (const bool causal : {false, true}) {
      for (const long n : {512L, 2048L}) add_attention<float>(cells, n, 128, causal, 1);
    }
  }
  if (grid.max_threads > 1) {
    for (const bool causal : {false, true}) {
      for (const long n : grid.quick ? std::vector<long>{1024} : std::vector<long>{512, 1024, 4096}) {
        add_attention<float>(cells, n, 64, causal, 2);
      }
    }
  }
  if (!grid.quick) add_hidden(cells);
  for (const int threads : {1, 2}) {
    if (threads > grid.max_threads) continue;
    if (!grid.quick) add_decode(cells, 32, 4096, threads);
    if (!grid.quick || threads == 1) add_decode(cells, 8, 4096, threads);
  }
  add_gradients<float>(cells, 1, 4, 128, 1);
  if (!grid.quick) {
    add_gradients<double>(cells, 1, 4, 128, 1);
    add_gradients<float>(cells, 1, 1, 1024, 1);
    add_gradients<float>(cells, 8, 12, 512, 1);
    if (grid.max_threads > 1) add_gradients<float>(cells, 8, 12, 512, 2);
  }
  for (const long n : grid.quick ? std::vector<long>{256} : std::vector<long>{8, 64, 128, 256, 512, 1024}) {
    add_product(cells, n);
  }
  add_layer<float>(cells, 4, 16, 2, 1);
  add_layer<double>(cells, 4, 16, 2, 1);
  add_layer<float>(cells, 128, 256, 4, 1);
  if (!grid.quick) {
    add_layer<float>(cells, 128, 768, 12, 1);
    add_layer<double>(cells, 128, 768, 12, 1);
    add_layer<float>(cells, 512, 768, 12, 1);
  }
  const std::vector<Cell> gpt = register_gpt_cells(grid);
  cells.list.insert(cells.list.end(), gpt.begin(), gpt.end());
  return cells.list;
}

}  // namespace heed::bench
