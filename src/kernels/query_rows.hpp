#pragma once

// The rows of a block: which position and head each is, and the queries on their way into register tiles.

#include "kernels/pack.hpp"
#include "kernels/packet.hpp"
#include "kernels/rotate.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
inline Index position_of(const AttentionBlock<T>& block, Index row) {
  return block.heads == 1 ? row : (block.first_head + row) / block.heads;
}
template <class T>
inline Index head_of(const AttentionBlock<T>& block, Index row) {
  return block.heads == 1 ? 0 : (block.first_head + row) % block.heads;
}

/// True if one stride leads from each row to the next: all are of one head, or of one position.
template <class T>
inline bool rows_lie_evenly(const AttentionBlock<T>& block) {
  return block.heads == 1 || block.first_head + block.num_rows <= block.heads;
}

/// The rows from one on, where they lie evenly.
template <class T, class U>
inline Strided<U> even_rows(const AttentionBlock<T>& block, const HeadRows<U>& rows, Index row) {
  return {rows.at(position_of(block, row), head_of(block, row)),
          block.heads == 1 ? rows.position_stride : rows.head_stride, rows.col_stride};
}

/// Packs all queries in register tiles; those that are turned, or do not lie evenly, by way of `gathered`.
template <class T>
inline void pack_queries(const AttentionBlock<T>& block, T* gathered, T* out) {
  const Rotation<T>& rotation = block.query_rotation;
  if (rotation.table == nullptr && rows_lie_evenly(block)) {
    pack_rows<T>(even_rows(block, block.query, 0), block.num_rows, block.head_dim, out);
    return;
  }
  for (Index first = 0; first < block.num_rows; first += kTileRows) {
    const Index rows = min_of(kTileRows, block.num_rows - first);
    for (Index r = 0; r < rows; ++r) {
      const Index position = position_of(block, first + r);
      const T* query = block.query.at(position, head_of(block, first + r));
      T* const row = gathered + r * block.head_dim;
      if (rotation.table != nullptr) {
        rotate_row<T>(rotation, position, query, block.query.col_stride, block.head_dim, row);
      } else {
        for (Index k = 0; k < block.head_dim; ++k) row[k] = query[k * block.query.col_stride];
      }
    }
    pack_row_tile<T>({gathered, block.head_dim, 1}, rows, block.head_dim, out + first * block.head_dim);
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
