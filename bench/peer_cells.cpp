// The problems that Heed shares with other libraries: from a prompt of a small model to one token against a
// long cache.

#include <algorithm>
#include <stdexcept>

#include "cells.hpp"
#include "contest.hpp"
#include "gpt_cells.hpp"
#include "peer_contest.hpp"

namespace heed::bench {

namespace {

struct AttentionSizes {
  long batch, heads, kv_heads, query_len, kv_len, head_dim;
  bool causal;
  bool quick;  // also in a quick run
};
constexpr AttentionSizes attention_cells[] = {
    {1, 12, 12, 128, 128, 64, false, true},     {1, 12, 12, 128, 128, 64, true, true},
    {1, 12, 12, 1024, 1024, 64, false, true},   {1, 12, 12, 1024, 1024, 64, true, true},
    {1, 12, 12, 4096, 4096, 64, false, false},  {1, 12, 12, 4096, 4096, 64, true, false},
    {8, 12, 12, 512, 512, 64, false, false},    {8, 12, 12, 512, 512, 64, true, false},
    {1, 32, 32, 2048, 2048, 128, false, false}, {1, 32, 32, 2048, 2048, 128, true, false},
    {1, 32, 32, 1, 4096, 128, false, false},    {1, 32, 8, 1, 4096, 128, false, true},
};

// Forward and backward, as in training: (batch, heads, tokens, head_dim) = (8, 12, 512, 64), causal.
constexpr AttentionSizes gradient_cells[] = {{8, 12, 12, 512, 512, 64, true, true}};

struct ProductSizes {
  long rows, depth, cols;
  bool quick;
};
// The projection to query, key and value in a model of 768.
constexpr ProductSizes product_cells[] = {
    {128, 768, 2304, false}, {512, 768, 2304, true}, {2048, 768, 2304, false}};

struct LayerSizes {
  long seq_len, d_model, heads;
  bool quick;
};
constexpr LayerSizes layer_cells[] = {{4, 16, 2, true}, {128, 768, 12, false}, {512, 768, 12, false}};

Cell cell_of(const AttentionSizes& sizes) {
  Cell cell;
  cell.batch = sizes.batch;
  cell.heads = sizes.heads;
  cell.kv_heads = sizes.kv_heads;
  cell.query_len = sizes.query_len;
  cell.kv_len = sizes.kv_len;
  cell.head_dim = cell.value_dim = sizes.head_dim;
  cell.causal = sizes.causal;
  return cell;
}

Cell cell_of(const ProductSizes& sizes) {
  Cell cell;
  cell.query_len = sizes.rows;
  cell.depth = sizes.depth;
  cell.cols = sizes.cols;
  return cell;
}

Cell cell_of(const LayerSizes& sizes) {
  Cell cell;
  cell.heads = cell.kv_heads = sizes.heads;
  cell.query_len = cell.kv_len = sizes.seq_len;
  cell.head_dim = cell.value_dim = sizes.d_model / sizes.heads;
  cell.d_model = sizes.d_model;
  cell.causal = true;
  return cell;
}

// Of the loops, which do about two in a nanosecond: above it a sample takes seconds.
constexpr double kMaxNaiveFlops = 4e9;

}  // namespace

std::vector<Cell> register_peer_cells(const PeerGrid& grid) {
  const std::vector<Peer> all_peers = peers();
  if (all_peers.empty()) {
    throw std::runtime_error(
        "this program was built without peers: install some (see docs/benchmarks.md) and configure with "
        "-DHEED_BENCH_PEERS=ON, or run scripts/bench --peers");
  }
  std::vector<Cell> cells;
  const auto add = [&](const auto& sizes, bool gradients = false) {
    if (grid.quick && !sizes.quick) return;
    Cell cell = cell_of(sizes);
    cell.threads = grid.threads;
    cell.gradients = gradients;
    cell = completed<float>(cell);
    std::vector<Contender> rivals;
    // Both work on one thread.
    if (cell.decodes()) {
      rivals.push_back(Contender::bfloat16);
      rivals.push_back(Contender::matrices);
    }
    if (cell.threads == 1 && !cell.gradients) rivals.push_back(Contender::eigen);
    if (cell.threads == 1 && cell.flops <= kMaxNaiveFlops) rivals.push_back(Contender::naive);
    const auto selected = [&](const Peer& peer) { return grid.filter.selects(cell.name + "/" + peer.name); };
    if (!selects(grid.filter, cell, rivals) && std::none_of(all_peers.begin(), all_peers.end(), selected))
      return;
    enter<float>(cell, rivals);
    enter_peers(cell, all_peers);
    cells.push_back(cell);
  };
  for (const AttentionSizes& sizes : attention_cells) add(sizes);
  for (const AttentionSizes& sizes : gradient_cells) add(sizes, true);
  for (const ProductSizes& sizes : product_cells) add(sizes);
  for (const LayerSizes& sizes : layer_cells) add(sizes);
  const std::vector<Cell> gpt = register_gpt_peer_cells(grid, all_peers);
  cells.insert(cells.end(), gpt.begin(), gpt.end());
  return cells;
}

}  // namespace heed::bench
