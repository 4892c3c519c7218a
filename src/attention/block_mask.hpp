#pragma once

// What a block of rows sees: the parts of a mask as the kernels take them.

#include <algorithm>

#include "heed/attention/plan.hpp"
#include "kernels/kernels.hpp"

namespace heed::detail {

/// The keys that the rows from query `query` on see, as far as distances go.
inline kernels::VisibleRange visible_range(const Mask& mask, Index sequence, Index kv_len, Index query_offset,
                                           Index query) {
  // Beyond every key, and steps from row to row overflow nowhere.
  constexpr Index far = Mask::kMaxOffset;
  const Mask::Reach reach = mask.reach(query_offset, query);
  kernels::VisibleRange range;
  range.kv_len = mask.kv_length(sequence, kv_len);
  if (mask.window().left != kUnlimited) {
    range.first_begin = std::clamp(reach.first, -far, far);
    range.begin_step = 1;
  }
  range.first_end = range.kv_len;
  if (mask.is_causal() || mask.window().right != kUnlimited) {
    range.first_end = std::clamp(reach.last, -far, far) + 1;
    range.end_step = 1;
  }
  return range;
}

/// A matrix of the mask from query `query` of a head on.
template <class T>
kernels::MaskPart<T> mask_part(const MaskMatrix& matrix, const AttentionShape& shape, Index sequence,
                               Index head, Index query) {
  const UntypedView& entries = matrix.entries;
  const MaskSizes sizes = shape.mask_sizes();
  const Index block_rows = matrix.block_rows(sizes);
  const bool a_row_each = block_rows > 1;
  const Index row = matrix.block_of(sizes, sequence, head) * block_rows + (a_row_each ? query : 0);
  // A matrix without columns may have no memory, so no address inside it is computed.
  const Index at = entries.cols == 0 ? 0 : row * entries.row_stride;
  const Index position_stride = a_row_each ? entries.row_stride : 0;
  const Index head_stride = matrix.per_head() ? block_rows * entries.row_stride : 0;
  kernels::MaskPart<T> part{};
  if (matrix.kind == MaskMatrix::Kind::bias) {
    part.bias = {static_cast<const T*>(entries.data) + at, position_stride, head_stride, entries.col_stride};
  } else {
    part.visibility = {static_cast<const bool*>(entries.data) + at, position_stride, head_stride,
                       entries.col_stride};
    part.keep = matrix.kind == MaskMatrix::Kind::keep;
  }
  return part;
}

/// What makes the scores of a block: the mask, seen from query `query` of a head on, and the numbers.
/// query_offset: where the sequence's first query stands. The block knows its kv_len; parts has room for
/// Mask::kMaxMatrices and lives as long as it. Of a cache, keys are turned already.
template <class T>
void set_scores(const ScoreNumbers<T>& numbers, const Mask& mask, const AttentionShape& shape, Index sequence,
                Index query_offset, Index head, Index query, kernels::MaskPart<T>* parts,
                kernels::AttentionBlock<T>& block) {
  // Slopes, rotaries and functions have offsets within the bound: for them nothing is clamped.
  block.first_position = query + std::clamp(query_offset, -Mask::kMaxOffset, Mask::kMaxOffset);
  block.visible = visible_range(mask, sequence, block.kv_len, query_offset, query);
  block.num_mask_parts = 0;
  for (const MaskMatrix& matrix : mask.matrices())
    parts[block.num_mask_parts++] = mask_part<T>(matrix, shape, sequence, head, query);
  block.mask_parts = parts;
  block.slopes = numbers.slopes.empty() ? nullptr : numbers.slopes.data() + head;
  block.sinks = numbers.sinks.empty() ? nullptr : numbers.sinks.data() + head;
  block.scale = numbers.scale;
  block.softcap = numbers.softcap;
  if (numbers.rotary_table == nullptr) return;
  block.query_rotation = {numbers.rotary_table, numbers.rotary->rotary_dim() / 2,
                          numbers.rotary->layout() == RotaryLayout::interleaved, block.first_position};
  if (block.cached.keys != nullptr) return;
  block.key_rotation = block.query_rotation;
  block.key_rotation.first = 0;
}

}  // namespace heed::detail
