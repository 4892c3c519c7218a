#pragma once

// The boundary between the engine and its hot loops: pointers, sizes and strides in, numbers out. A table of
// functions per instruction set; dispatch.cpp is the one place that chooses. Kernels know no model, no
// thread, no exception and no Eigen object. All strides and counts are in elements.

#include <cstddef>

namespace heed::kernels {

using Index = std::ptrdiff_t;

/// A read-only or writable matrix in memory: element (i, j) is data[i * row_stride + j * col_stride].
template <class T>
struct Strided {
  T* data = nullptr;
  Index row_stride = 0;
  Index col_stride = 0;
};

/// One block of query rows of one head against all keys of its head.
///
/// Row i of the block sees key j iff j < visible_end(i) and, when there is a bias, bias(i, j) != -inf, where
/// visible_end(i) = clamp(first_visible_end + i * visible_step, 0, kv_len): step 1 is a causal mask, step 0
/// with first_visible_end = kv_len is no mask.
template <class T>
struct AttentionBlock {
  Strided<const T> query;  // query_rows x head_dim
  Strided<const T> key;    // kv_len x head_dim
  Strided<const T> value;  // kv_len x value_dim
  Strided<const T> bias;   // query_rows x kv_len; data == nullptr: none
  Strided<T> out;          // query_rows x value_dim
  Strided<T> weights;      // query_rows x kv_len; data == nullptr: not wanted
  T* row_max;              // query_rows: the largest visible score, -inf for a row that sees nothing
  T* row_sum;              // query_rows: sum of exp(score - row_max), 0 for a row that sees nothing
  Index query_rows;        // 1 ... Kernels<T>::query_block
  Index kv_len;
  Index head_dim;
  Index value_dim;
  Index first_visible_end;
  Index visible_step;
  T scale;
  void* workspace;  // attention_bytes(query_rows, kv_len, head_dim, value_dim).total() bytes, aligned to 64
};

/// One right factor of a product and where its result goes: c = a * b.
template <class T>
struct ProductPart {
  Strided<const T> b;  // depth x cols
  Strided<T> c;        // rows x cols
  Index cols;          // 1 and more
};

/// The products of a block of rows with several right factors, in one pass over the rows.
template <class T>
struct ProductBlock {
  Strided<const T> a;  // rows x depth
  const ProductPart<T>* parts;
  Index num_parts;
  Index rows;  // 1 ... Kernels<T>::product_rows
  Index depth;
  void* workspace;  // Kernels<T>::product_bytes(rows, depth) bytes, aligned to 64
};

/// The workspace of one attention block by what it holds, in bytes.
struct AttentionBytes {
  std::size_t queries;       // packed
  std::size_t keys;          // of one tile, packed
  std::size_t values;        // of one tile, packed
  std::size_t scores;        // of one register tile against a tile of keys
  std::size_t accumulators;  // sums of weights * values, a row for each query

  std::size_t total() const noexcept { return queries + keys + values + scores + accumulators; }
};

template <class T>
struct Kernels {
  Index lanes;         // elements of one vector register
  Index registers;     // vector registers of the instruction set
  Index tile_rows;     // rows of the register tile
  Index tile_cols;     // columns of the register tile and of a packed panel, in whole vector registers
  Index query_block;   // most query rows of one attention block
  Index key_tile;      // keys of one tile; a constant, so that tile edges never depend on kv_len
  Index product_rows;  // most rows of one product block
  AttentionBytes (*attention_bytes)(Index query_rows, Index kv_len, Index head_dim, Index value_dim) noexcept;
  void (*attention)(const AttentionBlock<T>& block) noexcept;
  std::size_t (*product_bytes)(Index rows, Index depth) noexcept;
  void (*product)(const ProductBlock<T>& block) noexcept;
  void (*exp)(const T* x, T* out,
              Index count) noexcept;  // the one exp of every path, for arguments <= 0 and NaN
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

}  // namespace heed::kernels
