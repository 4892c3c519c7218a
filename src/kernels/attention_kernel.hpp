#pragma once

// The attention kernel: one block of query rows against all its keys, tile by tile, with the softmax computed
// online (Milakov and Gimelshein 2018, Algorithm 3; Dao 2023, Algorithm 1), so that no query_len x kv_len
// matrix exists.
//
// Invariant after the keys [0, j): for each row, over its visible keys below j,
//   row_max = max of scores, row_sum = sum of exp(score - row_max), acc = sum of exp(score - row_max) *
//   value.
// A sink is a score without a value, seen before the first key.
//
// A row's arithmetic depends on its own query, its visible keys and values, and where these stand after the
// first key: tile edges are multiples of the constant kKeyTile, a hidden key adds +0 or is skipped (the sign
// of a zero sum is settled at the end), and every sum over lanes, keys and depth has one order. That gives
// the same bits for full passes, chunks and single rows.

#include "kernels/finish_rows.hpp"
#include "kernels/key_value_tile.hpp"
#include "kernels/mask_tile.hpp"
#include "kernels/scores.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
using QuerySteps = Steps<1, kTileRows>;  // queries are packed by pack_queries
template <class T>
using ScoreSteps = Steps<kKeyTile<T>, 1>;  // scores are a row-major tile of kTileRows x kKeyTile

// Up to so many keys queries, and up to so many values, are read where they are. At head_dim 64, packing
// queries took 5 % of the time for 128 keys (AVX-512; AVX2: 1 %) and gained 3 % for 512 (AVX2); packing
// values too took 12 % for 16 (AVX2), all on one core of a Sapphire Rapids.
template <class T>
inline constexpr Index kQueriesInPlaceKeys = 2 * kKeyTile<T>;
template <class T>
inline constexpr Index kFewKeys = 2 * kPanel<T>;

/// What both passes over the tiles share: the extent of the block, its workspace, and the tile under way.
template <class T>
struct Pass {
  const AttentionBlock<T>& block;
  const AttentionLayout<T> layout;
  T* const scores;
  MaskTile<T> mask;
  const bool plain;  // no step between a scaled dot product and a score
  bool queries_in_place;
  bool values_in_place;
  KeyValueTile<T> tile;
  bool loaded;  // tile is that of the current keys

  static AttentionExtent extent_of(const AttentionBlock<T>& block) {
    const bool gathered = block.query_rotation.table != nullptr || block.key_rotation.table != nullptr ||
                          !rows_lie_evenly(block);
    return {block.num_rows, block.kv_len, block.head_dim, block.value_dim, is_masked(block), gathered};
  }

  T* memory(Index at) const { return static_cast<T*>(block.workspace) + at; }

  explicit Pass(const AttentionBlock<T>& b)
      : block(b),
        layout(extent_of(b)),
        scores(memory(layout.scores)),
        mask{memory(layout.bias), reinterpret_cast<bool*>(memory(layout.visible)), is_masked(b), false},
        plain(!mask.masked && b.softcap == T(0) && b.slopes == nullptr && b.hook == nullptr),
        tile{},
        loaded(false) {
    // With one tile of queries each value is used once, and with few keys each query is used seldom: packing
    // them would only be a detour.
    const bool few = b.num_rows <= kTileRows || b.kv_len <= kFewKeys<T>;
    queries_in_place = (few || b.kv_len <= kQueriesInPlaceKeys<T>)&&b.query.col_stride == 1 &&
                       b.query_rotation.table == nullptr && rows_lie_evenly(b) &&
                       !(b.cached.keys != nullptr && b.num_rows <= kDecodeRows);
    values_in_place =
        few && b.cached.keys == nullptr && b.value.col_stride == 1 && b.value_dim % kLanes<T> == 0;
    if (!queries_in_place) pack_queries<T>(b, memory(layout.gathered), memory(layout.queries));
  }

  /// The keys of a tile that some row of [first_row, first_row + rows) may see; positions only move forward.
  KeyRange seen_by(Index first_row, Index rows, Index first_key, Index keys) const {
    return {range_of(block, first_row, first_key, keys).begin,
            range_of(block, first_row + rows - 1, first_key, keys).end};
  }

  /// Computes the scores of a register tile for the keys [range.begin, range.end), -inf for those that are
  /// hidden from a row. False, and nothing done, if no row sees any of them.
  bool compute_scores(Index first_row, Index rows, Index first_key, KeyRange seen, KeyRange range) {
    // 3. Who sees whom. Tiles that no row sees are not touched.
    if (mask.masked && !fill_mask(block, first_row, rows, first_key, range, mask)) return false;
    if (!loaded) {
      tile = load_tile<T>(block, layout, first_key, seen, values_in_place);
      loaded = true;
    }
    // 4. scores = query * key^T
    const PanelRange panels = {range.begin / kPanel<T> * kPanel<T>, range.end};
    if (tile.stored_keys != nullptr) {
      stored_scores(rows, panels);
    } else if (queries_in_place) {
      const Strided<const T> query = even_rows(block, block.query, first_row);
      panels_product<T, InPlaceSteps, Start::zero>(rows, block.head_dim, query.data, tile.keys, panels,
                                                   scores, kKeyTile<T>, {query.row_stride});
    } else {
      panels_product<T, QuerySteps<T>, Start::zero>(rows, block.head_dim,
                                                    memory(layout.queries) + first_row * block.head_dim,
                                                    tile.keys, panels, scores, kKeyTile<T>);
    }
    if (plain) return true;
    for (Index r = 0; r < rows; ++r) {
      const KeyRange own = range_of(block, first_row + r, first_key, range.end);
      if (own.empty()) continue;
      transform<T>(block, first_row + r, first_key, own, mask.biased ? mask.bias + r * kKeyTile<T> : nullptr,
                   scores + r * kKeyTile<T>);
    }
    if (block.hook != nullptr && block.hook->score != nullptr) {
      block.hook->score(block.hook->context, block,
                        {first_row, rows, first_key + range.begin, range.end - range.begin,
                         scores + range.begin, kKeyTile<T>, nullptr, 0});
      for (Index r = 0; r < rows; ++r) {
        const Index at = r * kKeyTile<T> + range.begin;
        hide_minus_inf<T>(scores + at, range.end - range.begin, mask.visible + at);
      }
    }
    return true;
  }

  void stored_scores(Index rows, const PanelRange& panels) const {
    with_stored_panels<T>(
        block.cached.storage, tile.stored_keys, block.head_dim, kKeyTile<T>, [&](const auto& keys) {
          panels_product<T, QuerySteps<T>, Start::zero, kDecodeRows, Source::memory>(
              rows, block.head_dim, memory(layout.queries), keys, panels, scores, kKeyTile<T>);
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

  /// The range of keys that a row sees something in, within what has been computed; empty if nothing.
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
    if (visible != nullptr && !visible[first]) {
      ++first;
      continue;
    }
    Index last = first + 1;
    while (last < range.end && (visible == nullptr || visible[last])) ++last;
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

/// Steps 5 and 6 for a register tile: row_max and row_sum take the tile's keys in, the scores become weights,
/// and acc is brought to the new maximum. In three loops over the rows: within a row each of them waits for
/// its sum over lanes, and other rows fill the wait.
template <class T>
inline void update_rows(const Pass<T>& pass, Index first_row, Index rows, const KeyRange* ranges, T* acc) {
  const AttentionBlock<T>& block = pass.block;
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  // 5. The largest score; hidden keys become -inf.
  T largest[kTileRows];
  for (Index r = 0; r < rows; ++r) {
    T* const scores = pass.scores + r * kKeyTile<T>;
    if (ranges[r].empty()) continue;
    largest[r] = pass.plain ? finish_plain<T>(scores, ranges[r], block.scale)
                            : hide<T>(scores, ranges[r], pass.visible_keys(r));
  }
  // 6. weights = exp(scores - row_max)
  T sum[kTileRows];
  for (Index r = 0; r < rows; ++r) {
    if (ranges[r].empty()) continue;
    const T old_max = block.row_max[first_row + r];
    if (!(largest[r] > old_max)) largest[r] = old_max;
    sum[r] = exponentiate<T>(pass.scores + r * kKeyTile<T>, ranges[r], shift_of(largest[r]));
  }
  for (Index r = 0; r < rows; ++r) {
    if (ranges[r].empty()) continue;
    const Index row = first_row + r;
    const T old_max = block.row_max[row];
    if (largest[r] == old_max || old_max == minus_inf) {  // exp(0) is 1; nothing was summed so far
      block.row_sum[row] += sum[r];
    } else {
      const T correction = exp_nonpositive_scalar<T>(old_max - shift_of(largest[r]));
      block.row_sum[row] = block.row_sum[row] * correction + sum[r];
      T* const row_acc = acc + r * pass.layout.value_cols;
      for (Index col = 0; col < pass.layout.value_cols; col += kLanes<T>)
        store(row_acc + col, packet::pmul(load(row_acc + col), broadcast<T>(correction)));
    }
    block.row_max[row] = largest[r];
    block.row_sees[row] = true;
  }
}

template <class T>
void attention(const AttentionBlock<T>& block) noexcept {
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  Pass<T> pass(block);
  const Index value_cols = pass.layout.value_cols;
  T* const block_acc = pass.memory(pass.layout.acc);

  // 1. Nothing seen yet, but perhaps a sink.
  for (Index row = 0; row < block.num_rows; ++row) {
    const T sink = block.sinks != nullptr ? block.sinks[head_of(block, row)] : minus_inf;
    block.row_max[row] = sink;
    block.row_sum[row] = sink == minus_inf ? T(0) : T(1);
    block.row_sees[row] = false;
  }
  for (Index i = 0; i < block.num_rows * value_cols; ++i) block_acc[i] = T(0);

  // 2. Tiles of keys, from the first to the last one that any row of the block may see.
  const Index begin = block.visible.begin(0);
  const Index end = block.visible.end(position_of(block, block.num_rows - 1));
  for (Index first_key = begin / kKeyTile<T> * kKeyTile<T>; first_key < end; first_key += kKeyTile<T>) {
    const Index keys = min_of(kKeyTile<T>, end - first_key);
    const KeyRange seen = {max_of(0, begin - first_key), keys};
    pass.loaded = false;
    for (Index first_row = 0; first_row < block.num_rows; first_row += kTileRows) {
      const Index rows = min_of(kTileRows, block.num_rows - first_row);
      const KeyRange range = pass.seen_by(first_row, rows, first_key, keys);
      if (range.empty() || !pass.compute_scores(first_row, rows, first_key, seen, range)) continue;
      const Panels<T>& values = pass.tile.values;
      T* acc = block_acc + first_row * value_cols;
      KeyRange ranges[kTileRows];
      for (Index r = 0; r < rows; ++r) ranges[r] = pass.visible_range(first_row + r, r, first_key, range);
      update_rows<T>(pass, first_row, rows, ranges, acc);
      // 7. out += weights * values
      for (Index r = 0; r < rows; ++r) {
        T* const scores = pass.scores + r * kKeyTile<T>;
        if (pass.tile.finite) {
          clear_outside<T>(scores, ranges[r], range.begin, range.end);
        } else {
          accumulate_visible<T>(values, scores, ranges[r], pass.visible_keys(r), acc + r * value_cols);
        }
      }
      if (pass.tile.finite) pass.accumulate(rows, range, acc);
    }
  }

  // 8. Divide by the sums.
  finish_rows<T>(block, block_acc, value_cols);
}

template <class T>
void weights(const AttentionBlock<T>& block, const WeightsHook<T>& hook) noexcept {
  Pass<T> pass(block);
  for (Index first_key = 0; first_key < block.kv_len; first_key += kKeyTile<T>) {
    const Index keys = min_of(kKeyTile<T>, block.kv_len - first_key);
    const KeyRange seen = pass.seen_by(0, block.num_rows, first_key, keys);
    pass.loaded = false;
    for (Index first_row = 0; first_row < block.num_rows; first_row += kTileRows) {
      const Index rows = min_of(kTileRows, block.num_rows - first_row);
      if (!hook.wanted(hook.context, first_row, rows)) continue;
      const KeyRange range = pass.seen_by(first_row, rows, first_key, keys);
      if (range.empty() || !pass.compute_scores(first_row, rows, first_key, seen, range)) {
        hook.take(hook.context, first_row, rows, first_key, keys, nullptr, 0);
        continue;
      }
      for (Index r = 0; r < rows; ++r) {
        const Index row = first_row + r;
        T* scores = pass.scores + r * kKeyTile<T>;
        const KeyRange own = pass.visible_range(row, r, first_key, range);
        if (!own.empty()) {
          if (pass.plain) (void)finish_plain<T>(scores, own, block.scale);
          normalize<T>(scores, own, pass.visible_keys(r), shift_of(block.row_max[row]), block.row_sum[row]);
        }
        clear_outside<T>(scores, own, 0, keys);
      }
      hook.take(hook.context, first_row, rows, first_key, keys, pass.scores, kKeyTile<T>);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
