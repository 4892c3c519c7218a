#pragma once

// The backward kernel: the gradients of one head of queries, tile of keys by tile of keys, with the weights
// computed anew from the logsumexp of each row (Dao et al. 2022, Algorithm 4; Dao 2023, Algorithm 2), so that
// no query_len x kv_len matrix exists. With P the weights and S the scores before the softmax:
//
//   grad_value = P^T grad_out
//   delta_i    = sum over columns of out_i grad_out_i          (= sum over keys of P_ij grad_P_ij)
//   grad_S_ij  = P_ij ((grad_out value^T)_ij - delta_i)
//   grad_query = scale grad_S key,   grad_key = scale grad_S^T query
//
// through a softcap with grad_S_ij (1 - tanh^2). The sums are left without the scale, in the workspace;
// another function scales them, turns them back and writes them.
//
// Each element of a sum is one chain of fused multiply-adds, over ascending keys for queries, over ascending
// rows for keys and values: what part of the rows or of the keys a call is for does not show in the bits.

#include "kernels/attention_pass.hpp"
#include "kernels/backward_layout.hpp"
#include "kernels/finish_rows.hpp"
#include "kernels/row_packets.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// The weights of a row from its scores, and the gradients of those from the gradients of the weights (in
/// grads, which becomes them); exactly 0 for keys that the row does not see, a score of -inf included,
/// whatever theirs hold.
template <class T>
inline void differentiate(const AttentionBlock<T>& block, KeyRange range, const bool* visible, T score_factor,
                          T shift, T delta, const T* capped, T* scores, T* grads) {
  const Packet<T> factor = broadcast<T>(score_factor);
  const Packet<T> offset = broadcast<T>(shift);
  const Packet<T> mean = broadcast<T>(delta);
  const Packet<T> zero = broadcast<T>(T(0));
  const Packet<T> one = broadcast<T>(T(1));
  const Packet<T> minus_inf = broadcast<T>(-FloatTraits<T>::infinity);
  const Packet<T> per_cap = broadcast<T>(block.softcap > 0 ? T(1) / block.softcap : T(0));
  for (Index j = packet_floor<T>(range.begin); j < range.end; j += kLanes<T>) {
    const Packet<T> score = packet::pmul(load(scores + j), factor);
    Packet<T> weight = exp_nonpositive<T>(packet::psub(score, offset));
    Packet<T> grad = packet::pmul(weight, packet::psub(load(grads + j), mean));
    if (capped != nullptr) {
      const Packet<T> tangent = packet::pmul(load(capped + j), per_cap);
      grad = packet::pmul(grad, packet::pmadd(packet::pnegate(tangent), tangent, one));
    }
    const Packet<T> unseen = packet::pcmp_eq(score, minus_inf);
    weight = keep_range<T>(packet::pselect(unseen, zero, weight), j, range, T(0));
    grad = keep_range<T>(packet::pselect(unseen, zero, grad), j, range, T(0));
    if (visible != nullptr) {
      const Packet<T> seen = lanes_where<T>(visible + j);
      weight = packet::pselect(seen, weight, zero);
      grad = packet::pselect(seen, grad, zero);
    }
    store(scores + j, weight);
    store(grads + j, grad);
  }
}

/// One run of the kernel.
template <class T>
struct BackwardPass {
  using KeySteps = Steps<1, kScoreStride<T>>;  ///< The rows of a tile of scores, read as columns.

  const BackwardBlock<T>& grads;
  const AttentionBlock<T>& block;
  const BackwardLayout<T> layout;
  Pass<T> pass;
  T* const delta;
  bool* const sees;
  Panels<T> query_panels{};
  Panels<T> grad_out_panels{};
  Panels<T> key_panels{};
  Panels<T> value_rows{};
  bool rows_finite = true;
  bool keys_finite = true;

  static BackwardExtent extent_of(const AttentionBlock<T>& block) {
    return {block.num_rows,      block.kv_len,
            block.head_dim,      block.value_dim,
            is_masked(block),    block.query_rotation.table != nullptr || block.key_rotation.table != nullptr,
            block.softcap > T(0)};
  }

  T* memory(Index at) const { return static_cast<T*>(block.workspace) + at; }

  explicit BackwardPass(const BackwardBlock<T>& given)
      : grads(given),
        block(given.forward),
        layout(extent_of(block)),
        pass(block, BackwardLayout<T>::rows_extent(extent_of(block))),
        delta(memory(layout.delta)),
        sees(reinterpret_cast<bool*>(memory(layout.sees))) {}

  const T* grad_out_row(Index row) const { return grads.grad_out.data + row * grads.grad_out.row_stride; }

  /// Whether nothing depends on a row, as a grad_out of 0 says: it adds nothing then, whatever its query and
  /// its out hold.
  bool is_padding(Index row) const {
    return is_zero_row(grad_out_row(row), grads.grad_out.col_stride, block.value_dim);
  }

  /// The keys of a tile that a row sees; none if the row is padding.
  KeyRange seen_keys(Index row, Index i, Index first_key, KeyRange range) const {
    if (is_padding(row)) return {0, 0};
    return pass.visible_range(row, i, first_key, range);
  }

  /// delta_i = out_i . grad_out_i, lane by lane and the lanes last.
  void find_deltas() {
    T* const out = memory(layout.row);
    T* const grad = out + layout.value_cols;
    for (Index col = block.value_dim; col < layout.value_cols; ++col) out[col] = grad[col] = T(0);
    for (Index row = grads.first_row; row < grads.last_row; ++row) {
      const T* const out_row = grads.out.data + row * grads.out.row_stride;
      for (Index col = 0; col < block.value_dim; ++col) {
        out[col] = out_row[col * grads.out.col_stride];
        grad[col] = grad_out_row(row)[col * grads.grad_out.col_stride];
      }
      Packet<T> sum = broadcast<T>(T(0));
      for (Index col = 0; col < layout.value_cols; col += kLanes<T>)
        sum = packet::pmadd(load(out + col), load(grad + col), sum);
      delta[row] = packet::predux(sum);
      sees[row] = false;
    }
  }

  /// Rows of queries or keys as they enter the products: where they are, or turned.
  Strided<const T> turned(Strided<const T> rows, const Rotation<T>& rotation, Index first,
                          Index count) const {
    const T* const data = rows.data + first * rows.row_stride;
    if (rotation.table == nullptr) return {data, rows.row_stride, rows.col_stride};
    T* const out = memory(layout.turned);
    for (Index i = 0; i < count; ++i) {
      rotate_row<T>(rotation, first + i, data + i * rows.row_stride, rows.col_stride, block.head_dim,
                    out + i * block.head_dim);
    }
    return {out, block.head_dim, 1};
  }

  /// Packs rows x cols in panels; true if all of it is finite.
  static bool pack_finite(Strided<const T> rows, Index count, Index cols, T* out, Panels<T>& panels,
                          Index first_row = 0) {
    pack_panels<T>(rows, count, cols, out);
    panels = {out, count, 0, cols, first_row};
    return all_finite(out, 1, 0, packed_size<T>(count, cols));
  }

  void load_keys(Index first_key, KeyRange seen) {
    if (pass.loaded) return;
    pass.loaded = true;
    const Index begin = seen.begin / kPanel<T> * kPanel<T>;
    const Index first = first_key + begin;
    const Index count = seen.end - begin;
    const Strided<const T> key = turned(block.key, block.key_rotation, first, count);
    T* const keys = memory(pass.layout.keys);
    pack_panels<T>({key.data, key.col_stride, key.row_stride}, block.head_dim, count,
                   keys + begin * block.head_dim);
    pass.tile.keys = {keys, block.head_dim, 0, seen.end};
    keys_finite = pack_finite(key, count, block.head_dim, memory(layout.key_panels), key_panels, begin);
    const T* value = block.value.data + first * block.value.row_stride;
    T* const values = memory(layout.value_rows);
    pack_panels<T>({value, block.value.col_stride, block.value.row_stride}, block.value_dim, count,
                   values + begin * block.value_dim);
    value_rows = {values, block.value_dim, 0, seen.end};
  }

  void load_rows(Index first_row, Index rows) {
    if (pass.first_packed_row == first_row) return;
    pass.first_packed_row = first_row;
    const Strided<const T> all = {block.query.data, block.query.position_stride, block.query.col_stride};
    const Strided<const T> query = turned(all, block.query_rotation, first_row, rows);
    pack_rows<T>(query, rows, block.head_dim, memory(pass.layout.queries));
    const Strided<const T> grad_out = {grad_out_row(first_row), grads.grad_out.row_stride,
                                       grads.grad_out.col_stride};
    pack_rows<T>(grad_out, rows, block.value_dim, memory(layout.grad_out_rows));
    if (grads.grad_key == nullptr) return;
    rows_finite = pack_finite(query, rows, block.head_dim, memory(layout.query_panels), query_panels);
    rows_finite &=
        pack_finite(grad_out, rows, block.value_dim, memory(layout.grad_out_panels), grad_out_panels);
  }

  void run() {
    find_deltas();
    const Index begin = max_of(grads.first_key, block.visible.begin(grads.first_row));
    const Index end = min_of(grads.last_key, block.visible.end(grads.last_row - 1));
    for (Index first_key = begin / kKeyTile<T> * kKeyTile<T>; first_key < end; first_key += kKeyTile<T>) {
      const Index keys = min_of(kKeyTile<T>, end - first_key);
      const KeyRange seen = {max_of(0, begin - first_key), keys};
      pass.loaded = false;
      pass.first_packed_row = -1;
      for (Index row = grads.first_row; row < grads.last_row; row += kBackwardRows)
        run_rows(row, min_of(kBackwardRows, grads.last_row - row), first_key, seen);
    }
    if (grads.sink_terms != nullptr) write_sink_terms();
  }

  /// The rows [first_row, first_row + rows) against one tile of keys.
  void run_rows(Index first_row, Index rows, Index first_key, KeyRange seen) {
    const KeyRange all = pass.seen_by(first_row, rows, first_key, seen.end);
    if (all.empty()) return;
    bool any = false;
    for (Index r = 0; r < rows; r += kTileRows) {
      const Index tile_rows = min_of(kTileRows, rows - r);
      const KeyRange range = pass.seen_by(first_row + r, tile_rows, first_key, seen.end);
      T* const weights = memory(layout.weights) + r * kScoreStride<T>;
      T* const score_grads = memory(layout.score_grads) + r * kScoreStride<T>;
      if (!pass.find_visible(first_row + r, tile_rows, first_key, range)) {
        for (Index i = 0; i < tile_rows; ++i) {
          clear_outside<T>(weights + i * kScoreStride<T>, {0, 0}, all.begin, all.end);
          clear_outside<T>(score_grads + i * kScoreStride<T>, {0, 0}, all.begin, all.end);
        }
        continue;
      }
      any = true;
      load_keys(first_key, seen);
      load_rows(first_row, rows);
      run_tile(first_row, r, tile_rows, first_key, range, all);
    }
    if (any && rows_finite && grads.grad_key != nullptr) add_to_keys(first_row, rows, first_key, all);
  }

  /// A register tile of rows: its weights, the gradients of its scores, and what they add to grad_query.
  void run_tile(Index first_row, Index r, Index rows, Index first_key, KeyRange range, KeyRange all) {
    T* const weights = memory(layout.weights) + r * kScoreStride<T>;
    T* const score_grads = memory(layout.score_grads) + r * kScoreStride<T>;
    // A bias was added behind the softcap.
    T* const capped = block.softcap > T(0) && grads.hook == nullptr ? memory(layout.capped) : nullptr;
    pass.scores = weights;
    pass.compute_scores(first_row + r, rows, first_key, range, capped);
    // grad_P = grad_out * value^T
    panels_product<T, QuerySteps<T>, Start::zero>(
        rows, block.value_dim, memory(layout.grad_out_rows) + r * block.value_dim, value_rows,
        {range.begin / kPanel<T> * kPanel<T>, range.end}, score_grads, kScoreStride<T>);
    bool seen[kTileRows * kKeyTile<T>];
    for (Index i = 0; i < rows; ++i) {
      const Index row = first_row + r + i;
      const Index at = i * kScoreStride<T>;
      const KeyRange own = seen_keys(row, i, first_key, range);
      if (!own.empty()) {
        T factor = pass.plain ? block.scale : T(1);
        if (!keys_finite || !rows_finite || grads.sink_terms != nullptr) {
          note_row(row, i, own, weights + at, seen + i * kKeyTile<T>);
          factor = T(1);
        }
        const T shift = shift_of(grads.logsumexp.data[row * grads.logsumexp.row_stride]);
        differentiate<T>(block, own, pass.visible_keys(i), factor, shift, delta[row],
                         capped != nullptr ? capped + at : nullptr, weights + at, score_grads + at);
      }
      clear_outside<T>(weights + at, own, all.begin, all.end);
      clear_outside<T>(score_grads + at, own, all.begin, all.end);
    }
    if (grads.hook != nullptr) {
      grads.hook->take(grads.hook->context, first_row + r, rows, first_key + range.begin,
                       range.end - range.begin, score_grads + range.begin, kScoreStride<T>);
    }
    if (grads.grad_query != nullptr) add_to_queries(first_row + r, rows, first_key, range, score_grads, seen);
    if (grads.grad_key != nullptr && !rows_finite)
      add_visible_to_keys(first_row, r, rows, first_key, range, seen);
  }

  /// Notes which keys a row sees, before its scores become weights, if that will be asked for, and whether
  /// there are any. NaN is no largest score; a row that has one is told by its logsumexp.
  void note_row(Index row, Index i, KeyRange own, T* scores, bool* seen) {
    const T largest =
        pass.plain ? finish_plain<T>(scores, own, block.scale) : hide<T>(scores, own, pass.visible_keys(i));
    sees[row] |= largest > -FloatTraits<T>::infinity;
    if (!keys_finite || !rows_finite) note_seen<T>(scores, own, seen);
  }

  /// grad_query += grad_S * key
  void add_to_queries(Index first_row, Index rows, Index first_key, KeyRange range, const T* score_grads,
                      const bool* seen) {
    T* const sums = grads.grad_query + (first_row - grads.first_row) * layout.head_cols;
    if (keys_finite) {
      panels_product<T, ScoreSteps<T>, Start::accumulate>(
          rows, range.end - range.begin, score_grads + range.begin, key_panels,
          {0, block.head_dim, range.begin}, sums, layout.head_cols);
      return;
    }
    for (Index i = 0; i < rows; ++i) {
      accumulate_visible<T>(key_panels, score_grads + i * kScoreStride<T>,
                            seen_keys(first_row + i, i, first_key, range), seen + i * kKeyTile<T>,
                            sums + i * layout.head_cols);
    }
  }

  /// grad_value += P^T * grad_out and grad_key += grad_S^T * query, for some keys of the tile and some of the
  /// rows.
  void add_products(Index first_key, Index keys, Index first, Index rows, Index key) {
    const Index at = first * kScoreStride<T> + key;
    const Index to = first_key - grads.first_key + key;
    panels_product<T, KeySteps, Start::accumulate>(
        keys, rows, memory(layout.weights) + at, grad_out_panels, {0, block.value_dim, first},
        grads.grad_value + to * layout.value_cols, layout.value_cols);
    panels_product<T, KeySteps, Start::accumulate>(keys, rows, memory(layout.score_grads) + at, query_panels,
                                                   {0, block.head_dim, first},
                                                   grads.grad_key + to * layout.head_cols, layout.head_cols);
  }

  /// All rows, which are finite: for each register tile of keys those that may see one of them.
  void add_to_keys(Index first_row, Index rows, Index first_key, KeyRange all) {
    Index first = 0;
    Index last = 0;
    for (Index key = all.begin; key < all.end; key += kTileRows) {
      const Index keys = min_of(kTileRows, all.end - key);
      while (first < rows && block.visible.end(first_row + first) <= first_key + key) ++first;
      while (last < rows && block.visible.begin(first_row + last) < first_key + key + keys) ++last;
      if (first < last) add_products(first_key, keys, first, last - first, key);
    }
  }

  /// A register tile where some row holds NaN or infinity: row by row, only the keys that it sees.
  void add_visible_to_keys(Index first_row, Index r, Index rows, Index first_key, KeyRange range,
                           const bool* seen) {
    for (Index i = 0; i < rows; ++i) {
      const KeyRange own = seen_keys(first_row + r + i, i, first_key, range);
      const bool* const visible = seen + i * kKeyTile<T>;
      Index key = own.begin;
      while (key < own.end) {
        if (!visible[key]) {
          ++key;
          continue;
        }
        Index count = 1;
        while (count < kTileRows && key + count < own.end && visible[key + count]) ++count;
        add_products(first_key, count, r + i, 1, key);
        key += count;
      }
    }
  }

  /// A sink is a score that no query and no key made: its gradient is the sum of these terms over the rows.
  void write_sink_terms() const {
    for (Index row = grads.first_row; row < grads.last_row; ++row) {
      const T logsumexp = grads.logsumexp.data[row * grads.logsumexp.row_stride];
      const T weight = exp_nonpositive_scalar<T>(block.sinks[0] - shift_of(logsumexp));
      const bool sees_any = sees[row] || (logsumexp != logsumexp && !is_padding(row));
      grads.sink_terms[row] = sees_any ? -weight * delta[row] : T(0);
    }
  }
};

template <class T>
void backward(const BackwardBlock<T>& block) noexcept {
  BackwardPass<T>(block).run();
}

/// Writes finished sums: scaled, turned back by the rotary, every zero +0 and every NaN the same.
template <class T>
void finish_gradient(const GradientRows<T>& rows) noexcept {
  const Packet<T> factor = broadcast<T>(rows.factor);
  for (Index row = 0; row < rows.num_rows; ++row) {
    T* const sums = rows.sums + row * round_up(rows.cols, kLanes<T>);
    for (Index col = 0; col < rows.cols; col += kLanes<T>)
      store(sums + col, packet::pmul(load(sums + col), factor));
    if (rows.rotation.table != nullptr) turn_back<T>(rows.rotation, rows.first + row, sums);
    write_divided<T>(sums, rows.cols, sums, [](const Packet<T>& x) { return x; });
  }
  unpack_rows<T>(rows.sums, round_up(rows.cols, kLanes<T>), rows.num_rows, rows.cols, rows.out);
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
