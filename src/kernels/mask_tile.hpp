#pragma once

// Which keys of a tile each row of a register tile sees, and what is added to their scores, where that takes
// more than a range: matrices, and a caller's function.

#include "kernels/packet.hpp"
#include "kernels/query_rows.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// Keys of a tile, counted from its first one.
struct KeyRange {
  Index begin;
  Index end;

  bool empty() const { return begin >= end; }
};

/// The keys of the tile that may be visible to a row, as far as distances go.
template <class T>
inline KeyRange range_of(const AttentionBlock<T>& block, Index row, Index first_key, Index keys) {
  const Index position = position_of(block, row);
  return {max_of(0, block.visible.begin(position) - first_key),
          min_of(keys, block.visible.end(position) - first_key)};
}

/// Bias and visibility of a register tile of rows against a tile of keys.
template <class T>
struct MaskTile {
  T* bias;        ///< (row, key) at bias[row * kKeyTile + key].
  bool* visible;  ///< (row, key) at visible[row * kKeyTile + key].
  bool masked;    ///< visible is filled; else a range says all.
  bool biased;    ///< bias is filled.
};

template <class T>
inline bool is_masked(const AttentionBlock<T>& block) {
  return block.num_mask_parts > 0 || block.hook != nullptr;
}

/// visible &= what one row of a matrix keeps, over `count` keys.
inline void keep_visible(const bool* matrix, Index step, bool keep, Index count, bool* visible) {
  if (step == 1) {
    for (Index j = 0; j < count; ++j) visible[j] = visible[j] & (matrix[j] == keep);
  } else {
    for (Index j = 0; j < count; ++j) visible[j] = visible[j] & (matrix[j * step] == keep);
  }
}

/// bias = or += one row of a matrix, and visible &= that it is not -inf.
template <class T>
inline void add_bias(const T* matrix, Index step, bool first, Index count, T* bias, bool* visible) {
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  for (Index j = 0; j < count; ++j) {
    const T b = matrix[j * step];
    visible[j] = visible[j] & (b != minus_inf);
    bias[j] = first ? b : bias[j] + b;
  }
}

inline bool any_of(const bool* flags, Index count) {
  bool any = false;
  for (Index j = 0; j < count; ++j) any |= flags[j];
  return any;
}

/// Fills the tile for the keys [range.begin, range.end), which every matrix is read for once. False if no row
/// sees any of them.
template <class T>
inline bool fill_mask(const AttentionBlock<T>& block, Index first_row, Index rows, Index first_key,
                      KeyRange range, MaskTile<T>& tile) {
  const Index count = range.end - range.begin;
  // Whole packets are read: the keys that pad the first and the last one are hidden, and their bias is 0.
  const KeyRange padded = {range.begin / kLanes<T> * kLanes<T>, round_up(range.end, kLanes<T>)};
  tile.biased = false;
  for (Index r = 0; r < rows; ++r) {
    const KeyRange own = range_of(block, first_row + r, first_key, range.end);
    bool* visible = tile.visible + r * kKeyTile<T>;
    for (Index j = padded.begin; j < padded.end; ++j) visible[j] = j >= own.begin && j < own.end;
  }
  for (Index part = 0; part < block.num_mask_parts; ++part) {
    const MaskPart<T>& matrix = block.mask_parts[part];
    for (Index r = 0; r < rows; ++r) {
      const Index position = position_of(block, first_row + r);
      const Index head = head_of(block, first_row + r);
      const Index key = first_key + range.begin;
      const Index at = r * kKeyTile<T> + range.begin;
      if (matrix.bias.data != nullptr) {
        const Index step = matrix.bias.col_stride;
        add_bias<T>(matrix.bias.at(position, head) + key * step, step, !tile.biased, count, tile.bias + at,
                    tile.visible + at);
      } else {
        const Index step = matrix.visibility.col_stride;
        keep_visible(matrix.visibility.at(position, head) + key * step, step, matrix.keep, count,
                     tile.visible + at);
      }
    }
    tile.biased |= matrix.bias.data != nullptr;
  }
  for (Index r = 0; r < rows && tile.biased; ++r) {
    T* bias = tile.bias + r * kKeyTile<T>;
    for (Index j = padded.begin; j < range.begin; ++j) bias[j] = T(0);
    for (Index j = range.end; j < padded.end; ++j) bias[j] = T(0);
  }
  if (block.hook != nullptr && block.hook->hide != nullptr) {
    block.hook->hide(block.hook->context, block,
                     {first_row, rows, first_key + range.begin, count, nullptr, 0, tile.visible + range.begin,
                      kKeyTile<T>});
  }
  bool any = false;
  for (Index r = 0; r < rows; ++r) any |= any_of(tile.visible + r * kKeyTile<T> + range.begin, count);
  return any;
}

/// A packet of all-ones bits where the flag is set, of zeros elsewhere.
template <class T>
inline Packet<T> lanes_where(const bool* flags) {
  using Bytes __attribute__((vector_size(kLanes<T>))) = unsigned char;
  Bytes bytes;
  __builtin_memcpy(&bytes, flags, sizeof(bytes));
  const auto bits = __builtin_convertvector(bytes, PacketBits<T>) != 0;
  Packet<T> lanes;
  __builtin_memcpy(&lanes, &bits, sizeof(lanes));
  return lanes;
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
