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

#include "kernels/attention_pass.hpp"
#include "kernels/finish_rows.hpp"
#include "kernels/scores.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// Steps 5 and 6 for a register tile: row_max and row_sum take the tile's keys in, the scores become weights,
/// and acc is brought to the new maximum. In three loops over the rows: within a row each of them waits for
/// its sum over lanes, and other rows fill the wait.
///
/// A key of score -inf is one that the row does not see: so are those that the mask hides, and whatever else
/// made the score. seen: nullptr, or where who sees whom is noted, kKeyTile keys for each row.
template <class T>
inline void update_rows(const Pass<T>& pass, Index first_row, Index rows, const KeyRange* ranges, T* acc,
                        bool* seen) {
  const AttentionBlock<T>& block = pass.block;
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  // 5. The largest score; hidden keys become -inf.
  T largest[kTileRows];
  for (Index r = 0; r < rows; ++r) {
    T* const scores = pass.scores + r * kScoreStride<T>;
    if (ranges[r].empty()) continue;
    largest[r] = pass.plain ? finish_plain<T>(scores, ranges[r], block.scale)
                            : hide<T>(scores, ranges[r], pass.visible_keys(r));
    if (seen != nullptr) note_seen<T>(scores, ranges[r], seen + r * kKeyTile<T>);
  }
  // 6. weights = exp(scores - row_max)
  T sum[kTileRows];
  bool sees[kTileRows];
  for (Index r = 0; r < rows; ++r) {
    if (ranges[r].empty()) continue;
    const T old_max = block.row_max[first_row + r];
    sees[r] = largest[r] > minus_inf;
    if (!(largest[r] > old_max)) largest[r] = old_max;
    sum[r] = exponentiate<T>(pass.scores + r * kScoreStride<T>, ranges[r], shift_of(largest[r]));
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
    // NaN is no largest score, but it is one.
    block.row_sees[row] |= sees[r] || sum[r] != sum[r];
  }
}

template <class T>
void attention(const AttentionBlock<T>& block) noexcept {
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  Pass<T> pass(block, Pass<T>::extent_of(block));
  pass.pack_block();
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
      // 3. Who sees whom.
      if (!pass.find_visible(first_row, rows, first_key, range)) continue;
      pass.load(first_key, seen);
      // 4. scores = query * key^T
      pass.compute_scores(first_row, rows, first_key, range);
      const Panels<T>& values = pass.tile.values;
      T* acc = block_acc + first_row * value_cols;
      KeyRange ranges[kTileRows];
      for (Index r = 0; r < rows; ++r) ranges[r] = pass.visible_range(first_row + r, r, first_key, range);
      // Where a value is NaN or infinite, a weight of 0 does not tell who sees it.
      bool sees_key[kTileRows * kKeyTile<T>];
      update_rows<T>(pass, first_row, rows, ranges, acc, pass.tile.finite ? nullptr : sees_key);
      // 7. out += weights * values
      for (Index r = 0; r < rows; ++r) {
        T* const scores = pass.scores + r * kScoreStride<T>;
        if (pass.tile.finite) {
          clear_outside<T>(scores, ranges[r], range.begin, range.end);
        } else {
          accumulate_visible<T>(values, scores, ranges[r], sees_key + r * kKeyTile<T>, acc + r * value_cols);
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
  Pass<T> pass(block, Pass<T>::extent_of(block));
  pass.pack_block();
  for (Index first_key = 0; first_key < block.kv_len; first_key += kKeyTile<T>) {
    const Index keys = min_of(kKeyTile<T>, block.kv_len - first_key);
    const KeyRange seen = pass.seen_by(0, block.num_rows, first_key, keys);
    pass.loaded = false;
    for (Index first_row = 0; first_row < block.num_rows; first_row += kTileRows) {
      const Index rows = min_of(kTileRows, block.num_rows - first_row);
      if (!hook.wanted(hook.context, first_row, rows)) continue;
      const KeyRange range = pass.seen_by(first_row, rows, first_key, keys);
      if (!pass.find_visible(first_row, rows, first_key, range)) {
        hook.take(hook.context, first_row, rows, first_key, keys, nullptr, 0);
        continue;
      }
      pass.load(first_key, seen);
      pass.compute_scores(first_row, rows, first_key, range);
      for (Index r = 0; r < rows; ++r) {
        const Index row = first_row + r;
        T* scores = pass.scores + r * kScoreStride<T>;
        const KeyRange own = pass.visible_range(row, r, first_key, range);
        if (!own.empty()) {
          if (pass.plain) (void)finish_plain<T>(scores, own, block.scale);
          normalize<T>(scores, own, pass.visible_keys(r), shift_of(block.row_max[row]), block.row_sum[row]);
        }
        clear_outside<T>(scores, own, 0, keys);
      }
      hook.take(hook.context, first_row, rows, first_key, keys, pass.scores, kScoreStride<T>);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
