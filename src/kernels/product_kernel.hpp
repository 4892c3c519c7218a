#pragma once

// The matrix product of the projections, y = x * w, on the same register tile as attention (Goto and van de
// Geijn 2008: a block of b is packed once and stays in the cache while the rows of a stream by).

#include "kernels/pack.hpp"
#include "kernels/packet.hpp"
#include "kernels/tile_product.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
inline constexpr Index kProductDepth = 1024 / static_cast<Index>(sizeof(T));
template <class T>
inline constexpr Index kProductCols = 512;
inline constexpr Index kProductRows = 192;

// Up to this many rows, packing b would cost more than it saves, and full panels of row-major b are read
// where they are.
inline constexpr Index kUnpackedRows = 8;

/// Where the parts of one block's workspace lie, in elements from its start.
template <class T>
struct ProductLayout {
  Index packed_b;  // a block of b: up to kProductDepth deep, cols in whole panels
  Index packed_a;  // one tile of rows of a
  Index scratch;   // one register tile of c
  Index size;

  ProductLayout(Index depth, Index cols) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    const Index block_depth = min_of(kProductDepth<T>, depth);
    packed_b = 0;
    packed_a = packed_b + round_up(block_depth * round_up(cols, kPanel<T>), line);
    scratch = packed_a + round_up(block_depth * kTileRows, line);
    size = scratch + kTileRows * kPanel<T>;
  }
};

template <class T>
std::size_t product_bytes(Index depth, Index cols) noexcept {
  return static_cast<std::size_t>(ProductLayout<T>(depth, cols).size) * sizeof(T);
}

template <class T>
inline void product_tile(bool wide, bool accumulate, Index rows, Index depth, const T* a, const T* b,
                         Index b_stride, T* c, Index c_stride) {
  using AStep = Steps<1, kTileRows>;
  if (wide) {
    accumulate
        ? tile_product_rows<T, kTilePackets, AStep, Start::accumulate>(rows, depth, a, b, b_stride, c,
                                                                       c_stride)
        : tile_product_rows<T, kTilePackets, AStep, Start::zero>(rows, depth, a, b, b_stride, c, c_stride);
  } else {
    accumulate ? tile_product_rows<T, 1, AStep, Start::accumulate>(rows, depth, a, b, b_stride, c, c_stride)
               : tile_product_rows<T, 1, AStep, Start::zero>(rows, depth, a, b, b_stride, c, c_stride);
  }
}

template <class T>
void product(const ProductBlock<T>& block) noexcept {
  const ProductLayout<T> layout(block.depth, block.cols);
  T* const workspace = static_cast<T*>(block.workspace);
  T* const packed_b = workspace + layout.packed_b;
  T* const packed_a = workspace + layout.packed_a;
  T* const scratch = workspace + layout.scratch;
  const bool read_in_place = block.rows <= kUnpackedRows && block.b.col_stride == 1;

  if (block.depth == 0) {
    for (Index row = 0; row < block.rows; ++row) {
      for (Index col = 0; col < block.cols; ++col) {
        block.c.data[row * block.c.row_stride + col * block.c.col_stride] = T(0);
      }
    }
    return;
  }
  // The sums over the depth are continued from c, so cutting the depth does not change a bit.
  for (Index first_k = 0; first_k < block.depth; first_k += kProductDepth<T>) {
    const Index depth = min_of(kProductDepth<T>, block.depth - first_k);
    const bool accumulate = first_k > 0;
    const Strided<const T> b = {block.b.data + first_k * block.b.row_stride, block.b.row_stride,
                                block.b.col_stride};
    const Index whole_cols = read_in_place ? block.cols / kLanes<T> * kLanes<T> : 0;
    if (whole_cols < block.cols) {
      pack_panels<T>({b.data + whole_cols * b.col_stride, b.row_stride, b.col_stride}, depth,
                     block.cols - whole_cols, packed_b);
    }
    for (Index first_row = 0; first_row < block.rows; first_row += kTileRows) {
      const Index rows = min_of(kTileRows, block.rows - first_row);
      pack_rows<T>({block.a.data + first_row * block.a.row_stride + first_k * block.a.col_stride,
                    block.a.row_stride, block.a.col_stride},
                   rows, depth, packed_a);
      for (Index col = 0; col < block.cols;) {
        const bool in_place = col < whole_cols;
        const Index left = (in_place ? whole_cols : block.cols) - col;
        const Index width = panel_width<T>(left);
        const T* panel = in_place ? b.data + col : packed_b + (col - whole_cols) * depth;
        const Index panel_stride = in_place ? b.row_stride : width;
        T* c = block.c.data + first_row * block.c.row_stride + col * block.c.col_stride;
        const Index filled = min_of(left, width);
        if (block.c.col_stride == 1 && filled == width) {
          product_tile<T>(width == kPanel<T>, accumulate, rows, depth, packed_a, panel, panel_stride, c,
                          block.c.row_stride);
        } else {
          // The tile reaches beyond c, or c is not row-major: by way of a full tile of our own.
          for (Index r = 0; accumulate && r < rows; ++r) {
            for (Index j = 0; j < filled; ++j) {
              scratch[r * kPanel<T> + j] = c[r * block.c.row_stride + j * block.c.col_stride];
            }
            for (Index j = filled; j < width; ++j) scratch[r * kPanel<T> + j] = T(0);
          }
          product_tile<T>(width == kPanel<T>, accumulate, rows, depth, packed_a, panel, panel_stride, scratch,
                          kPanel<T>);
          for (Index r = 0; r < rows; ++r) {
            for (Index j = 0; j < filled; ++j) {
              c[r * block.c.row_stride + j * block.c.col_stride] = scratch[r * kPanel<T> + j];
            }
          }
        }
        col += filled;
      }
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
