// What a good Eigen program does without Heed: two matrix products with the full score matrix between them. Compiled once per
// instruction set, with Eigen renamed, so that it is measured with the same instructions as the kernels.
#include <Eigen/Core>
#include <limits>

namespace heed::bench::HEED_BENCH_ISA {

template <class T>
void plain_attention(long query_len, long kv_len, long head_dim, long value_dim, bool causal, const T* query, long query_stride,
                     const T* key, long key_stride, const T* value, long value_stride, T* out, long out_stride, T* scores) {
  using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Map = Eigen::Map<const RowMajor, 0, Eigen::OuterStride<>>;
  const Map q(query, query_len, head_dim, Eigen::OuterStride<>(query_stride));
  const Map k(key, kv_len, head_dim, Eigen::OuterStride<>(key_stride));
  const Map v(value, kv_len, value_dim, Eigen::OuterStride<>(value_stride));
  Eigen::Map<RowMajor, 0, Eigen::OuterStride<>> o(out, query_len, value_dim, Eigen::OuterStride<>(out_stride));
  Eigen::Map<RowMajor> s(scores, query_len, kv_len);
  s.noalias() = q * k.transpose();
  const T scale = T(1) / Eigen::numext::sqrt(T(head_dim));
  for (long i = 0; i < query_len; ++i) {
    const long visible = causal ? i + 1 : kv_len;
    auto row = s.row(i).head(visible).array();
    row = ((row - row.maxCoeff()) * scale).exp();
    row /= row.sum();
    s.row(i).tail(kv_len - visible).setZero();
  }
  o.noalias() = s * v;
}

template <class T>
void plain_product(long rows, long depth, long cols, const T* a, const T* b, T* c) {
  using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<RowMajor>(c, rows, cols).noalias() =
      Eigen::Map<const RowMajor>(a, rows, depth) * Eigen::Map<const RowMajor>(b, depth, cols);
}

#define HEED_INSTANTIATE(T)                                                                                            \
  template void plain_attention<T>(long, long, long, long, bool, const T*, long, const T*, long, const T*, long, T*, long, T*); \
  template void plain_product<T>(long, long, long, const T*, const T*, T*);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)
#undef HEED_INSTANTIATE

}  // namespace heed::bench::HEED_BENCH_ISA
