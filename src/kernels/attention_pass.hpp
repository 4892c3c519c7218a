#pragma once

// What every pass over the tiles of keys shares, forward and backward: the extent of the block, its
// workspace, and the tile under way.

#include "kernels/key_value_tile.hpp"
#include "kernels/mask_tile.hpp"
#include "kernels/scores.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
using QuerySteps = Steps<1, kTileRows>;  // queries are packed by pack_queries
template <class T>
using ScoreSteps = Steps<kScoreStride<T>, 1>;  // scores are a row-major tile of kTileRows x kKeyTile

// With at most kQueriesInPlaceKeys keys, queries are read where they are instead of packed, since packing
// would not pay; with at most kFewKeys, values are too: docs/measurements.md#in-place.
template <class T>
inline constexpr Index kQueriesInPlaceKeys = 2 * kKeyTile<T>;
template <class T>
inline constexpr Index kFewKeys = 2 * kPanel<T>;

/// The extent of a block, its workspace, and the tile of keys under way.
template <class T>
struct Pass {
  const AttentionBlock<T>& block;
  const AttentionLayout<T> layout;
  T* scores;  ///< The scores of the register tile under way.
  MaskTile<T> mask;
  const bool plain;  ///< No step between a scaled dot product and a score.
  bool queries_in_place = false;
  bool values_in_place = false;
  Index first_packed_row = 0;
  KeyValueTile<T> tile{};
  bool loaded = false;  ///< Tile holds the current keys.

  static AttentionExtent extent_of(const AttentionBlock<T>& block) {
    const bool gathered = block.query_rotation.table != nullptr || block.key_rotation.table != nullptr ||
                          !rows_lie_evenly(block);
    return {block.num_rows, block.kv_len, block.head_dim, block.value_dim, is_masked(block), gathered};
  }

  T* memory(Index at) const { return static_cast<T*>(block.workspace) + at; }

  Pass(const AttentionBlock<T>& b, const AttentionExtent& extent)
      : block(b),
        layout(extent),
        scores(memory(layout.scores)),
        mask{memory(layout.bias), reinterpret_cast<bool*>(memory(layout.visible)), is_masked(b), false},
        plain(!mask.masked && b.softcap == T(0) && b.slopes == nullptr && b.hook == nullptr) {}

  /// Packs the queries of the whole block, unless they are better read where they are.
  void pack_block() {
    // With one tile of queries each value is used once, and with few keys each query is used seldom: packing
    // them would only be a detour.
    const bool few = block.num_rows <= kTileRows || block.kv_len <= kFewKeys<T>;
    queries_in_place = (few || block.kv_len <= kQueriesInPlaceKeys<T>)&&block.query.col_stride == 1 &&
                       block.query_rotation.table == nullptr && rows_lie_evenly(block) &&
                       !(block.cached.keys != nullptr && block.num_rows <= kDecodeRows);
    values_in_place = few && block.cached.keys == nullptr && block.value.col_stride == 1 &&
                      block.value_dim % kLanes<T> == 0;
    if (!queries_in_place) pack_queries<T>(block, memory(layout.gathered), memory(layout.queries));
  }

  /// The keys of a tile that some row of [first_row, first_row + rows) may see; positions only move forward.
  KeyRange seen_by(Index first_row, Index rows, Index first_key, Index keys) const {
    return {range_of(block, first_row, first_key, keys).begin,
            range_of(block, first_row + rows - 1, first_key, keys).end};
  }

  /// Who of a register tile sees which of the keys [range.begin, range.end). False if no row sees any of
  /// them.
  bool find_visible(Index first_row, Index rows, Index first_key, KeyRange range) {
    return !range.empty() && (!mask.masked || fill_mask(block, first_row, rows, first_key, range, mask));
  }

  /// Tiles that no row sees are not touched.
  void load(Index first_key, KeyRange seen) {
    if (!loaded) tile = load_tile<T>(block, layout, first_key, seen, values_in_place);
    loaded = true;
  }

  /// The scores of a register tile for the keys [range.begin, range.end) of a loaded tile, up to the scale if
  /// they are plain. capped: nullptr, or where scores go before anything is added to them.
  void compute_scores(Index first_row, Index rows, Index first_key, KeyRange range, T* capped = nullptr) {
    // scores = query * key^T
    const PanelRange panels = {range.begin / kPanel<T> * kPanel<T>, range.end};
    if (tile.stored_keys != nullptr) {
      stored_scores(rows, panels);
    } else if (queries_in_place) {
      const Strided<const T> query = even_rows(block, block.query, first_row);
      panels_product<T, InPlaceSteps, Start::zero>(rows, block.head_dim, query.data, tile.keys, panels,
                                                   scores, kScoreStride<T>, {query.row_stride});
    } else {
      panels_product<T, QuerySteps<T>, Start::zero>(
          rows, block.head_dim, memory(layout.queries) + (first_row - first_packed_row) * block.head_dim,
          tile.keys, panels, scores, kScoreStride<T>);
    }
    if (plain) return;
    for (Index r = 0; r < rows; ++r) {
      const KeyRange own = range_of(block, first_row + r, first_key, range.end);
      if (own.empty()) continue;
      const Index at = r * kScoreStride<T>;
      transform<T>(block, first_row + r, first_key, own, mask.biased ? mask.bias + r * kKeyTile<T> : nullptr,
                   scores + at, capped != nullptr ? capped + at : nullptr);
    }
    if (block.hook != nullptr && block.hook->score != nullptr) {
      block.hook->score(block.hook->context, block,
                        {first_row, rows, first_key + range.begin, range.end - range.begin,
                         scores + range.begin, kScoreStride<T>, nullptr, 0});
    }
  }

  void stored_scores(Index rows, const PanelRange& panels) const {
    with_stored_panels<T>(
        block.cached.storage, tile.stored_keys, block.head_dim, kKeyTile<T>, [&](const auto& keys) {
          panels_product<T, QuerySteps<T>, Start::zero, kDecodeRows, Source::memory>(
              rows, block.head_dim, memory(layout.queries), keys, panels, scores, kScoreStride<T>);
        });
  }

  /// acc += weights * values, for the keys of the range.
  void accumulate(Index rows, KeyRange range, T* acc) const {
    const Index depth = range.end - range.begin;
    const T* const weights = scores + range.begin;
    const PanelRange all = {0, block.value_dim, range.begin};
    if (tile.stored_values != nullptr) {
      with_stored_panels<T>(
          block.cached.storage, tile.stored_values, kKeyTile<T>, block.value_dim, [&](const auto& values) {
            panels_product<T, ScoreSteps<T>, Start::accumulate, kDecodeRows, Source::memory>(
                rows, depth, weights, values, all, acc, layout.value_cols);
          });
    } else if (values_in_place) {
      const Panels<T>& values = tile.values;
      wide_product<T, ScoreSteps<T>, Start::accumulate>(
          rows, depth, weights, values.data + range.begin * values.row_stride, values.row_stride,
          block.value_dim, acc, layout.value_cols);
    } else {
      panels_product<T, ScoreSteps<T>, Start::accumulate>(rows, depth, weights, tile.values, all, acc,
                                                          layout.value_cols);
    }
  }

  const bool* visible_keys(Index r) const { return mask.masked ? mask.visible + r * kKeyTile<T> : nullptr; }

  /// The range of keys that a row may see something in, within what has been computed; empty if nothing.
  KeyRange visible_range(Index row, Index r, Index first_key, KeyRange range) const {
    const KeyRange own = range_of(block, row, first_key, range.end);
    if (own.empty()) return {0, 0};
    if (mask.masked && !any_of(visible_keys(r) + own.begin, own.end - own.begin)) return {0, 0};
    return own;
  }
};

/// acc += weights * values where some value of the tile is NaN or infinite: only what the row sees may be
/// touched, since 0 * NaN is NaN. Runs of visible keys go through the one-row tile, which does the same
/// operations as the full one.
template <class T>
inline void accumulate_visible(const Panels<T>& values, const T* weights, KeyRange range, const bool* visible,
                               T* acc) {
  Index first = range.begin;
  while (first < range.end) {
    if (!visible[first]) {
      ++first;
      continue;
    }
    Index last = first + 1;
    while (last < range.end && visible[last]) ++last;
    for (Index col = 0; col < values.cols; col += kPanel<T>) {
      const auto panel = values.at(col, first);
      if (values.cols - col > kLanes<T>) {
        tile_product<T, 1, kTilePackets, ScoreSteps<T>, Start::accumulate>(
            last - first, weights + first, panel.data, panel.step, acc + col, 0);
      } else {
        tile_product<T, 1, 1, ScoreSteps<T>, Start::accumulate>(last - first, weights + first, panel.data,
                                                                panel.step, acc + col, 0);
      }
    }
    first = last;
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
