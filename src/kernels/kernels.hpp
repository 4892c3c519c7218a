#pragma once

// The boundary between the engine and its hot loops: pointers, sizes and strides in, numbers out. A table of
// functions per instruction set; dispatch.cpp is the one place that chooses. Kernels know no model, no
// thread, no exception and no Eigen object. All strides and counts are in elements.

#include <cstddef>

#include "kernels/layer_kernels.hpp"
#include "kernels/strided.hpp"

namespace heed::kernels {

/// Rows that come in two levels, positions and the heads of each: row (position, head) begins at
/// data + position * position_stride + head * head_stride. A stride may be 0: then they share.
template <class T>
struct HeadRows {
  T* data;
  Index position_stride;
  Index head_stride;
  Index col_stride;

  T* at(Index position, Index head) const { return data + position * position_stride + head * head_stride; }
};

/// Position i of a block sees, as far as distances go, the keys [begin(i), end(i)).
struct VisibleRange {
  Index first_begin = 0;  ///< The first key that position 0 sees.
  Index begin_step = 0;   ///< 1 if it moves with the position, as a window does, else 0.
  Index first_end = 0;
  Index end_step = 0;
  Index kv_len = 0;

  Index begin(Index position) const { return clamped(first_begin + position * begin_step); }
  Index end(Index position) const { return clamped(first_end + position * end_step); }
  Index clamped(Index key) const { return key < 0 ? 0 : key < kv_len ? key : kv_len; }
};

/// A matrix that is part of a mask, from position 0 and head 0 of the block on: a bias (added to scores, -inf
/// hides a key), or bytes that are 1 where a key is kept, or where it is dropped.
template <class T>
struct MaskPart {
  HeadRows<const T> bias;           ///< data == nullptr: none.
  HeadRows<const bool> visibility;  ///< data == nullptr: none.
  bool keep;                        ///< visibility says what is kept, not what is dropped.
};

/// Rotary positions (Su et al. 2021): how one side, queries or keys, is turned while it is packed.
template <class T>
struct Rotation {
  const T* table = nullptr;  ///< nullptr: not turned. Row by row from position 0: cos of each pair, then sin.
  Index pairs = 0;           ///< The first 2 * pairs elements of a head are turned.
  bool neighbors = false;    ///< Pairs are (2i, 2i + 1), else (i, i + pairs).
  Index first = 0;           ///< Row of the table for position 0, or key 0.
};

/// How the numbers of a cache are stored.
enum class Storage { same, bfloat16, float16 };

/// Keys and values that a cache holds in tiles of Kernels::key_tile, in the order in which the kernel reads
/// them: tile t lies t % num_tiles strides after the first.
struct CachedTiles {
  const std::byte* keys = nullptr;  ///< nullptr: not from a cache.
  const std::byte* values = nullptr;
  const unsigned char* finite = nullptr;  ///< For each tile: no value in it is NaN or infinite.
  std::size_t key_stride = 0;             ///< Bytes.
  std::size_t value_stride = 0;
  Index num_tiles = 1;
  Storage storage = Storage::same;
};

template <class T>
struct ScoreHook;
template <class T>
struct WeightsHook;

/// One block of query rows of the heads that share one key/value head, against all its keys.
///
/// Row r is head (first_head + r) % heads of position (first_head + r) / heads. It sees key j iff j lies in
/// the visible range of its position and no mask part and no hook hides it.
template <class T>
struct AttentionBlock {
  HeadRows<const T> query;  ///< Rows of head_dim.
  Strided<const T> key;     ///< kv_len x head_dim, unless cached.
  Strided<const T> value;   ///< kv_len x value_dim, unless cached.
  CachedTiles cached;
  HeadRows<T> out;  ///< Rows of value_dim.
  VisibleRange visible;
  const MaskPart<T>* mask_parts;
  Index num_mask_parts;
  const T* slopes;       ///< ALiBi, one for each head of the block; nullptr: none.
  Index first_position;  ///< Where position 0 stands, counted from key 0.
  const T* sinks;        ///< One for each head of the block; nullptr: none.
  T scale;
  T softcap;  ///< 0: none.
  Rotation<T> query_rotation;
  Rotation<T> key_rotation;
  const ScoreHook<T>* hook;  ///< nullptr: none.
  T* row_max;                ///< num_rows: the largest visible score, -inf for a row that sees nothing.
  T* row_sum;                ///< num_rows: sum of exp(score - row_max), 0 for a row that sees nothing.
  bool* row_sees;            ///< num_rows: whether the row sees a key at all.
  Index num_rows;            ///< 1 ... Kernels<T>::query_block.
  Index heads;
  Index first_head;
  Index kv_len;
  Index head_dim;
  Index value_dim;
  void* workspace;  ///< attention_bytes(...).total() bytes, aligned to 64.
};

/// A tile of scores in the hands of a caller's function.
template <class T>
struct ScoreTile {
  Index first_row;  ///< The tile's first row, counted within the block.
  Index rows;
  Index first_key;
  Index keys;
  T* scores;  ///< (row, key) at scores[row * row_step + key].
  Index row_step;
  bool* visible;  ///< (row, key) at visible[row * visible_step + key]; what is false stays so.
  Index visible_step;
};

/// A caller's functions of scores and visibility; either may be null.
template <class T>
struct ScoreHook {
  void (*hide)(const void* context, const AttentionBlock<T>& block, const ScoreTile<T>& tile) noexcept;
  void (*score)(const void* context, const AttentionBlock<T>& block, const ScoreTile<T>& tile) noexcept;
  const void* context;
};

/// Where finished weights go, a tile at a time: rows in ascending order, and for each of them the keys.
template <class T>
struct WeightsHook {
  /// Returns false if these rows are not wanted.
  bool (*wanted)(void* context, Index first_row, Index rows) noexcept;
  /// weights == nullptr: no row sees any key of the tile, all weights are 0.
  void (*take)(void* context, Index first_row, Index rows, Index first_key, Index keys, const T* weights,
               Index row_step) noexcept;
  void* context;
};

/// Where the gradients of scores go, a register tile at a time; a key that a row does not see has 0.
template <class T>
struct ScoreGradientHook {
  void (*take)(void* context, Index first_row, Index rows, Index first_key, Index keys, const T* grads,
               Index row_step) noexcept;
  void* context;
};

/// The backward pass of one head of queries, or of some of its rows or some of its keys. The sums that it
/// adds to have rows of whole vector registers, and no scale yet.
template <class T>
struct BackwardBlock {
  AttentionBlock<T> forward;  ///< All rows of one head: heads is 1, nothing is cached, no hook; out, row_max,
                              ///< row_sum and row_sees are not used; workspace: backward_bytes(...).
  Strided<const T> out;       ///< num_rows x value_dim.
  Strided<const T> grad_out;  ///< num_rows x value_dim.
  Strided<const T> logsumexp;  ///< num_rows x 1.
  Index first_row;             ///< Rows [first_row, last_row), at least one.
  Index last_row;
  Index first_key;  ///< Keys [first_key, last_key); a multiple of Kernels::key_tile.
  Index last_key;
  T* grad_query;                     ///< Sums of the rows, from first_row on; nullptr: not wanted.
  T* grad_key;                       ///< Sums of the keys, from first_key on; nullptr: neither is wanted.
  T* grad_value;                     ///< Sums of the keys, from first_key on.
  T* sink_terms;                     ///< A number for each row of the head; nullptr: not wanted.
  const ScoreGradientHook<T>* hook;  ///< nullptr: none.
};

/// Finished sums of a backward pass on their way to the caller: out = sums * factor, turned back.
template <class T>
struct GradientRows {
  T* sums;  ///< num_rows x cols, each row in whole vector registers; overwritten.
  Strided<T> out;
  Index num_rows;
  Index cols;
  T factor;
  Rotation<T> rotation;
  Index first;  ///< Row of the rotation for the first of these rows.
};

/// One right factor of a product and where its result goes: c = a * b (+ bias in each row).
template <class T>
struct ProductPart {
  Strided<const T> b;     ///< depth x cols.
  Strided<T> c;           ///< rows x cols.
  Index cols;             ///< 1 and more.
  Strided<const T> bias;  ///< 1 x cols; data == nullptr: none.
  bool accumulate;        ///< c += a * b; there is no bias then.
};

/// The products of a block of rows with several right factors, in one pass over the rows.
template <class T>
struct ProductBlock {
  Strided<const T> a;  ///< rows x depth.
  const ProductPart<T>* parts;
  Index num_parts;
  Index rows;  ///< 1 ... Kernels<T>::product_rows.
  Index depth;
  void* workspace;  ///< Kernels<T>::product_bytes(rows, depth) bytes, aligned to 64.
};

/// What the workspace of an attention block depends on.
struct AttentionExtent {
  Index num_rows = 0;
  Index kv_len = 0;
  Index head_dim = 0;
  Index value_dim = 0;
  bool masked = false;    ///< There are mask parts or hooks.
  bool gathered = false;  ///< Rows are turned, or those of a register tile do not lie equally far apart.
};

/// What the workspace of a backward pass depends on.
struct BackwardExtent {
  Index num_rows = 0;
  Index kv_len = 0;
  Index head_dim = 0;
  Index value_dim = 0;
  bool masked = false;   ///< There are mask parts.
  bool rotated = false;  ///< Queries and keys are turned.
  bool softcap = false;
};

/// The workspace of one attention block by what it holds, in bytes.
struct AttentionBytes {
  std::size_t queries;       ///< Packed.
  std::size_t keys;          ///< Keys of one tile, packed.
  std::size_t values;        ///< Values of one tile, packed.
  std::size_t scores;        ///< Scores of one register tile against a tile of keys.
  std::size_t gathered;      ///< Rows on their way into a packed tile.
  std::size_t masks;         ///< Bias and visibility of a register tile against a tile of keys.
  std::size_t accumulators;  ///< Sums of weights * values, a row for each query.

  std::size_t total() const noexcept {
    return queries + keys + values + scores + gathered + masks + accumulators;
  }
};

/// Rows to be stored in a cache, from key first_key on.
template <class T>
struct CacheRows {
  Strided<const T> key;    ///< num_rows x head_dim.
  Strided<const T> value;  ///< num_rows x value_dim.
  Rotation<T> rotation;    ///< The rotation of the keys; `first` belongs to key 0.
  Index first_key;         ///< Counted without end: tile edges do not move in a ring.
  Index num_rows;
  Index head_dim;
  Index value_dim;
  Index num_tiles;
  Storage storage;
  std::byte* keys;  ///< The keys of the head, as in CachedTiles.
  std::byte* values;
  unsigned char* finite;
  T* scratch;  ///< Kernels::cache_scratch(head_dim, value_dim) numbers.
};

template <class T>
struct Kernels {
  Index lanes;          ///< Elements of one vector register.
  Index registers;      ///< Vector registers of the instruction set.
  Index tile_rows;      ///< Rows of the register tile.
  Index tile_cols;      ///< Columns of the register tile and of a packed panel, in whole vector registers.
  Index query_block;    ///< Most query rows of one attention block.
  Index key_tile;       ///< Keys of one tile; a constant, so that tile edges never depend on kv_len.
  Index backward_rows;  ///< Rows that a backward pass takes at once: parts of a head are best cut there.
  Index product_rows;   ///< Most rows of one product block.
  AttentionBytes (*attention_bytes)(const AttentionExtent& extent) noexcept;
  void (*attention)(const AttentionBlock<T>& block) noexcept;
  /// The weights of a block that attention() has been run on, with its row_max, row_sum and row_sees.
  void (*weights)(const AttentionBlock<T>& block, const WeightsHook<T>& hook) noexcept;
  std::size_t (*backward_bytes)(const BackwardExtent& extent) noexcept;
  void (*backward)(const BackwardBlock<T>& block) noexcept;
  void (*finish_gradient)(const GradientRows<T>& rows) noexcept;
  std::size_t (*cached_key_bytes)(Index head_dim, Storage storage) noexcept;  ///< Of one tile.
  std::size_t (*cached_value_bytes)(Index value_dim, Storage storage) noexcept;
  Index (*cache_scratch)(Index head_dim, Index value_dim) noexcept;
  void (*store_in_cache)(const CacheRows<T>& rows) noexcept;
  std::size_t (*product_bytes)(Index rows, Index depth) noexcept;
  void (*product)(const ProductBlock<T>& block) noexcept;
  void (*exp)(const T* x, T* out,
              Index count) noexcept;  ///< The one exp of every path, for arguments <= 0 and NaN.
  LayerKernels<T> layers;
};

/// The functions of one instruction set.
struct KernelTable {
  const char* isa;
  Kernels<float> f32;
  Kernels<double> f64;
};

template <class T>
const Kernels<T>& kernels_of(const KernelTable& table) noexcept;
template <>
inline const Kernels<float>& kernels_of<float>(const KernelTable& table) noexcept {
  return table.f32;
}
template <>
inline const Kernels<double>& kernels_of<double>(const KernelTable& table) noexcept {
  return table.f64;
}

/// The table for this process: the best instruction set that the processor has, capped by the environment
/// variable HEED_ISA if it is set. Chosen at the first call; thread-safe. Throws ArgumentError if HEED_ISA
/// names none.
const KernelTable& table();

template <class T>
const LayerKernels<T>& layer_kernels() {
  return kernels_of<T>(table()).layers;
}

}  // namespace heed::kernels
