#pragma once

// The attention kernel: one block of query rows of one head against all its keys, tile by tile, with the
// softmax computed online (Milakov and Gimelshein 2018, Algorithm 3; Dao 2023, Algorithm 1), so that no
// query_len x kv_len matrix exists.
//
// Invariant after the keys [0, j): for each row, over its visible keys below j,
//   row_max = max of scores, row_sum = sum of exp(score - row_max), acc = sum of exp(score - row_max) *
//   value.
//
// A row's arithmetic depends on its own query, its visible keys and values, and where these stand after the
// first key: tile edges are multiples of the constant kKeyTile, a hidden key adds +0 or is skipped (the sign
// of a zero sum is settled at the end), and every sum over lanes, keys and depth has one order. That gives
// the same bits for full passes, chunks and single rows.

#include "kernels/exp.hpp"
#include "kernels/pack.hpp"
#include "kernels/packet.hpp"
#include "kernels/tile_product.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
using QuerySteps = Steps<1, kTileRows>;  // queries are packed by pack_rows
template <class T>
using ScoreSteps = Steps<kKeyTile<T>, 1>;  // scores are a row-major tile of kTileRows x kKeyTile

// Up to so many keys queries, and up to so many values, are read where they are. At head_dim 64, packing
// queries took 5 % of the time for 128 keys (AVX-512; AVX2: 1 %) and gained 3 % for 512 (AVX2); packing
// values too took 12 % for 16 (AVX2), all on one core of a Sapphire Rapids.
template <class T>
inline constexpr Index kQueriesInPlaceKeys = 2 * kKeyTile<T>;
template <class T>
inline constexpr Index kFewKeys = 2 * kPanel<T>;

/// Where the parts of one block's workspace lie, in elements from its start.
template <class T>
struct AttentionLayout {
  Index value_cols;  // value_dim, padded to whole packets
  Index queries;     // packed: query_rows, in whole register tiles, x head_dim
  Index keys;        // packed key^T: head_dim x the keys of a tile, in whole panels
  Index values;      // packed: the keys of a tile x value_cols
  Index scores;      // kTileRows x kKeyTile
  Index acc;         // query_rows x value_cols
  Index size;

  AttentionLayout(Index query_rows, Index kv_len, Index head_dim, Index value_dim) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    const Index tile_keys = round_up(min_of(kKeyTile<T>, kv_len), kPanel<T>);
    value_cols = round_up(value_dim, kLanes<T>);
    queries = 0;
    keys = queries + round_up(round_up(query_rows, kTileRows) * head_dim, line);
    values = keys + round_up(head_dim * tile_keys, line);
    scores = values + round_up(tile_keys * value_cols, line);
    acc = scores + kTileRows * kKeyTile<T>;
    size = acc + round_up(query_rows * value_cols, line);
  }
};

template <class T>
AttentionBytes attention_bytes(Index query_rows, Index kv_len, Index head_dim, Index value_dim) noexcept {
  const AttentionLayout<T> layout(query_rows, kv_len, head_dim, value_dim);
  const auto bytes = [](Index first, Index last) {
    return static_cast<std::size_t>(last - first) * sizeof(T);
  };
  return {bytes(layout.queries, layout.keys), bytes(layout.keys, layout.values),
          bytes(layout.values, layout.scores), bytes(layout.scores, layout.acc),
          bytes(layout.acc, layout.size)};
}

template <class T>
inline Index visible_end(const AttentionBlock<T>& block, Index row) {
  return max_of(0, min_of(block.kv_len, block.first_visible_end + row * block.visible_step));
}

/// scores[0, count) = scale * scores (+ bias), lanes from `visible` on and keys with bias -inf become -inf.
/// Returns the largest.
template <class T>
inline T finish_scores(T* scores, Index visible, T scale, const T* bias, Index bias_step) {
  constexpr int lanes = kLanes<T>;
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  const Packet<T> factor = broadcast<T>(scale);
  Packet<T> largest = broadcast<T>(minus_inf);
  for (Index j = 0; j < visible; j += lanes) {
    Packet<T> s = packet::pmul(load(scores + j), factor);
    if (bias != nullptr) {
      alignas(64) T row_bias[lanes];
      for (int i = 0; i < lanes; ++i) row_bias[i] = j + i < visible ? bias[(j + i) * bias_step] : minus_inf;
      const Packet<T> b = load(row_bias);
      // A select, not a sum: the score of a hidden key may be NaN.
      s = packet::pselect(packet::pcmp_eq(b, broadcast<T>(minus_inf)), b, packet::padd(s, b));
    }
    if (visible - j < lanes) s = keep_first<T>(s, visible - j, minus_inf);
    store(scores + j, s);
    largest = packet::pmax(largest, s);
  }
  return packet::predux_max(largest);
}

/// scores[0, count) = exp(scores - shift); returns the sum.
template <class T>
inline T exponentiate(T* scores, Index count, T shift) {
  const Packet<T> offset = broadcast<T>(shift);
  Packet<T> sum = broadcast<T>(T(0));
  for (Index j = 0; j < count; j += kLanes<T>) {
    const Packet<T> p = exp_nonpositive<T>(packet::psub(load(scores + j), offset));
    store(scores + j, p);
    sum = packet::padd(sum, p);
  }
  return packet::predux(sum);
}

/// acc += weights * values where some value of the tile is NaN or infinite: only what the row sees may be
/// touched, since 0 * NaN is NaN. Runs of visible keys go through the one-row tile, which does the same
/// operations as the full one.
template <class T>
inline void accumulate_visible(const Panels<T>& values, const T* weights, Index visible, const T* bias,
                               Index bias_step, T* acc) {
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  Index first = 0;
  while (first < visible) {
    if (bias != nullptr && bias[first * bias_step] == minus_inf) {
      ++first;
      continue;
    }
    Index last = first + 1;
    while (last < visible && (bias == nullptr || bias[last * bias_step] != minus_inf)) ++last;
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

/// Writes one finished row, which may be acc itself: acc / row_sum. Every zero becomes +0 and every NaN the
/// same NaN, so that neither the sign of an empty sum nor the operand order of an instruction shows in the
/// bits.
template <class T, class Divide>
inline void write_divided(const T* acc, Index value_dim, T* out, Divide divide) {
  constexpr int lanes = kLanes<T>;
  for (Index col = 0; col < value_dim; col += lanes) {
    Packet<T> x = packet::padd(divide(load(acc + col)), broadcast<T>(T(0)));
    x = packet::pselect(packet::pcmp_eq(x, x), x, broadcast<T>(FloatTraits<T>::quiet_nan));
    const Index count = min_of(lanes, value_dim - col);
    if (count == lanes) {
      store(out + col, x);
    } else {
      alignas(64) T lane[lanes];
      store(lane, x);
      for (Index i = 0; i < count; ++i) out[col + i] = lane[i];
    }
  }
}

template <class T>
inline void write_row(const T* acc, T row_sum, Index value_dim, T* out) {
  const Packet<T> divisor = broadcast<T>(row_sum);
#if defined(__FMA__) || defined(__aarch64__)
  // A division takes the time of eight multiply-adds and more. One of them and the exact remainder give the
  // same quotient (Markstein 1990), as long as nothing is infinite or NaN or about to underflow.
  if (all_finite(acc, 1, 0, round_up(value_dim, kLanes<T>))) {
    const Packet<T> reciprocal = packet::pdiv(broadcast<T>(T(1)), divisor);
    const Packet<T> minus_divisor = packet::pnegate(divisor);
    write_divided<T>(acc, value_dim, out, [&](const Packet<T>& x) {
      const Packet<T> quotient = packet::pmul(x, reciprocal);
      const Packet<T> remainder = packet::pmadd(minus_divisor, quotient, x);
      return packet::pmadd(remainder, reciprocal, quotient);
    });
    return;
  }
#endif
  write_divided<T>(acc, value_dim, out, [&](const Packet<T>& x) { return packet::pdiv(x, divisor); });
}

/// Turns the scores kept in a row of `weights` into weights: exp(score - row_max) / row_sum, 0 for hidden
/// keys, also where the row itself is NaN.
template <class T>
inline void write_weights(T* weights, Index step, Index visible, Index kv_len, T row_max, T row_sum,
                          const T* bias, Index bias_step) {
  constexpr int lanes = kLanes<T>;
  const T shift = row_max == -FloatTraits<T>::infinity ? T(0) : row_max;
  for (Index j = 0; j < visible; j += lanes) {
    const Index count = min_of(lanes, visible - j);
    alignas(64) T lane[lanes] = {};
    for (Index i = 0; i < count; ++i) lane[i] = weights[(j + i) * step];
    const Packet<T> p = exp_nonpositive<T>(packet::psub(load(lane), broadcast<T>(shift)));
    store(lane, packet::pdiv(p, broadcast<T>(row_sum)));
    for (Index i = 0; i < count; ++i) {
      const bool hidden = bias != nullptr && bias[(j + i) * bias_step] == -FloatTraits<T>::infinity;
      weights[(j + i) * step] = hidden ? T(0) : lane[i];
    }
  }
  for (Index j = visible; j < kv_len; ++j) weights[j * step] = T(0);
}

/// True if the row sees a key at all.
template <class T>
inline bool sees_any(const T* bias, Index bias_step, Index visible) {
  if (bias == nullptr) return visible > 0;
  for (Index j = 0; j < visible; ++j) {
    if (bias[j * bias_step] != -FloatTraits<T>::infinity) return true;
  }
  return false;
}

template <class T>
void attention(const AttentionBlock<T>& block) noexcept {
  constexpr Index key_tile = kKeyTile<T>;
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  const AttentionLayout<T> layout(block.query_rows, block.kv_len, block.head_dim, block.value_dim);
  T* const workspace = static_cast<T*>(block.workspace);
  T* const packed_queries = workspace + layout.queries;
  T* const packed_keys = workspace + layout.keys;
  T* const packed_values = workspace + layout.values;
  T* const score_tile = workspace + layout.scores;
  T* const block_acc = workspace + layout.acc;
  const auto bias_row = [&](Index row, Index key) -> const T* {
    return block.bias.data == nullptr
               ? nullptr
               : block.bias.data + row * block.bias.row_stride + key * block.bias.col_stride;
  };

  // 1. Nothing seen yet.
  // With one tile of queries each value is used once, and with few keys each query is used seldom: packing
  // them would only be a detour.
  const bool few = block.query_rows <= kTileRows || block.kv_len <= kFewKeys<T>;
  const bool queries_in_place = (few || block.kv_len <= kQueriesInPlaceKeys<T>)&&block.query.col_stride == 1;
  const bool values_in_place = few && block.value.col_stride == 1 && block.value_dim % kLanes<T> == 0;
  if (!queries_in_place) pack_rows(block.query, block.query_rows, block.head_dim, packed_queries);
  for (Index row = 0; row < block.query_rows; ++row) {
    block.row_max[row] = minus_inf;
    block.row_sum[row] = T(0);
  }
  for (Index i = 0; i < block.query_rows * layout.value_cols; ++i) block_acc[i] = T(0);

  // 2. Tiles of keys, up to the last one that any row of the block sees.
  const Index block_end = visible_end(block, block.query_rows - 1);
  for (Index first_key = 0; first_key < block_end; first_key += key_tile) {
    const Index keys = min_of(key_tile, block_end - first_key);
    // 3. key^T and values in the register tile's order.
    pack_panels<T>(
        {block.key.data + first_key * block.key.row_stride, block.key.col_stride, block.key.row_stride},
        block.head_dim, keys, packed_keys);
    const T* first_value = block.value.data + first_key * block.value.row_stride;
    if (!values_in_place) {
      pack_panels<T>({first_value, block.value.row_stride, block.value.col_stride}, keys, block.value_dim,
                     packed_values);
    }
    const Panels<T> values = values_in_place
                                 ? Panels<T>{first_value, 0, block.value.row_stride, block.value_dim}
                                 : Panels<T>{packed_values, keys, 0, block.value_dim};
    const bool finite = values_in_place
                            ? all_finite(first_value, keys, block.value.row_stride, block.value_dim)
                            : all_finite(packed_values, 1, 0, packed_size<T>(keys, block.value_dim));

    for (Index first_row = 0; first_row < block.query_rows; first_row += kTileRows) {
      const Index rows = min_of(kTileRows, block.query_rows - first_row);
      const Index seen = min_of(keys, visible_end(block, first_row + rows - 1) - first_key);
      if (seen <= 0) continue;  // a tile beyond the diagonal
      // 4. scores = query * key^T
      const Panels<T> key_panels = {packed_keys, block.head_dim, 0, keys};
      if (queries_in_place) {
        panels_product<T, InPlaceSteps, Start::zero>(
            rows, block.head_dim, block.query.data + first_row * block.query.row_stride, key_panels, seen,
            score_tile, key_tile, {block.query.row_stride});
      } else {
        panels_product<T, QuerySteps<T>, Start::zero>(rows, block.head_dim,
                                                      packed_queries + first_row * block.head_dim, key_panels,
                                                      seen, score_tile, key_tile);
      }
      T* acc = block_acc + first_row * layout.value_cols;
      for (Index r = 0; r < rows; ++r) {
        const Index row = first_row + r;
        T* scores = score_tile + r * key_tile;
        const Index visible = min_of(keys, visible_end(block, row) - first_key);
        Index computed = 0;
        if (visible > 0) {
          // 5. scale, bias and mask; the new maximum
          const T largest =
              finish_scores<T>(scores, visible, block.scale, bias_row(row, first_key), block.bias.col_stride);
          if (block.weights.data != nullptr) {
            T* kept =
                block.weights.data + row * block.weights.row_stride + first_key * block.weights.col_stride;
            for (Index j = 0; j < visible; ++j) kept[j * block.weights.col_stride] = scores[j];
          }
          const T row_max = block.row_max[row] > largest ? block.row_max[row] : largest;
          const T shift =
              row_max == minus_inf ? T(0) : row_max;  // all visible scores -inf: exp must not see NaN
          // 6. weights = exp(scores - row_max), and what was summed so far is brought to the new maximum
          const T sum = exponentiate<T>(scores, visible, shift);
          if (row_max == block.row_max[row] || first_key == 0) {  // exp(0) is 1; nothing was summed so far
            block.row_sum[row] += sum;
          } else {
            const T correction = exp_nonpositive_scalar<T>(block.row_max[row] - shift);
            block.row_sum[row] = block.row_sum[row] * correction + sum;
            T* row_acc = acc + r * layout.value_cols;
            for (Index col = 0; col < layout.value_cols; col += kLanes<T>) {
              store(row_acc + col, packet::pmul(load(row_acc + col), broadcast<T>(correction)));
            }
          }
          block.row_max[row] = row_max;
          computed = round_up(visible, kLanes<T>);
        }
        // 7. out += weights * values
        if (finite) {
          for (Index j = computed; j < seen; ++j) scores[j] = T(0);
        } else if (visible > 0) {
          accumulate_visible<T>(values, scores, visible, bias_row(row, first_key), block.bias.col_stride,
                                acc + r * layout.value_cols);
        }
      }
      if (finite) {
        panels_product<T, ScoreSteps<T>, Start::accumulate>(rows, seen, score_tile, values, block.value_dim,
                                                            acc, layout.value_cols);
      }
    }
  }

  // 8. Divide by the sums. Where the elements of a row of out lie apart, each in a cache line of its own,
  // rows are finished in the workspace and then copied together.
  const bool apart = block.out.col_stride != 1;
  for (Index row = 0; row < block.query_rows; ++row) {
    const Index visible = visible_end(block, row);
    T* const acc = block_acc + row * layout.value_cols;
    T* const out = apart ? acc : block.out.data + row * block.out.row_stride;
    T* weights =
        block.weights.data == nullptr ? nullptr : block.weights.data + row * block.weights.row_stride;
    if (sees_any<T>(bias_row(row, 0), block.bias.col_stride, visible)) {
      write_row<T>(acc, block.row_sum[row], block.value_dim, out);
      if (weights != nullptr) {
        write_weights<T>(weights, block.weights.col_stride, visible, block.kv_len, block.row_max[row],
                         block.row_sum[row], bias_row(row, 0), block.bias.col_stride);
      }
    } else {
      for (Index col = 0; col < block.value_dim; ++col) out[col] = T(0);
      if (weights != nullptr) {
        for (Index j = 0; j < block.kv_len; ++j) weights[j * block.weights.col_stride] = T(0);
      }
    }
  }
  if (apart) unpack_rows<T>(block_acc, layout.value_cols, block.query_rows, block.value_dim, block.out);
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
