#pragma once

// The register tile: c (Rows x Packets * lanes) += a (Rows x depth) * b (depth x Packets * lanes), the shape
// of every product in Heed: scores (a: queries, b: keys transposed), out (a: weights, b: values) and
// projections (a: inputs, b: weights).
//
// One element of c is one chain of fused multiply-adds over the depth in ascending order, continued from what
// c holds. So its bits depend on its own row of a and column of b alone: not on Rows, on Packets, or on where
// a caller splits the depth.

#include <type_traits>

#include "kernels/packet.hpp"
#include "kernels/storage.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// Element (row, k) of a is a[row * RowStep + k * DepthStep].
template <int RowStep, int DepthStep>
struct Steps {
  static constexpr int row = RowStep;
  static constexpr int depth = DepthStep;
};

/// The steps of rows that are contiguous and lie where the caller has them.
struct InPlaceSteps {
  Index row;
  static constexpr int depth = 1;
};

enum class Start { zero, accumulate };

// Where b comes from memory and not from a cache, it is asked for ahead, as hardware prefetchers stop at the
// end of a page and at the end of a row. In rows that lie apart (wide_memory) that is the same columns,
// kRowsAhead rows further on; where rows follow each other, every line kBytesAhead further on:
// docs/measurements.md#rows-ahead.
enum class Source { cache, memory, wide_memory };
inline constexpr Index kRowsAhead = 8;
inline constexpr int kBytesAhead = 8192;

/// B is T, or a 16-bit number of a cache, which is widened on its way into the register.
template <class T, int Rows, int Packets, class AStep, Start start, Source source = Source::cache, class B>
inline void tile_product(Index depth, const T* a, const B* b, Index b_stride, T* c, Index c_stride,
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
  const Index rows_ahead = min_of(depth, kRowsAhead) * b_stride;
  for (Index k = 0; k < depth; ++k) {
    Packet<T> columns[Packets];
    if constexpr (source == Source::wide_memory) {
#pragma GCC unroll 8
      for (int p = 0; p < Packets; ++p) {
        columns[p] = load_halves(b + p * lanes);
        __builtin_prefetch(b + rows_ahead + p * lanes);
      }
    } else {
      load_columns<T, Packets>(b, columns);
    }
    if constexpr (source == Source::memory) {
#pragma GCC unroll 8
      for (int byte = 0; byte < Packets * lanes * static_cast<int>(sizeof(B)); byte += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(b) + byte + kBytesAhead);
    }
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

/// tile_product for 1 ... Rows rows, known at run time.
template <class T, int Packets, class AStep, Start start, int Rows = kTileRows, Source source = Source::cache,
          class B>
inline void tile_product_rows(Index rows, Index depth, const T* a, const B* b, Index b_stride, T* c,
                              Index c_stride, AStep step = {}) {
  if constexpr (Rows > 1) {
    if (rows < Rows) {
      tile_product_rows<T, Packets, AStep, start, Rows - 1, source>(rows, depth, a, b, b_stride, c, c_stride,
                                                                    step);
      return;
    }
  }
  tile_product<T, Rows, Packets, AStep, start, source>(depth, a, b, b_stride, c, c_stride, step);
}

/// wide_product for the columns from `col` on, in tiles of Packets packets, then of half as many, and so on.
template <class T, class AStep, Start start, int Rows, int Packets>
inline void wide_tiles(Index depth, const T* a, const T* b, Index b_stride, Index col, Index cols, T* c,
                       Index c_stride, AStep step) {
  // With more rows the sums take as long as b takes to come.
  constexpr Source source = 2 * Rows <= kTileRows ? Source::wide_memory : Source::cache;
  for (; col + Packets * kLanes<T> <= cols; col += Packets * kLanes<T>) {
    tile_product<T, Rows, Packets, AStep, start, source>(depth, a, b + col, b_stride, c + col, c_stride,
                                                         step);
  }
  if constexpr (Packets > 1) {
    if (col < cols)
      wide_tiles<T, AStep, start, Rows, Packets / 2>(depth, a, b, b_stride, col, cols, c, c_stride, step);
  }
}

/// c (Rows x cols) = or += a * b for `depth` rows of b where they lie, row after row as memory is streamed
/// best; cols is a multiple of lanes. The fewer the rows, the wider the tile, so that there are enough sums
/// under way and a row of b is read in one go.
template <class T, class AStep, Start start, int Rows = kTileRows>
inline void wide_product(Index rows, Index depth, const T* a, const T* b, Index b_stride, Index cols, T* c,
                         Index c_stride, AStep step = {}) {
  if constexpr (Rows > 1) {
    if (rows < Rows) {
      wide_product<T, AStep, start, Rows - 1>(rows, depth, a, b, b_stride, cols, c, c_stride, step);
      return;
    }
  }
  constexpr int packets = Rows * 8 <= kTileRows * kTilePackets   ? 8
                          : Rows * 4 <= kTileRows * kTilePackets ? 4
                                                                 : kTilePackets;
  wide_tiles<T, AStep, start, Rows, packets>(depth, a, b, b_stride, 0, cols, c, c_stride, step);
}

/// A right factor of `depth` rows, cut into panels of columns: packed one after the other (pack.hpp), or read
/// in place from a matrix whose rows are contiguous and whole packets.
template <class T, class B = T>
struct Panels {
  const B* data;
  Index packed_depth;  ///< 0: in place.
  Index row_stride;    ///< In place: from one row to the next.
  Index cols;
  Index first_row = 0;  ///< Packed: of the rows before it there is nothing.

  /// The panel that begins at a column, a multiple of kPanel, from a row on; step is from one row to the
  /// next.
  struct Panel {
    const B* data;
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
template <class T, class AStep, Start start, int Rows = kTileRows, Source source = Source::cache, class B>
inline void panels_product(Index rows, Index depth, const T* a, const Panels<T, B>& b, PanelRange range, T* c,
                           Index c_stride, AStep step = {}) {
  for (Index col = range.first_col; col < range.cols; col += kPanel<T>) {
    const auto panel = b.at(col, range.first_row);
    // A full panel of 16-bit numbers is read as a whole (storage.hpp); c has room for columns that were not
    // asked for.
    const bool whole = !std::is_same_v<T, B> && panel.step == kPanel<T>;
    if (range.cols - col > kLanes<T> || whole) {
      tile_product_rows<T, kTilePackets, AStep, start, Rows, source>(rows, depth, a, panel.data, panel.step,
                                                                     c + col, c_stride, step);
    } else {
      tile_product_rows<T, 1, AStep, start, Rows, source>(rows, depth, a, panel.data, panel.step, c + col,
                                                          c_stride, step);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
