#pragma once

// Keys and values in a cache: whole tiles in the register tile's order, so that decoding streams each byte
// once and packs nothing. A tile holds its keys in panels of kPanel keys (head_dim x kPanel each), then its
// values in panels of columns (kKeyTile x the width of the panel each).

#include "kernels/mask_tile.hpp"
#include "kernels/pack.hpp"
#include "kernels/rotate.hpp"
#include "kernels/storage.hpp"
#include "kernels/tile_product.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
std::size_t cached_key_bytes(Index head_dim, Storage storage) noexcept {
  return static_cast<std::size_t>(kKeyTile<T> * head_dim * stored_bytes<T>(storage));
}
template <class T>
std::size_t cached_value_bytes(Index value_dim, Storage storage) noexcept {
  return static_cast<std::size_t>(kKeyTile<T> * round_up(value_dim, kLanes<T>) * stored_bytes<T>(storage));
}

/// The keys of a tile, head_dim x kKeyTile in panels: where they lie or, if they are stored in 16 bits,
/// widened into the buffer, those of the range.
template <class T>
inline Panels<T> cached_keys(const CachedTiles& cached, const std::byte* keys, Index head_dim, KeyRange range,
                             T* buffer) {
  if constexpr (sizeof(T) == 4) {
    if (cached.storage != Storage::same) {
      const Index first = range.begin / kPanel<T>;
      const Index last = (range.end + kPanel<T> - 1) / kPanel<T>;
      const Index at = first * head_dim * kPanel<T>;
      widen(keys, at, (last - first) * head_dim, kPanel<T>, cached.storage, buffer + at);
      return {buffer, head_dim, 0, kKeyTile<T>};
    }
  }
  return {reinterpret_cast<const T*>(keys), head_dim, 0, kKeyTile<T>};
}

/// Returns the values of a tile, kKeyTile x value_dim; buffer takes those that are widened.
template <class T>
inline Panels<T> cached_values(const CachedTiles& cached, const std::byte* values, Index value_dim,
                               KeyRange range, T* buffer) {
  if constexpr (sizeof(T) == 4) {
    if (cached.storage != Storage::same) {
      const Index rows = range.end - range.begin;
      for (Index col = 0; col < value_dim; col += kPanel<T>) {
        const Index width = panel_width<T>(value_dim - col);
        widen(values, col * kKeyTile<T> + range.begin * width, rows, width, cached.storage,
              buffer + col * rows);
      }
      return {buffer, rows, 0, value_dim, range.begin};
    }
  }
  return {reinterpret_cast<const T*>(values), kKeyTile<T>, 0, value_dim};
}

/// Copies numbers into columns [col, col + count) of a panel's row, `width` wide, in the tile's own format.
template <class T>
inline void store_in_panel(const T* x, Index col, Index count, Index width, Storage storage, std::byte* tile,
                           Index row_at) {
  if constexpr (sizeof(T) == 4) {
    if (storage != Storage::same) {
      auto* const row = reinterpret_cast<std::uint16_t*>(tile) + row_at;
      for (Index i = 0; i < count; ++i) row[slot(storage, col + i, width)] = narrow(x[i], storage);
      return;
    }
  }
  __builtin_memcpy(reinterpret_cast<T*>(tile) + row_at + col, x, static_cast<std::size_t>(count) * sizeof(T));
}

/// Stores `count` keys from row i on side by side in one panel of a tile, the first of them as key `first` of
/// the tile.
template <class T>
inline void store_keys(const CacheRows<T>& rows, Index i, Index count, std::byte* tile, Index first) {
  const Index depth = rows.head_dim;
  Strided<const T> keys = {rows.key.data + i * rows.key.row_stride, rows.key.col_stride,
                           rows.key.row_stride};  // transposed: depth x count
  if (rows.rotation.table != nullptr) {
    for (Index n = 0; n < count; ++n) {
      rotate_row<T>(rows.rotation, rows.first_key + i + n, keys.data + n * keys.col_stride, keys.row_stride,
                    depth, rows.scratch + n * depth);
    }
    keys = {rows.scratch, 1, depth};
  }
  T* const packed = rows.scratch + kLanes<T> * depth;
  const Index panel = first / kPanel<T> * kPanel<T> * depth;
  if (count == kLanes<T>) {
    pack_panel<T>(keys, depth, kLanes<T>, kLanes<T>, packed);
  } else {
    for (Index k = 0; k < depth; ++k) {
      for (Index n = 0; n < count; ++n)
        packed[k * count + n] = keys.data[k * keys.row_stride + n * keys.col_stride];
    }
  }
  for (Index k = 0; k < depth; ++k) {
    store_in_panel<T>(packed + k * count, first % kPanel<T>, count, kPanel<T>, rows.storage, tile,
                      panel + k * kPanel<T>);
  }
}

/// From here on a finite number is rounded to infinity.
template <class T>
inline T overflow_of(Storage storage) {
  if constexpr (sizeof(T) == 4) {
    if (storage == Storage::float16) return 65520.0f;
    if (storage == Storage::bfloat16) return 0x1.ffp127f;
  }
  return FloatTraits<T>::infinity;
}

/// Stores one value; false if the tile then holds NaN or infinity because of it.
template <class T>
inline bool store_value(const CacheRows<T>& rows, Index i, std::byte* tile, Index at_row) {
  const T* value = rows.value.data + i * rows.value.row_stride;
  const Index value_cols = round_up(rows.value_dim, kLanes<T>);
  T* const row = rows.scratch;
  bool finite = true;
  const T most = overflow_of<T>(rows.storage);
  for (Index c = 0; c < rows.value_dim; ++c) {
    row[c] = value[c * rows.value.col_stride];
    finite = finite & (row[c] < most) & (row[c] > -most);  // NaN is neither
  }
  for (Index c = rows.value_dim; c < value_cols; ++c) row[c] = T(0);
  for (Index col = 0; col < value_cols; col += kPanel<T>) {
    const Index width = panel_width<T>(rows.value_dim - col);
    store_in_panel<T>(row + col, 0, width, width, rows.storage, tile, col * kKeyTile<T> + at_row * width);
  }
  return finite;
}

/// Numbers of scratch that store_in_cache needs.
template <class T>
Index cache_scratch(Index head_dim, Index value_dim) noexcept {
  return max_of(2 * kLanes<T> * head_dim, round_up(value_dim, kLanes<T>));
}

template <class T>
void store_in_cache(const CacheRows<T>& rows) noexcept {
  const auto key_stride = cached_key_bytes<T>(rows.head_dim, rows.storage);
  const auto value_stride = cached_value_bytes<T>(rows.value_dim, rows.storage);
  for (Index i = 0; i < rows.num_rows;) {
    const Index j = rows.first_key + i;
    const Index t = j / kKeyTile<T> % rows.num_tiles;
    const Index first = j % kKeyTile<T>;
    // As many as stand side by side in one packet of a panel.
    const Index count = min_of(rows.num_rows - i, kLanes<T> - first % kLanes<T>);
    store_keys<T>(rows, i, count, rows.keys + static_cast<std::size_t>(t) * key_stride, first);
    bool finite = first == 0 || rows.finite[t] != 0;  // a tile that is begun anew has no old values
    std::byte* const values = rows.values + static_cast<std::size_t>(t) * value_stride;
    for (Index n = 0; n < count; ++n) finite = store_value<T>(rows, i + n, values, first + n) && finite;
    rows.finite[t] = finite ? 1 : 0;
    i += count;
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
