#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// What Heed is measured against: the machine's peak, and plain Eigen products. Both are taken for the
// instruction set that the kernels run on.

namespace heed::bench {

/// GFLOP/s of independent multiply-adds on `threads` threads at once, over a few milliseconds.
template <class T>
double peak_gflops(int threads);

/// Sums over memory (peak.inl), one in the loads of each instruction set up to the one that the kernels run
/// on.
using SumWords = std::uint64_t (*)(const std::uint64_t* words, std::size_t count, std::size_t ahead);
std::vector<SumWords> sums_of_words();

/// softmax(q k^T / sqrt(head_dim)) v with the full score matrix, row-major with row strides; scores has
/// query_len * kv_len elements.
template <class T>
struct PlainAttention {
  void (*run)(long query_len, long kv_len, long head_dim, long value_dim, bool causal, const T* query,
              long query_stride, const T* key, long key_stride, const T* value, long value_stride, T* out,
              long out_stride, T* scores);
};
template <class T>
PlainAttention<T> plain_attention();

/// c = a b, contiguous and row-major.
template <class T>
struct PlainProduct {
  void (*run)(long rows, long depth, long cols, const T* a, const T* b, T* c);
};
template <class T>
PlainProduct<T> plain_product();

}  // namespace heed::bench
