#pragma once

// Attention of new queries against a cache of keys and values.

#include <type_traits>

#include "heed/attention.hpp"
#include "heed/kv_cache.hpp"

namespace heed {

namespace detail {

template <class T>
void run_cached_attention(const MatrixView<const T>& query, const KvCache<T>& cache, AttentionOptions options,
                          const MatrixView<T>& out) {
  const AttentionShape shape = cached_shape<T>(query, cache, 0, options);
  const CacheView tiles = cache.cache_view();
  AttentionTensors<T> tensors;
  tensors.query = query;
  tensors.out = out;
  tensors.cache = &tiles;
  run_attention(shape, options, tensors);
}

}  // namespace detail

/// As scaled_dot_product_attention_into() with the cache's keys and values. query is (batch_size * query_len)
/// x (num_heads * head_dim), or has rows for query_starts; the batch and the key/value heads are the cache's.
/// If the mask does not say where the queries stand, they are the last tokens of their sequence.
template <class Q, class T, class O>
void scaled_dot_product_attention_into(const Eigen::DenseBase<Q>& query, const KvCache<T>& cache,
                                       Eigen::DenseBase<O>& out, const AttentionOptions& options = {}) {
  static_assert(detail::same_scalar<Q, O> && std::is_same_v<typename Q::Scalar, T>,
                "query, cache and out need the same scalar type: cast them");
  detail::run_cached_attention<T>(view(query), cache, options, mutable_view(out));
}

/// The same, returning a new matrix.
template <class Q, class T>
Matrix<T> scaled_dot_product_attention(const Eigen::DenseBase<Q>& query, const KvCache<T>& cache,
                                       const AttentionOptions& options = {}) {
  (void)detail::per_head(query.cols(), options.num_heads, "query");  // throws before out gets a size
  Matrix<T> out(query.rows(), options.num_heads * cache.shape().value_dim);
  scaled_dot_product_attention_into(query, cache, out, options);
  return out;
}

}  // namespace heed
