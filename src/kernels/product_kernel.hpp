#pragma once

// The matrix product of the projections, y = x * w, on the same register tile as attention, in three ways:
// - packed, after Goto and van de Geijn (2008): a block of rows of a is packed and stays in the second-level
//   cache, each panel of b is packed into the first-level cache and used by all those rows. Several right
//   factors (w_q, w_k, w_v) share the packed rows.
// - streamed, for few rows of a: b is read where it is, row after row.
// - a single row times contiguous columns: b is read where it is and turned in registers.

#include "kernels/pack.hpp"
#include "kernels/packet.hpp"
#include "kernels/row_packets.hpp"
#include "kernels/tile_product.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

// A panel of b, kProductDepth x kPanel, fits a first-level cache: docs/measurements.md#product-panel.
template <class T>
inline constexpr Index kProductDepth = 1024 / static_cast<Index>(sizeof(T));

// Packing b costs about 1 / rows of the product, and the rows of a fit a second-level cache:
// docs/measurements.md#product-panel.
inline constexpr Index kProductRows = 384;

// With at most this many rows, each element of b is used so seldom that its way from memory is the cost. So b
// is read where it is, row after row, kStreamDepth rows at a time, and c is kept in the cache between them:
// docs/measurements.md#stream-rows.
inline constexpr Index kStreamRows = 64;
inline constexpr Index kStreamDepth = 32;
// A single row, the next token of a text, or a few leave so little work for each element of b that reading it
// is all: docs/measurements.md#few-rows.
inline constexpr Index kFewRows = 3;
inline constexpr Index kFewRowsDepth = 8;

/// Where the parts of one block's workspace lie, in elements from its start.
template <class T>
struct ProductLayout {
  Index packed_b;  ///< One panel of b.
  Index scratch;   ///< One register tile of c.
  Index packed_a;  ///< The rows of a, in whole tiles.
  Index size;

  ProductLayout(Index rows, Index depth) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    const Index block_depth = min_of(kProductDepth<T>, depth);
    packed_b = 0;
    scratch = packed_b + round_up(block_depth * kPanel<T>, line);
    packed_a = scratch + round_up(kTileRows * kPanel<T>, line);
    size = packed_a + round_up(round_up(rows, kTileRows) * block_depth, line);
  }
};

template <class T>
std::size_t product_bytes(Index rows, Index depth) noexcept {
  return static_cast<std::size_t>(ProductLayout<T>(rows, depth).size) * sizeof(T);
}

/// c (rows x Packets * lanes) = or += packed a * b, for 1 ... kTileRows rows.
template <class T, int Packets>
inline void product_tile(bool accumulate, Index rows, Index depth, const T* a, const T* b, Index b_stride,
                         T* c, Index c_stride) {
  using AStep = Steps<1, kTileRows>;
  if (accumulate) {
    tile_product_rows<T, Packets, AStep, Start::accumulate>(rows, depth, a, b, b_stride, c, c_stride);
  } else {
    tile_product_rows<T, Packets, AStep, Start::zero>(rows, depth, a, b, b_stride, c, c_stride);
  }
}

/// product_tile for a tile that reaches beyond c, or a c that is not row-major: by way of a full tile of our
/// own.
template <class T, int Packets>
inline void product_tile_via(T* scratch, bool accumulate, Index rows, Index depth, const T* a, const T* b,
                             Strided<T> c, Index cols) {
  constexpr Index width = Packets * kLanes<T>;
  for (Index r = 0; accumulate && r < rows; ++r) {
    for (Index j = 0; j < cols; ++j) scratch[r * width + j] = c.data[r * c.row_stride + j * c.col_stride];
    for (Index j = cols; j < width; ++j) scratch[r * width + j] = T(0);
  }
  product_tile<T, Packets>(accumulate, rows, depth, a, b, width, scratch, width);
  for (Index r = 0; r < rows; ++r) {
    for (Index j = 0; j < cols; ++j) c.data[r * c.row_stride + j * c.col_stride] = scratch[r * width + j];
  }
}

template <class T>
inline void prefetch_rows(const T* first, Index row_stride, Index rows, Index cols) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  for (Index r = 0; r < rows; ++r) {
    for (Index j = 0; j < cols; j += line) __builtin_prefetch(first + r * row_stride + j);
  }
}

/// All row tiles of a block with one packed panel of Packets * lanes columns, the first `cols` of which
/// exist. While a tile is worked on, the next one's rows of c and a share of next_b, the panel to be packed
/// next, are on their way: both lie a row apart, which no hardware prefetcher follows.
template <class T, int Packets>
inline void panel_product(bool accumulate, Index rows, Index depth, const T* packed_a, const T* panel,
                          Strided<T> c, Index cols, const T* next_b, Index b_stride, T* scratch) {
  const bool in_place = c.col_stride == 1 && cols == Packets * kLanes<T>;
  const Index share = (depth * kTileRows + rows - 1) / rows;
  Index fetched = 0;
  for (Index first = 0; first < rows; first += kTileRows) {
    const Index tile_rows = min_of(kTileRows, rows - first);
    const T* a = packed_a + first * depth;
    T* out = c.data + first * c.row_stride;
    if (next_b != nullptr) {
      const Index fetch = min_of(share, depth - fetched);
      prefetch_rows(next_b + fetched * b_stride, b_stride, fetch, kPanel<T>);
      fetched += fetch;
    }
    if (in_place) {
      prefetch_rows<T>(out + kTileRows * c.row_stride, c.row_stride,
                       min_of(kTileRows, rows - first - tile_rows), cols);
      product_tile<T, Packets>(accumulate, tile_rows, depth, a, panel, Packets * kLanes<T>, out,
                               c.row_stride);
    } else {
      product_tile_via<T, Packets>(scratch, accumulate, tile_rows, depth, a, panel,
                                   {out, c.row_stride, c.col_stride}, cols);
    }
  }
}

// Where c has fewer panels, one more would cost more than it gains: docs/measurements.md#aligned-panels.
inline constexpr Index kMinAlignedPanels = 32;

/// Columns of the first panel, so that the others begin where a cache line of c does. A tile whose
/// every row lies in two lines takes longer: docs/measurements.md#aligned-panels.
template <class T>
inline Index first_panel_cols(Strided<T> c, Index part_cols) {
  constexpr std::uintptr_t line = 64;
  const bool alike = c.col_stride == 1 && part_cols >= kMinAlignedPanels * kPanel<T> &&
                     c.row_stride * static_cast<Index>(sizeof(T)) % static_cast<Index>(line) == 0;
  const std::uintptr_t into_line = reinterpret_cast<std::uintptr_t>(c.data) % line;
  if (!alike || into_line == 0 || into_line % sizeof(T) != 0) return kPanel<T>;
  const Index cols = static_cast<Index>((line - into_line) / sizeof(T)) % kPanel<T>;
  return cols == 0 ? kPanel<T> : cols;
}

/// True if the sums of a part have been begun in c: by the caller, by an earlier slice of the depth, or by
/// its bias.
template <class T>
inline bool continues(const ProductPart<T>& part, Index first_k) {
  return part.accumulate || first_k > 0 || part.bias.data != nullptr;
}

/// c = bias in each row, or 0.
template <class T>
inline void begin_sums(const ProductBlock<T>& block, const ProductPart<T>& part) {
  for (Index row = 0; row < block.rows; ++row) {
    for (Index col = 0; col < part.cols; ++col) {
      part.c.data[row * part.c.row_stride + col * part.c.col_stride] =
          part.bias.data != nullptr ? part.bias.data[col * part.bias.col_stride] : T(0);
    }
  }
}

/// A slice of the depth for all rows and columns of one part: panel after panel.
template <class T>
inline void packed_product(const ProductPart<T>& part, Index first_k, Index depth, Index rows,
                           const T* packed_a, T* packed_b, T* scratch) {
  Index cols = 0;
  for (Index col = 0; col < part.cols; col += cols) {
    cols = min_of(col == 0 ? first_panel_cols(part.c, part.cols) : kPanel<T>, part.cols - col);
    const Index width = panel_width<T>(cols);
    const T* b = part.b.data + first_k * part.b.row_stride + col * part.b.col_stride;
    pack_panel<T>({b, part.b.row_stride, part.b.col_stride}, depth, width, cols, packed_b);
    const T* next_b = part.b.col_stride == 1 && col + cols + kPanel<T> <= part.cols ? b + cols : nullptr;
    const Strided<T> c = {part.c.data + col * part.c.col_stride, part.c.row_stride, part.c.col_stride};
    if (width == kPanel<T>) {
      panel_product<T, kTilePackets>(continues(part, first_k), rows, depth, packed_a, packed_b, c, cols,
                                     next_b, part.b.row_stride, scratch);
    } else {
      panel_product<T, 1>(continues(part, first_k), rows, depth, packed_a, packed_b, c, cols, next_b,
                          part.b.row_stride, scratch);
    }
  }
}

/// True if a part is streamed: a has few rows, and the rows of b and c are contiguous and a packet or more.
template <class T>
inline bool is_streamed(const ProductBlock<T>& block, const ProductPart<T>& part) {
  return block.rows <= kStreamRows && part.b.col_stride == 1 && part.c.col_stride == 1 &&
         part.cols >= kLanes<T>;
}

/// Elements before the first that lies at a multiple of a packet's size. A packet across two cache lines
/// waits for both: docs/measurements.md#whole-packets.
template <class T>
inline Index before_whole_packet(const T* data) {
  constexpr std::uintptr_t bytes = sizeof(Packet<T>);
  const std::uintptr_t into_packet = reinterpret_cast<std::uintptr_t>(data) % bytes;
  return into_packet % sizeof(T) == 0 ? static_cast<Index>((bytes - into_packet) % bytes / sizeof(T)) : 0;
}

/// Columns [first, last) of a few rows, less than a packet: as part of a whole one that lies inside the row.
template <class T>
inline void edge_product(bool accumulate, Index rows, Index depth, const T* a, const T* b,
                         const ProductPart<T>& part, T* c, Index first, Index last, T* scratch) {
  constexpr Index lanes = kLanes<T>;
  if (first >= last) return;
  const Index col = min_of(first, part.cols - lanes);
  for (Index r = 0; accumulate && r < rows; ++r)
    store(scratch + r * lanes, load(c + r * part.c.row_stride + col));
  product_tile<T, 1>(accumulate, rows, depth, a, b + col, part.b.row_stride, scratch, lanes);
  for (Index r = 0; r < rows; ++r) {
    for (Index i = first; i < last; ++i) c[r * part.c.row_stride + i] = scratch[r * lanes + i - col];
  }
}

/// A streamed part: b is read in place. packed_a has kStreamDepth x kTileRows elements, scratch a tile.
template <class T>
inline void streamed_product(const ProductBlock<T>& block, const ProductPart<T>& part, T* packed_a,
                             T* scratch) {
  using AStep = Steps<1, kTileRows>;
  constexpr Index lanes = kLanes<T>;
  const Index b_stride = part.b.row_stride;
  const Index begin = b_stride % lanes == 0 ? before_whole_packet(part.b.data) : 0;
  const Index whole = (part.cols - begin) / lanes * lanes;
  const Index step = block.rows <= kFewRows ? kFewRowsDepth : kStreamDepth;
  for (Index first_k = 0; first_k < block.depth; first_k += step) {
    const Index depth = min_of(step, block.depth - first_k);
    const T* const b = part.b.data + first_k * b_stride;
    const bool accumulate = continues(part, first_k);
    for (Index first = 0; first < block.rows; first += kTileRows) {
      const Index rows = min_of(kTileRows, block.rows - first);
      T* const c = part.c.data + first * part.c.row_stride;
      pack_row_tile<T>({block.a.data + first * block.a.row_stride + first_k * block.a.col_stride,
                        block.a.row_stride, block.a.col_stride},
                       rows, depth, packed_a);
      edge_product<T>(accumulate, rows, depth, packed_a, b, part, c, 0, begin, scratch);
      if (accumulate) {
        wide_product<T, AStep, Start::accumulate>(rows, depth, packed_a, b + begin, b_stride, whole,
                                                  c + begin, part.c.row_stride);
      } else {
        wide_product<T, AStep, Start::zero>(rows, depth, packed_a, b + begin, b_stride, whole, c + begin,
                                            part.c.row_stride);
      }
      edge_product<T>(accumulate, rows, depth, packed_a, b, part, c, begin + whole, part.cols, scratch);
    }
  }
}

/// True for a single row times a b whose columns are contiguous, as the scores of a model are that share the
/// embedding's table.
template <class T>
inline bool is_single_row_by_columns(const ProductBlock<T>& block, const ProductPart<T>& part) {
  return block.rows == 1 && part.b.row_stride == 1 && part.b.col_stride != 1 && part.cols > 1 &&
         block.a.col_stride == 1;
}

/// The columns of lanes x lanes blocks are turned in registers and used at once: b is read once, and nothing
/// is packed. Each sum is the same chain over the depth as everywhere.
template <class T, int Groups>
inline void single_row_by_columns(const ProductBlock<T>& block, const ProductPart<T>& part, Index first,
                                  Index cols) {
  constexpr Index lanes = kLanes<T>;
  const Strided<T> c = {part.c.data + first * part.c.col_stride, 0, part.c.col_stride};
  const T* const a = block.a.data;
  Packet<T> sums[Groups];
  const T* columns[Groups];
  for (int g = 0; g < Groups; ++g) {
    const Index left = cols - g * lanes;
    sums[g] = continues(part, 0) ? load_lanes<T>(c.data + g * lanes * c.col_stride, c.col_stride, left)
                                 : broadcast<T>(T(0));
    columns[g] = part.b.data + (first + g * lanes) * part.b.col_stride;
  }
  const auto last = [&](int g, Index i) { return min_of(i, cols - g * lanes - 1) * part.b.col_stride; };
  const Index ahead = Groups * lanes * part.b.col_stride;
  // The square that begins at k, turned: a packet for each of its elements of the depth.
  const auto turned = [&](int g, Index k) {
    packet::PacketBlock<Packet<T>, lanes> square;
#pragma GCC unroll 16
    for (Index i = 0; i < lanes; ++i) {
      const T* const from = columns[g] + k + last(g, i);
      __builtin_prefetch(from + ahead);
      square.packet[i] = load(from);
    }
    packet::ptranspose(square);
    return square;
  };
  // Less than a square: elements of one that lies inside the depth, if there is one.
  const auto edge = [&](Index first_k, Index last_k) {
    if (first_k >= last_k) return;
    const Index k = min_of(first_k, block.depth - lanes);
    for (int g = 0; g < Groups; ++g) {
      const auto square = turned(g, k);
      for (Index i = first_k - k; i < last_k - k; ++i)
        sums[g] = packet::pmadd(broadcast<T>(a[k + i]), square.packet[i], sums[g]);
    }
  };
  Index k = 0;
  if (block.depth >= lanes) {
    if (part.b.col_stride % lanes == 0) k = before_whole_packet(columns[0]);
    edge(0, k);
    for (; k + lanes <= block.depth; k += lanes) {
#pragma GCC unroll 4
      for (int g = 0; g < Groups; ++g) {
        const auto square = turned(g, k);
#pragma GCC unroll 16
        for (Index i = 0; i < lanes; ++i)
          sums[g] = packet::pmadd(broadcast<T>(a[k + i]), square.packet[i], sums[g]);
      }
    }
    edge(k, block.depth);
  } else {
    for (; k < block.depth; ++k) {
      for (int g = 0; g < Groups; ++g) {
        alignas(64) T lane[lanes];
        for (Index i = 0; i < lanes; ++i) lane[i] = columns[g][k + last(g, i)];
        sums[g] = packet::pmadd(broadcast<T>(a[k]), load(lane), sums[g]);
      }
    }
  }
  for (int g = 0; g < Groups; ++g)
    store_lanes<T>(sums[g], c.data + g * lanes * c.col_stride, c.col_stride, cols - g * lanes);
}

template <class T>
inline void single_row_by_columns(const ProductBlock<T>& block, const ProductPart<T>& part) {
  // A processor's prefetchers can follow the streams of 16 columns: docs/measurements.md#column-streams.
  constexpr int groups = 16 / kLanes<T>;
  constexpr Index step = groups * kLanes<T>;
  Index col = 0;
  for (; col + step <= part.cols; col += step) single_row_by_columns<T, groups>(block, part, col, step);
  for (; col < part.cols; col += kLanes<T>)
    single_row_by_columns<T, 1>(block, part, col, min_of(kLanes<T>, part.cols - col));
}

template <class T>
void product(const ProductBlock<T>& block) noexcept {
  const ProductLayout<T> layout(block.rows, block.depth);
  T* const workspace = static_cast<T*>(block.workspace);
  T* const packed_b = workspace + layout.packed_b;
  T* const packed_a = workspace + layout.packed_a;
  T* const scratch = workspace + layout.scratch;

  bool any_packed = false;
  for (Index p = 0; p < block.num_parts; ++p) {
    const ProductPart<T>& part = block.parts[p];
    if (!part.accumulate && (block.depth == 0 || part.bias.data != nullptr)) begin_sums(block, part);
    if (is_single_row_by_columns(block, part)) {
      single_row_by_columns(block, part);
    } else if (is_streamed(block, part)) {
      streamed_product(block, part, packed_a, scratch);
    } else {
      any_packed = true;
    }
  }
  if (!any_packed) return;
  // The sums over the depth are continued from c, so cutting the depth does not change a bit.
  for (Index first_k = 0; first_k < block.depth; first_k += kProductDepth<T>) {
    const Index depth = min_of(kProductDepth<T>, block.depth - first_k);
    pack_rows<T>({block.a.data + first_k * block.a.col_stride, block.a.row_stride, block.a.col_stride},
                 block.rows, depth, packed_a);
    for (Index p = 0; p < block.num_parts; ++p) {
      const ProductPart<T>& part = block.parts[p];
      if (is_single_row_by_columns(block, part) || is_streamed(block, part)) continue;
      packed_product<T>(part, first_k, depth, block.rows, packed_a, packed_b, scratch);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
