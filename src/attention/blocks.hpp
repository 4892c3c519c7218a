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

/// True if the heads that share keys have one query each, as in decoding with grouped heads (Ainslie et al.
/// 2023). They are then the rows of a block, and their keys and values are read once instead of once for each
/// head.
inline bool heads_are_rows(const AttentionShape& shape) {
  return shape.query_len == 1 && shape.num_heads > shape.num_kv_heads;
}

/// Heads that are worked on by themselves, and the rows of each.
struct Work {
  Index heads;
  Index rows;
};

inline Work work_of(const AttentionShape& shape) {
  if (heads_are_rows(shape)) return {shape.num_kv_heads, shape.num_heads / shape.num_kv_heads};
  return {shape.num_heads, shape.query_len};
}

inline std::size_t round_to_line(std::size_t bytes) {
  return (bytes + Workspace::alignment - 1) / Workspace::alignment * Workspace::alignment;
}

/// Blocks of equal height, in whole register tiles: the rows of a block share each packed tile of keys. A
/// row's bits do not depend on its block, so the blocks may be as high as the kernel takes, or lower where
/// threads would go without work.
template <class T>
Blocks equal_blocks(const AttentionShape& shape, Index threads, const kernels::Kernels<T>& kernels) {
  const Work work = work_of(shape);
  const auto blocks_of = [&](Index rows) { return (work.rows + rows - 1) / rows; };
  const Index heads = std::max<Index>(1, shape.batch_size * work.heads);
  Index blocks = blocks_of(kernels.query_block / kernels.tile_rows * kernels.tile_rows);
  if (threads > 1) {
    constexpr Index blocks_per_thread = 4;
    const Index fewest_rows = heads_are_rows(shape) ? kernels.tile_rows : 48;
    const Index wanted_blocks = (blocks_per_thread * std::min(threads, work.rows) + heads - 1) / heads;
    blocks = std::max(blocks, std::min(wanted_blocks, blocks_of(fewest_rows)));
  }
  if (blocks == 0) return {0, 0};
  const Index tiles = (work.rows + blocks * kernels.tile_rows - 1) / (blocks * kernels.tile_rows);
  const Index rows = std::min(tiles * kernels.tile_rows, work.rows);
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
