#pragma once

// A tile of keys and values in the register tile's order: packed from the caller's matrices, or as it lies in
// a cache.

#include "kernels/attention_layout.hpp"
#include "kernels/cache_kernel.hpp"
#include "kernels/pack.hpp"
#include "kernels/rotate.hpp"
#include "kernels/tile_product.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
struct KeyValueTile {
  Panels<T> keys;
  Panels<T> values;
  bool finite;  ///< No value that may be visible is NaN or infinite.
  // A tile of a cache that is read once, for one register tile, as it is stored: 16-bit numbers are widened
  // on their way into registers. If the pointers are set, keys and values are not.
  const std::byte* stored_keys;
  const std::byte* stored_values;
};

// With at most this many rows a cache is read as it is stored. With more, 16-bit numbers are widened once for
// all of them: docs/measurements.md#decode-rows.
inline constexpr int kDecodeRows = 4;

/// Packs keys [range.begin, range.end) of the tile, panel by panel, each turned on its way if there is a
/// rotation. range.begin is at a panel.
template <class T>
inline void pack_keys(const AttentionBlock<T>& block, Index first_key, KeyRange range, T* turned, T* out) {
  const Strided<const T>& key = block.key;
  const Rotation<T>& rotation = block.key_rotation;
  if (rotation.table == nullptr) {
    pack_panels<T>({key.data + (first_key + range.begin) * key.row_stride, key.col_stride, key.row_stride},
                   block.head_dim, range.end - range.begin, out + range.begin * block.head_dim);
    return;
  }
  for (Index col = range.begin; col < range.end; col += kPanel<T>) {
    const Index count = min_of(kPanel<T>, range.end - col);
    for (Index i = 0; i < count; ++i) {
      const Index j = first_key + col + i;
      rotate_row<T>(rotation, j, key.data + j * key.row_stride, key.col_stride, block.head_dim,
                    turned + i * block.head_dim);
    }
    pack_panels<T>({turned, 1, block.head_dim}, block.head_dim, count, out + col * block.head_dim);
  }
}

/// The tile of the keys [first_key, first_key + range.end), of which those before range.begin may be missing.
template <class T>
inline KeyValueTile<T> load_tile(const AttentionBlock<T>& block, const AttentionLayout<T>& layout,
                                 Index first_key, KeyRange range, bool values_in_place) {
  T* const workspace = static_cast<T*>(block.workspace);
  KeyValueTile<T> tile{};
  if (block.cached.keys != nullptr) {
    const Index t = first_key / kKeyTile<T> % block.cached.num_tiles;
    const std::byte* keys = block.cached.keys + static_cast<std::size_t>(t) * block.cached.key_stride;
    const std::byte* values = block.cached.values + static_cast<std::size_t>(t) * block.cached.value_stride;
    tile.finite = block.cached.finite[t] != 0;
    if (block.num_rows <= kDecodeRows && tile.finite) {
      tile.stored_keys = keys;
      tile.stored_values = values;
      return tile;
    }
    tile.keys = cached_keys<T>(block.cached, keys, block.head_dim, range, workspace + layout.keys);
    tile.values = cached_values<T>(block.cached, values, block.value_dim, range, workspace + layout.values);
    return tile;
  }
  const Index begin = range.begin / kPanel<T> * kPanel<T>;
  T* const packed_keys = workspace + layout.keys;
  pack_keys<T>(block, first_key, {begin, range.end}, workspace + layout.gathered, packed_keys);
  tile.keys = {packed_keys, block.head_dim, 0, range.end};
  const T* first_value = block.value.data + (first_key + begin) * block.value.row_stride;
  if (values_in_place) {
    tile.values = {first_value - begin * block.value.row_stride, 0, block.value.row_stride, block.value_dim};
    tile.finite = all_finite(first_value, range.end - begin, block.value.row_stride, block.value_dim);
    return tile;
  }
  T* const packed_values = workspace + layout.values;
  pack_panels<T>({first_value, block.value.row_stride, block.value.col_stride}, range.end - begin,
                 block.value_dim, packed_values);
  tile.finite = all_finite(packed_values, 1, 0, packed_size<T>(range.end - begin, block.value_dim));
  // Panels count their rows from the tile's first key.
  tile.values = {packed_values, range.end - begin, 0, block.value_dim, begin};
  return tile;
}

/// f(keys or values as panels of the numbers that they are stored as).
template <class T, class F>
inline void with_stored_panels(Storage storage, const std::byte* data, Index depth, Index cols, F f) {
  if constexpr (sizeof(T) == 4) {
    if (storage == Storage::bfloat16) {
      f(Panels<T, BFloat16>{reinterpret_cast<const BFloat16*>(data), depth, 0, cols});
      return;
    }
    if (storage == Storage::float16) {
      f(Panels<T, Float16>{reinterpret_cast<const Float16*>(data), depth, 0, cols});
      return;
    }
  }
  f(Panels<T>{reinterpret_cast<const T*>(data), depth, 0, cols});
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
