#pragma once

// How the queries of an attention are cut into blocks, and what memory a thread needs for one.

#include <algorithm>
#include <cstddef>

#include "heed/attention_plan.hpp"
#include "heed/workspace.hpp"
#include "kernels/kernels.hpp"

namespace heed::detail {

struct Blocks {
  Index rows;  // of each block but the last one of a head, which may have fewer
  Index per_head;
};

inline std::size_t round_to_line(std::size_t bytes) {
  return (bytes + Workspace::alignment - 1) / Workspace::alignment * Workspace::alignment;
}

/// Blocks of equal height, in whole register tiles: the rows of a block share each packed tile of keys. A
/// row's bits do not depend on its block, so the blocks may be as high as the kernel takes, or lower where
/// threads would go without work.
template <class T>
Blocks equal_blocks(const AttentionShape& shape, Index threads, const kernels::Kernels<T>& kernels) {
  const auto blocks_of = [&](Index rows) { return (shape.query_len + rows - 1) / rows; };
  const Index heads = std::max<Index>(1, shape.batch_size * shape.num_heads);
  Index blocks = blocks_of(kernels.query_block / kernels.tile_rows * kernels.tile_rows);
  if (threads > 1) {
    constexpr Index blocks_per_thread = 4;
    constexpr Index fewest_rows = 48;
    const Index wanted_blocks = (blocks_per_thread * std::min(threads, shape.query_len) + heads - 1) / heads;
    blocks = std::max(blocks, std::min(wanted_blocks, blocks_of(fewest_rows)));
  }
  if (blocks == 0) return {0, 0};
  const Index tiles = (shape.query_len + blocks * kernels.tile_rows - 1) / (blocks * kernels.tile_rows);
  const Index rows = std::min(tiles * kernels.tile_rows, shape.query_len);
  return {rows, blocks_of(rows)};
}

/// A thread's part of the workspace: row_max and row_sum of a block, then the kernel's own.
template <class T>
std::size_t statistics_bytes(const kernels::Kernels<T>& kernels) {
  return round_to_line(2 * static_cast<std::size_t>(kernels.query_block) * sizeof(T));
}

template <class T>
kernels::AttentionBytes kernel_bytes(const kernels::Kernels<T>& kernels, const AttentionShape& shape,
                                     Index block_rows) {
  return kernels.attention_bytes(block_rows, shape.kv_len, shape.head_dim, shape.value_dim);
}

template <class T>
std::size_t thread_bytes(const kernels::Kernels<T>& kernels, const AttentionShape& shape, Index block_rows) {
  return statistics_bytes(kernels) + round_to_line(kernel_bytes(kernels, shape, block_rows).total());
}

}  // namespace heed::detail
