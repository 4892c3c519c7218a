#pragma once

// Plan once, decode as long as wanted: attention of new tokens against a KvCache that grows, without an
// allocation.
//
//   heed::KvCache<float> cache({.num_kv_heads = 8, .head_dim = 64, .value_dim = 64, .capacity = 4096});
//   const heed::CachedAttentionPlan<float> plan(cache.shape(), 8);
//   heed::Workspace workspace(plan.workspace_bytes());
//   for (;;) {  // from the first round on nothing is allocated
//     cache.append(key, value);
//     plan.run(view(query), cache, mutable_view(out), workspace.data());
//   }

#include "heed/core/config.hpp"

#include <cstddef>

#include "heed/attention/kv_cache.hpp"
#include "heed/attention/mask.hpp"
#include "heed/attention/plan.hpp"
#include "heed/core/executor.hpp"
#include "heed/core/view.hpp"

namespace heed {

/// Attention of the last tokens of a cache's sequences: up to max_new_tokens of each, another number in each
/// run if wanted. T is float or double. Results have the bits of scaled_dot_product_attention() with the same
/// cache.
template <class T>
class HEED_EXPORT CachedAttentionPlan {
 public:
  /// Plans runs on caches that are all made as `cache` says. mask: causal, window and alibi, which hold for
  /// any length; queries stand at the last tokens. threads: how many tasks of a run may be under way at once.
  /// Makes the rotary's table, for the whole capacity. Throws ShapeError or ArgumentError if sizes or options
  /// make no sense, the mask has a matrix, kv_lengths or another place for the queries, the capacity holds
  /// fewer than max_new_tokens, or, for a ring, unless window left + max_new_tokens <= capacity.
  explicit CachedAttentionPlan(const KvCacheOptions& cache, Index num_heads, Index max_new_tokens = 1,
                               const Mask& mask = causal(), const ScoreOptions& options = {},
                               Index threads = 1);

  const KvCacheOptions& cache_shape() const noexcept { return cache_; }
  Index num_heads() const noexcept { return plan_.shape().num_heads; }
  Index max_new_tokens() const noexcept { return plan_.shape().query_len; }

  /// Returns the bytes of scratch memory of one run, for any number of new tokens.
  std::size_t workspace_bytes() const noexcept { return plan_.workspace_bytes(); }

  /// Throws ShapeError if the cache is of another shape, query is not (batch_size * n) x (num_heads *
  /// head_dim) for an n up to max_new_tokens, out is not as many rows x (num_heads * value_dim), a sequence
  /// has fewer than n tokens, or a ring has gone beyond the rotary's positions; ArgumentError if out overlaps
  /// query.
  void check_tensors(const MatrixView<const T>& query, const KvCache<T>& cache,
                     const MatrixView<T>& out) const;

  /// Attends from the last n tokens of each sequence, whose keys and values are in the cache already. The
  /// arguments are as check_tensors() wants them; workspace has workspace_bytes() bytes, aligned to
  /// Workspace::alignment. Runs on the calling thread, or on the executor's. Allocates nothing and locks
  /// nothing itself.
  void run(const MatrixView<const T>& query, const KvCache<T>& cache, const MatrixView<T>& out,
           void* workspace, Executor* executor = nullptr) const noexcept;

 private:
  KvCacheOptions cache_;
  AttentionPlan<T> plan_;
};

extern template class CachedAttentionPlan<float>;
extern template class CachedAttentionPlan<double>;

namespace detail {

/// Returns how many tokens of each sequence `rows` rows are. Throws ShapeError if they are more than
/// max_new_tokens, or no multiple of the sequences.
HEED_EXPORT Index new_tokens_of(Index rows, const char* name, const KvCacheOptions& cache,
                                Index max_new_tokens);

/// Throws ShapeError unless the cache is of the shape that was planned for.
HEED_EXPORT void require_planned(const KvCacheOptions& cache, const KvCacheOptions& planned);

}  // namespace detail

}  // namespace heed
