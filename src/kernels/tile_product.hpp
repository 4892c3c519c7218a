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

/// The same for rows that are contiguous and lie where the caller has them.
struct InPlaceSteps {
  Index row;
  static constexpr int depth = 1;
};

enum class Start { zero, accumulate };

template <class T, int Rows, int Packets, class AStep, Start start>
inline void tile_product(Index depth, const T* a, const T* b, Index b_stride, T* c, Index c_stride,
                         AStep step = {}) {
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
      const Packet<T> element = broadcast<T>(a[r * step.row]);
#pragma GCC unroll 4
      for (int p = 0; p < Packets; ++p) acc[r][p] = packet::pmadd(element, columns[p], acc[r][p]);
    }
    a += step.depth;
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
                              Index c_stride, AStep step = {}) {
  if constexpr (Rows > 1) {
    if (rows < Rows) {
      tile_product_rows<T, Packets, AStep, start, Rows - 1>(rows, depth, a, b, b_stride, c, c_stride, step);
      return;
    }
  }
  tile_product<T, Rows, Packets, AStep, start>(depth, a, b, b_stride, c, c_stride, step);
}

/// A right factor of `depth` rows, cut into panels of columns: packed one after the other (pack.hpp), or read
/// in place from a matrix whose rows are contiguous and whole packets.
template <class T>
struct Panels {
  const T* data;
  Index packed_depth;  // 0: in place
  Index row_stride;    // in place: from one row to the next
  Index cols;
  Index first_row = 0;  // packed: of the rows before it there is nothing

  /// The panel that begins at a column, a multiple of kPanel, from a row on; step is from one row to the
  /// next.
  struct Panel {
    const T* data;
    Index step;
  };
  Panel at(Index col, Index row = 0) const {
    if (packed_depth == 0) return {data + row * row_stride + col, row_stride};
    const Index width = panel_width<T>(cols - col);
    return {data + col * packed_depth + (row - first_row) * width, width};
  }
};

/// Part of a product: columns [first_col, cols) of b, first_col at a panel, and depth rows of it from
/// first_row on.
struct PanelRange {
  Index first_col = 0;
  Index cols = 0;
  Index first_row = 0;
};

/// The product of one row tile with a part of b. c has round_up(cols, lanes) columns.
template <class T, class AStep, Start start>
inline void panels_product(Index rows, Index depth, const T* a, const Panels<T>& b, PanelRange range, T* c,
                           Index c_stride, AStep step = {}) {
  for (Index col = range.first_col; col < range.cols; col += kPanel<T>) {
    const auto panel = b.at(col, range.first_row);
    if (range.cols - col > kLanes<T>) {
      tile_product_rows<T, kTilePackets, AStep, start>(rows, depth, a, panel.data, panel.step, c + col,
                                                       c_stride, step);
    } else {
      tile_product_rows<T, 1, AStep, start>(rows, depth, a, panel.data, panel.step, c + col, c_stride, step);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
