#pragma once

// Where the parts of a backward pass's workspace lie.

#include "kernels/attention_layout.hpp"
#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

// Rows of queries that are taken against a tile of keys at once: their weights and the gradients of their
// scores stay in the second-level cache, and the sums over rows run over as many.
inline constexpr Index kBackwardRows = 96;

/// In elements from the start of the workspace, behind the parts of an attention block of kBackwardRows rows.
template <class T>
struct BackwardLayout {
  Index head_cols;        ///< head_dim, padded to whole packets.
  Index value_cols;       ///< value_dim, padded to whole packets.
  Index weights;          ///< kBackwardRows x kKeyTile, kScoreStride apart.
  Index score_grads;      ///< kBackwardRows x kKeyTile, kScoreStride apart.
  Index capped;           ///< kTileRows x kKeyTile, kScoreStride apart.
  Index query_panels;     ///< kBackwardRows x head_cols, packed.
  Index grad_out_rows;    ///< kBackwardRows x value_dim, packed in register tiles.
  Index grad_out_panels;  ///< kBackwardRows x value_cols, packed.
  Index key_panels;       ///< The keys of a tile x head_cols, packed.
  Index value_rows;       ///< Packed value^T: value_dim x the keys of a tile.
  Index turned;           ///< Queries or keys as the rotary turns them, contiguous.
  Index row;              ///< One row of out and one of grad_out, padded with zeros.
  Index delta;            ///< A number for each row.
  Index sees;             ///< Bool for each row.
  Index size;

  static AttentionExtent rows_extent(const BackwardExtent& extent) {
    return {min_of(kBackwardRows, extent.num_rows), extent.kv_len, extent.head_dim, 0, extent.masked, false};
  }

  explicit BackwardLayout(const BackwardExtent& extent) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    const Index rows = min_of(kBackwardRows, extent.num_rows);
    const Index tiled_rows = round_up(rows, kTileRows);
    const Index keys = min_of(kKeyTile<T>, extent.kv_len);
    const Index tile_keys = round_up(keys, kPanel<T>);
    head_cols = round_up(extent.head_dim, kLanes<T>);
    value_cols = round_up(extent.value_dim, kLanes<T>);
    weights = AttentionLayout<T>(rows_extent(extent)).size;
    score_grads = weights + tiled_rows * kScoreStride<T>;
    capped = score_grads + tiled_rows * kScoreStride<T>;
    query_panels = capped + (extent.softcap ? kTileRows * kScoreStride<T> : 0);
    grad_out_rows = query_panels + round_up(rows * head_cols, line);
    grad_out_panels = grad_out_rows + round_up(tiled_rows * extent.value_dim, line);
    key_panels = grad_out_panels + round_up(rows * value_cols, line);
    value_rows = key_panels + round_up(tile_keys * head_cols, line);
    turned = value_rows + round_up(extent.value_dim * tile_keys, line);
    row = turned + (extent.rotated ? round_up(max_of(rows, keys) * extent.head_dim, line) : 0);
    delta = row + round_up(2 * value_cols, line);
    sees = delta + round_up(extent.num_rows, line);
    size = sees +
           round_up(round_up(extent.num_rows, static_cast<Index>(sizeof(T))) / static_cast<Index>(sizeof(T)),
                    line);
  }
};

template <class T>
std::size_t backward_bytes(const BackwardExtent& extent) noexcept {
  return static_cast<std::size_t>(BackwardLayout<T>(extent).size) * sizeof(T);
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
