#pragma once

// Where the parts of an attention block's workspace lie.

#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// In elements from the start of the workspace.
template <class T>
struct AttentionLayout {
  Index value_cols;  ///< value_dim, padded to whole packets.
  Index queries;     ///< Packed: num_rows, in whole register tiles, x head_dim.
  Index keys;        ///< Packed key^T: head_dim x the keys of a tile, in whole panels.
  Index values;      ///< Packed: the keys of a tile x value_cols.
  Index scores;      ///< kTileRows x kKeyTile, kScoreStride apart.
  Index gathered;    ///< Rows on their way into a packed tile: kRowsUnderWay x head_dim.
  Index bias;        ///< kTileRows x kKeyTile.
  Index visible;     ///< kTileRows x kKeyTile, of bool.
  Index acc;         ///< num_rows x value_cols.
  Index size;

  static constexpr Index kRowsUnderWay = kPanel<T> > kTileRows ? kPanel<T> : kTileRows;

  explicit AttentionLayout(const AttentionExtent& extent) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    constexpr Index mask_tile = kTileRows * kKeyTile<T>;
    const Index tile_keys = round_up(min_of(kKeyTile<T>, extent.kv_len), kPanel<T>);
    value_cols = round_up(extent.value_dim, kLanes<T>);
    queries = 0;
    keys = queries + round_up(round_up(extent.num_rows, kTileRows) * extent.head_dim, line);
    values = keys + round_up(extent.head_dim * tile_keys, line);
    scores = values + round_up(tile_keys * value_cols, line);
    gathered = scores + kTileRows * kScoreStride<T>;
    bias = gathered + (extent.gathered ? round_up(kRowsUnderWay * extent.head_dim, line) : 0);
    visible = bias + (extent.masked ? mask_tile : 0);
    acc = visible + (extent.masked ? mask_tile / static_cast<Index>(sizeof(T)) : 0);
    size = acc + round_up(extent.num_rows * value_cols, line);
  }
};

template <class T>
AttentionBytes attention_bytes(const AttentionExtent& extent) noexcept {
  const AttentionLayout<T> layout(extent);
  const auto bytes = [](Index first, Index last) {
    return static_cast<std::size_t>(last - first) * sizeof(T);
  };
  return {bytes(layout.queries, layout.keys),  bytes(layout.keys, layout.values),
          bytes(layout.values, layout.scores), bytes(layout.scores, layout.gathered),
          bytes(layout.gathered, layout.bias), bytes(layout.bias, layout.acc),
          bytes(layout.acc, layout.size)};
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
