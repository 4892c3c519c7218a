#pragma once

// Packing: copies of a block in the order in which the register tile reads it. It makes every storage order
// and stride of the inputs alike, pads the last columns with zeros, and keeps the inner loop on contiguous
// memory.

#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// Number of elements of b packed in panels.
template <class T>
inline Index packed_size(Index depth, Index cols) {
  return depth * round_up(cols, kLanes<T>);
}

/// Packs one panel of `width` columns (`filled` of them from b, the rest zero): out[k * width + col] = b(k,
/// col).
template <class T>
inline void pack_panel(Strided<const T> b, Index depth, Index width, Index filled, T* out) {
  constexpr int lanes = kLanes<T>;
  if (b.col_stride == 1 && filled == width) {
    for (Index k = 0; k < depth; ++k) {
      for (Index col = 0; col < width; col += lanes)
        store(out + k * width + col, load(b.data + k * b.row_stride + col));
    }
    return;
  }
  if (b.row_stride == 1 && depth >= lanes) {
    // Columns are contiguous (keys stored by rows, read as key^T): transpose lanes x lanes blocks in
    // registers. The last block may overlap the one before it, and writes the same there.
    for (Index col = 0; col < width; col += lanes) {
      for (Index next = 0; next < depth; next += lanes) {
        const Index k = min_of(next, depth - lanes);
        packet::PacketBlock<Packet<T>, lanes> square;
        for (int i = 0; i < lanes; ++i) {
          square.packet[i] =
              col + i < filled ? load(b.data + k + (col + i) * b.col_stride) : broadcast<T>(T(0));
        }
        packet::ptranspose(square);
        for (int i = 0; i < lanes; ++i) store(out + (k + i) * width + col, square.packet[i]);
      }
    }
    return;
  }
  for (Index k = 0; k < depth; ++k) {
    for (Index col = 0; col < filled; ++col)
      out[k * width + col] = b.data[k * b.row_stride + col * b.col_stride];
    for (Index col = filled; col < width; ++col) out[k * width + col] = T(0);
  }
}

/// Packs b (depth x cols) in panels of kPanel columns; the last panel is one packet wide if that is enough.
template <class T>
inline void pack_panels(Strided<const T> b, Index depth, Index cols, T* out) {
  for (Index col = 0; col < cols; col += kPanel<T>) {
    const Index left = cols - col;
    const Index width = panel_width<T>(left);
    pack_panel<T>({b.data + col * b.col_stride, b.row_stride, b.col_stride}, depth, width,
                  min_of(left, width), out + col * depth);
  }
}

/// Packs one tile of up to kTileRows rows of a: out[k * kTileRows + row] = a(row, k). Rows that do not exist
/// are zero or left alone: no kernel reads them.
template <class T>
inline void pack_row_tile(Strided<const T> a, Index rows, Index depth, T* out) {
  constexpr Index lanes = kLanes<T>;
  if (a.row_stride == 1 && rows == kTileRows) {  // contiguous in each column, as the tile wants them
    for (Index k = 0; k < depth; ++k)
      __builtin_memcpy(out + k * kTileRows, a.data + k * a.col_stride, kTileRows * sizeof(T));
    return;
  }
  Index k = 0;
  if (a.col_stride == 1 && rows * 4 >= lanes) {  // with fewer rows it is quicker to copy the elements
    // Transposes lanes x lanes blocks in registers. What a store writes beyond its column of kTileRows
    // belongs to the columns after it and is overwritten by theirs; the very last column is written element
    // by element.
    constexpr Index groups = (kTileRows + lanes - 1) / lanes;
    for (; k + lanes <= depth; k += lanes) {
      packet::PacketBlock<Packet<T>, lanes> square[groups];
#pragma GCC unroll 4
      for (Index g = 0; g < groups; ++g) {
#pragma GCC unroll 16
        for (Index i = 0; i < lanes; ++i) {
          const Index row = g * lanes + i;
          square[g].packet[i] =
              row < rows && row < kTileRows ? load(a.data + row * a.row_stride + k) : broadcast<T>(T(0));
        }
        packet::ptranspose(square[g]);
      }
#pragma GCC unroll 16
      for (Index i = 0; i < lanes; ++i) {
        T* column = out + (k + i) * kTileRows;
        if (i == lanes - 1 && k + lanes == depth) {
          T last[groups * lanes];
#pragma GCC unroll 4
          for (Index g = 0; g < groups; ++g) store(last + g * lanes, square[g].packet[i]);
          for (Index row = 0; row < rows; ++row) column[row] = last[row];
        } else {
#pragma GCC unroll 4
          for (Index g = 0; g < groups; ++g) store(column + g * lanes, square[g].packet[i]);
        }
      }
    }
  }
  for (Index row = 0; row < rows; ++row) {
    for (Index rest = k; rest < depth; ++rest)
      out[rest * kTileRows + row] = a.data[row * a.row_stride + rest * a.col_stride];
  }
}

/// Packs a (rows x depth) in tiles of kTileRows rows, one after the other.
template <class T>
inline void pack_rows(Strided<const T> a, Index rows, Index depth, T* out) {
  for (Index first = 0; first < rows; first += kTileRows) {
    pack_row_tile<T>({a.data + first * a.row_stride, a.row_stride, a.col_stride},
                     min_of(kTileRows, rows - first), depth, out + first * depth);
  }
}

/// Copies finished rows, which lie `stride` apart and are padded to whole packets, to where the caller wants
/// them.
template <class T>
inline void unpack_rows(const T* rows, Index stride, Index count, Index cols, Strided<T> out) {
  constexpr int lanes = kLanes<T>;
  if (out.row_stride == 1 && count >= lanes) {
    // Columns are contiguous: transpose lanes x lanes blocks in registers, down the columns, so that a cache
    // line is finished before it is left. The second block begins where its stores are aligned; it and the
    // last one may overlap the one before, and write the same there.
    const Index aligned =
        lanes - static_cast<Index>(reinterpret_cast<std::uintptr_t>(out.data) / sizeof(T)) % lanes;
    for (Index col = 0; col < cols; col += lanes) {
      const Index filled = min_of(lanes, cols - col);
      for (Index next = 0; next < count; next = next == 0 ? aligned : next + lanes) {
        const Index row = min_of(next, count - lanes);
        packet::PacketBlock<Packet<T>, lanes> square;
        for (int i = 0; i < lanes; ++i) square.packet[i] = load(rows + (row + i) * stride + col);
        packet::ptranspose(square);
        for (int i = 0; i < lanes; ++i) {
          if (i < filled) store(out.data + row + (col + i) * out.col_stride, square.packet[i]);
        }
      }
    }
    return;
  }
  for (Index row = 0; row < count; ++row) {
    for (Index col = 0; col < cols; ++col)
      out.data[row * out.row_stride + col * out.col_stride] = rows[row * stride + col];
  }
}

/// True if no element of rows x cols is NaN or infinite. cols is a multiple of kLanes.
template <class T>
inline bool all_finite(const T* x, Index rows, Index row_stride, Index cols) {
  Packet<T> sum = broadcast<T>(T(0));
  const Packet<T> zero = sum;
  for (Index row = 0; row < rows; ++row) {
    for (Index i = 0; i < cols; i += kLanes<T>)
      sum = packet::pmadd(load(x + row * row_stride + i), zero, sum);  // NaN * 0, inf * 0: NaN
  }
  return packet::predux(sum) == T(0);
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
