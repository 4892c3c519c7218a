#pragma once

// How the queries of an attention are cut into blocks, and what memory a thread needs for one.

#include <algorithm>
#include <cstddef>

#include "core/ceil_div.hpp"
#include "heed/attention/plan.hpp"
#include "heed/core/share_work.hpp"
#include "heed/core/workspace.hpp"
#include "kernels/kernels.hpp"

namespace heed::detail {

struct Blocks {
  Index rows;       ///< Rows of each block but the last one of a group, which may have fewer.
  Index per_group;  ///< Blocks of a group in the longest sequence.
};

/// What is worked on by itself in each sequence: a head, or the heads that share keys.
struct Groups {
  Index count;
  Index heads;  ///< Of each group.
};

// From this many queries on, one head alone has enough rows to pay for packing its keys:
// docs/measurements.md#one-head.
inline constexpr Index kQueriesOfOneHead = 288;

/// Heads that share keys are the rows of one block where there are few queries, as in decoding with grouped
/// heads (Ainslie et al. 2023): their keys and values are read once instead of once for each head.
inline Groups groups_of(const AttentionShape& shape) {
  const Index sharing = shape.num_heads / shape.num_kv_heads;
  if (sharing > 1 && shape.query_len < kQueriesOfOneHead) return {shape.num_kv_heads, sharing};
  return {shape.num_heads, 1};
}

inline std::size_t round_to_line(std::size_t bytes) {
  return (bytes + Workspace::alignment - 1) / Workspace::alignment * Workspace::alignment;
}

/// Blocks of equal height, in whole register tiles: the rows of a block share each packed tile of keys. A
/// row's bits do not depend on its block, so the blocks may be as high as the kernel takes, or lower where
/// threads would go without work.
template <class T>
Blocks equal_blocks(const AttentionShape& shape, Index threads, const kernels::Kernels<T>& kernels) {
  const Groups groups = groups_of(shape);
  const Index group_rows = shape.query_len * groups.heads;
  const auto blocks_of = [&](Index rows) { return ceil_div(group_rows, rows); };
  const Index all_groups = std::max<Index>(1, shape.batch_size * groups.count);
  Index blocks = blocks_of(kernels.query_block / kernels.tile_rows * kernels.tile_rows);
  if (threads > 1) {
    const Index min_rows = shape.query_len == 1 ? kernels.tile_rows : 48;
    const Index wanted_blocks = ceil_div(kItemsPerThread * std::min(threads, group_rows), all_groups);
    blocks = std::max(blocks, std::min(wanted_blocks, blocks_of(min_rows)));
  }
  if (blocks == 0) return {0, 0};
  const Index tiles = ceil_div(group_rows, blocks * kernels.tile_rows);
  const Index rows = std::min(tiles * kernels.tile_rows, group_rows);
  return {rows, blocks_of(rows)};
}

/// A thread's part of the workspace: row_max, row_sum and row_sees of a block, then the kernel's own.
template <class T>
std::size_t statistics_bytes(const kernels::Kernels<T>& kernels) {
  return round_to_line(static_cast<std::size_t>(kernels.query_block) * (2 * sizeof(T) + sizeof(bool)));
}

/// What else the kernel's workspace depends on.
struct Extras {
  bool masked = false;  ///< By matrices or a caller's function.
  bool rotated = false;
};

template <class T>
kernels::AttentionBytes kernel_bytes(const kernels::Kernels<T>& kernels, const AttentionShape& shape,
                                     Index block_rows, Extras extras) {
  const bool uneven = groups_of(shape).heads > 1 && shape.query_len > 1;
  return kernels.attention_bytes(
      {block_rows, shape.kv_len, shape.head_dim, shape.value_dim, extras.masked, extras.rotated || uneven});
}

template <class T>
std::size_t thread_bytes(const kernels::Kernels<T>& kernels, const AttentionShape& shape, Index block_rows,
                         Extras extras) {
  return statistics_bytes(kernels) + round_to_line(kernel_bytes(kernels, shape, block_rows, extras).total());
}

}  // namespace heed::detail
