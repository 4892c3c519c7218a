#pragma once

// The register tile: c (Rows x Packets * lanes) += a (Rows x depth) * b (depth x Packets * lanes), the shape
// of every product in Heed: scores (a: queries, b: keys transposed), out (a: weights, b: values) and
// projections (a: inputs, b: weights).
//
// One element of c is one chain of fused multiply-adds over the depth in ascending order, continued from what
// c holds. So its bits depend on its own row of a and column of b alone: not on Rows, on Packets, or on where
// a caller splits the depth.

#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// Element (row, k) of a is a[row * RowStep + k * DepthStep].
template <int RowStep, int DepthStep>
struct Steps {
  static constexpr int row = RowStep;
  static constexpr int depth = DepthStep;
};

enum class Start { zero, accumulate };

template <class T, int Rows, int Packets, class AStep, Start start>
inline void tile_product(Index depth, const T* a, const T* b, Index b_stride, T* c, Index c_stride) {
  constexpr int lanes = kLanes<T>;
  Packet<T> acc[Rows][Packets];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < Packets; ++p) {
      if constexpr (start == Start::zero) {
        acc[r][p] = broadcast<T>(T(0));
      } else {
        acc[r][p] = load(c + r * c_stride + p * lanes);
      }
    }
  }
  for (Index k = 0; k < depth; ++k) {
    Packet<T> columns[Packets];
#pragma GCC unroll 4
    for (int p = 0; p < Packets; ++p) columns[p] = load(b + p * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Packet<T> element = broadcast<T>(a[r * AStep::row]);
#pragma GCC unroll 4
      for (int p = 0; p < Packets; ++p) acc[r][p] = packet::pmadd(element, columns[p], acc[r][p]);
    }
    a += AStep::depth;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < Packets; ++p) store(c + r * c_stride + p * lanes, acc[r][p]);
  }
}

/// tile_product for 1 ... kTileRows rows, known at run time.
template <class T, int Packets, class AStep, Start start, int Rows = kTileRows>
inline void tile_product_rows(Index rows, Index depth, const T* a, const T* b, Index b_stride, T* c,
                              Index c_stride) {
  if constexpr (Rows > 1) {
    if (rows < Rows) {
      tile_product_rows<T, Packets, AStep, start, Rows - 1>(rows, depth, a, b, b_stride, c, c_stride);
      return;
    }
  }
  tile_product<T, Rows, Packets, AStep, start>(depth, a, b, b_stride, c, c_stride);
}

/// The product of one row tile with the first `cols` columns of b, which has been packed in panels (pack.hpp)
/// of packed_cols columns. c has round_up(cols, lanes) columns.
template <class T, class AStep, Start start>
inline void panels_product(Index rows, Index depth, const T* a, const T* b, Index packed_depth,
                           Index packed_cols, Index cols, T* c, Index c_stride) {
  for (Index col = 0; col < cols; col += kPanel<T>) {
    const Index width = panel_width<T>(packed_cols - col);
    const T* panel = b + col * packed_depth;
    if (cols - col > kLanes<T>) {
      tile_product_rows<T, kTilePackets, AStep, start>(rows, depth, a, panel, width, c + col, c_stride);
    } else {
      tile_product_rows<T, 1, AStep, start>(rows, depth, a, panel, width, c + col, c_stride);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
