#pragma once

// Keys and values in a cache: whole tiles in the register tile's order, so that decoding streams each byte
// once and packs nothing. A tile holds its keys in panels of kPanel keys (head_dim x kPanel each), then its
// values in panels of columns (kKeyTile x the width of the panel each).

#include "kernels/mask_tile.hpp"
#include "kernels/pack.hpp"
#include "kernels/rotate.hpp"
#include "kernels/storage.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
std::size_t cached_key_bytes(Index head_dim, Storage storage) noexcept {
  return static_cast<std::size_t>(kKeyTile<T> * head_dim * stored_bytes<T>(storage));
}
template <class T>
std::size_t cached_value_bytes(Index value_dim, Storage storage) noexcept {
  return static_cast<std::size_t>(kKeyTile<T> * round_up(value_dim, kLanes<T>) * stored_bytes<T>(storage));
}

/// The keys of a tile as numbers of type T: where they lie, or widened into the buffer, those of the range.
template <class T>
inline const T* cached_keys(const CachedTiles& cached, const std::byte* keys, Index head_dim, KeyRange range,
                            T* buffer) {
  if constexpr (sizeof(T) == 4) {
    if (cached.storage != Storage::same) {
      const Index first = range.begin / kPanel<T> * kPanel<T> * head_dim;
      const Index last = round_up(range.end, kPanel<T>) * head_dim;
      widen(reinterpret_cast<const std::uint16_t*>(keys) + first, last - first, cached.storage,
            buffer + first);
      return buffer;
    }
  }
  return reinterpret_cast<const T*>(keys);
}

/// The values of a tile, likewise.
template <class T>
inline const T* cached_values(const CachedTiles& cached, const std::byte* values, Index value_dim,
                              KeyRange range, T* buffer) {
  if constexpr (sizeof(T) == 4) {
    if (cached.storage != Storage::same) {
      for (Index col = 0; col < value_dim; col += kPanel<T>) {
        const Index width = panel_width<T>(value_dim - col);
        const Index first = col * kKeyTile<T> + range.begin * width;
        widen(reinterpret_cast<const std::uint16_t*>(values) + first, (range.end - range.begin) * width,
              cached.storage, buffer + first);
      }
      return buffer;
    }
  }
  return reinterpret_cast<const T*>(values);
}

/// Writes one element of a tile.
template <class T>
inline void store_element(std::byte* tile, Index at, T x, Storage storage) {
  if constexpr (sizeof(T) == 4) {
    if (storage != Storage::same) {
      narrow(&x, 1, storage, reinterpret_cast<std::uint16_t*>(tile) + at);
      return;
    }
  }
  reinterpret_cast<T*>(tile)[at] = x;
}

template <class T>
inline bool is_finite(T x) {
  return x - x == T(0);
}

template <class T>
void store_in_cache(const CacheRows<T>& rows) noexcept {
  const auto key_stride = cached_key_bytes<T>(rows.head_dim, rows.storage);
  const auto value_stride = cached_value_bytes<T>(rows.value_dim, rows.storage);
  for (Index i = 0; i < rows.num_rows; ++i) {
    const Index j = rows.first_key + i;
    const Index tile = j / kKeyTile<T> % rows.num_tiles;
    const Index in_tile = j % kKeyTile<T>;
    std::byte* const keys = rows.keys + static_cast<std::size_t>(tile) * key_stride;
    std::byte* const values = rows.values + static_cast<std::size_t>(tile) * value_stride;

    const T* key = rows.key.data + i * rows.key.row_stride;
    Index step = rows.key.col_stride;
    if (rows.rotation.table != nullptr) {
      rotate_row<T>(rows.rotation, j, key, step, rows.head_dim, rows.turned);
      key = rows.turned;
      step = 1;
    }
    const Index panel = in_tile / kPanel<T> * kPanel<T> * rows.head_dim + in_tile % kPanel<T>;
    for (Index k = 0; k < rows.head_dim; ++k)
      store_element<T>(keys, panel + k * kPanel<T>, key[k * step], rows.storage);

    const T* value = rows.value.data + i * rows.value.row_stride;
    bool finite = true;
    for (Index col = 0; col < rows.value_dim; col += kPanel<T>) {
      const Index width = panel_width<T>(rows.value_dim - col);
      const Index at = col * kKeyTile<T> + in_tile * width;
      for (Index c = 0; c < width; ++c) {
        const T x = col + c < rows.value_dim ? value[(col + c) * rows.value.col_stride] : T(0);
        store_element<T>(values, at + c, x, rows.storage);
        finite &= is_finite(x);
      }
    }
    // A tile that is begun anew has no old values. (float16 may turn a large number into infinity.)
    if (rows.storage == Storage::float16) {
      for (Index c = 0; c < rows.value_dim; ++c) {
        const T x = value[c * rows.value.col_stride];
        finite &= x < T(65520) && x > T(-65520);
      }
    }
    rows.finite[tile] = finite && (in_tile == 0 || rows.finite[tile] != 0) ? 1 : 0;
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
