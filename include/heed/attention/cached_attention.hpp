#pragma once

// Attention of new queries against a cache of keys and values.
//
//   heed::KvCache<float> cache({.num_kv_heads = 12, .head_dim = 64, .value_dim = 64, .capacity = 1024});
//   cache.append(key, value);  // of the new tokens
//   out = heed::scaled_dot_product_attention(query, cache, {.mask = heed::causal(), .num_heads = 12});

#include "heed/core/config.hpp"

#include <initializer_list>
#include <type_traits>

#include "heed/attention/flex_attention.hpp"
#include "heed/attention/kv_cache.hpp"
#include "heed/attention/observe_attention.hpp"
#include "heed/attention/scaled_dot_product_attention.hpp"

namespace heed {

namespace detail {

/// Runs attention against a cache on tensors, which bring query, out and what else is wanted.
template <class T>
void run_cached_attention(const KvCache<T>& cache, AttentionOptions options, AttentionTensors<T> tensors,
                          const ScoreFunctions<T>& functions = {}) {
  const AttentionShape shape = cached_shape<T>(tensors.query, cache, 0, options);
  const CacheView tiles = cache.cache_view();
  tensors.cache = &tiles;
  run_attention(shape, options, tensors, functions);
}

/// Makes a matrix for the result of queries against a cache.
template <class Q, class T>
Matrix<T> out_for(const Eigen::DenseBase<Q>& query, const KvCache<T>& cache,
                  const AttentionOptions& options) {
  (void)per_head(query.cols(), options.num_heads, "query");  // throws before out gets a size
  return Matrix<T>(query.rows(), options.num_heads * cache.shape().value_dim);
}

}  // namespace detail

/// Computes scaled_dot_product_attention_into() with a cache's keys and values. query is (batch_size *
/// query_len) x (num_heads * head_dim), or has rows for query_starts; the batch and the key/value heads are
/// the cache's. If the mask does not say where the queries stand, they are the last tokens of their sequence.
/// Throws ShapeError or ArgumentError, before anything is written, if sizes do not fit, the mask contradicts
/// the cache, or a ring no longer has a key that a query may see. Memory and threads are as for the function
/// without a cache.
template <class Q, class T, class O>
void scaled_dot_product_attention_into(const Eigen::DenseBase<Q>& query, const KvCache<T>& cache,
                                       Eigen::DenseBase<O>& out, const AttentionOptions& options = {}) {
  static_assert(detail::same_scalar<Q, O> && std::is_same_v<typename Q::Scalar, T>,
                "query, cache and out need the same scalar type: cast them");
  AttentionTensors<T> tensors;
  tensors.query = view(query);
  tensors.out = mutable_view(out);
  detail::run_cached_attention<T>(cache, options, tensors);
}

/// Returns attention over a cache's keys and values in a new matrix.
template <class Q, class T>
Matrix<T> scaled_dot_product_attention(const Eigen::DenseBase<Q>& query, const KvCache<T>& cache,
                                       const AttentionOptions& options = {}) {
  Matrix<T> out = detail::out_for(query, cache, options);
  scaled_dot_product_attention_into(query, cache, out, options);
  return out;
}

/// Computes observe_attention() with a cache's keys and values.
template <class Q, class T>
Matrix<T> observe_attention(const Eigen::DenseBase<Q>& query, const KvCache<T>& cache,
                            const AttentionOptions& options,
                            std::initializer_list<WeightsObserver<T>*> observers) {
  static_assert(std::is_same_v<typename Q::Scalar, T>,
                "query and cache need the same scalar type: cast them");
  Matrix<T> out = detail::out_for(query, cache, options);
  AttentionTensors<T> tensors;
  tensors.query = view(query);
  tensors.out = mutable_view(out);
  tensors.observers = observers.begin();
  tensors.num_observers = static_cast<Index>(observers.size());
  detail::run_cached_attention<T>(cache, options, tensors);
  for (WeightsObserver<T>* observer : observers) observer->rethrow();
  return out;
}

/// Computes flex_attention() with a cache's keys and values.
template <class Q, class T, class Score, class Visible = SeesAll>
Matrix<T> flex_attention(const Eigen::DenseBase<Q>& query, const KvCache<T>& cache, const Score& score,
                         const Visible& visible = {}, const AttentionOptions& options = {}) {
  static_assert(std::is_same_v<typename Q::Scalar, T>,
                "query and cache need the same scalar type: cast them");
  static_assert(std::is_invocable_r_v<T, Score, T, Index, Index, Index, Index>,
                "score is called as score(score, batch, head, query position, key position)");
  Matrix<T> out = detail::out_for(query, cache, options);
  AttentionTensors<T> tensors;
  tensors.query = view(query);
  tensors.out = mutable_view(out);
  const detail::FunctorFunctions<T, Score, Visible> functions(score, visible);
  detail::run_cached_attention<T>(cache, options, tensors, functions.functions());
  functions.rethrow();
  return out;
}

}  // namespace heed
