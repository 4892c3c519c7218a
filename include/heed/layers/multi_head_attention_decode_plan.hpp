#pragma once

// Plan once, decode as long as wanted: a whole layer of multi-head attention on new tokens, whose keys and
// values go into a KvCache, without an allocation.

#include "heed/core/config.hpp"

#include <cstddef>

#include "heed/attention/cached_plan.hpp"
#include "heed/layers/multi_head_attention_plan.hpp"

namespace heed {

/// The sizes of a layer that decodes.
struct DecodeShape {
  KvCacheOptions
      cache;  ///< What all caches of its runs have: sequences, key/value heads and their sizes, capacity.
  Index num_heads = 1;       ///< A multiple of the cache's.
  Index d_in = 0;            ///< Columns of x.
  Index d_out = 0;           ///< Columns of out.
  Index max_new_tokens = 1;  ///< The most new tokens of each sequence in one run.
};

/// MultiHeadAttention::prefill() and step() for views, planned once: x times w_q, w_k and w_v, the new keys
/// and values into the cache, attention to all tokens so far, and its heads times w_o. T is float or double.
/// Results have the bits of prefill(), step() and one full pass.
template <class T>
class HEED_EXPORT MultiHeadAttentionDecodePlan {
 public:
  /// Plans runs of a layer against a cache. Mask, options, threads and errors are as for CachedAttentionPlan;
  /// also throws ShapeError if d_in or d_out is below 1.
  explicit MultiHeadAttentionDecodePlan(const DecodeShape& shape, const Mask& mask = causal(),
                                        const ScoreOptions& options = {}, Index threads = 1);

  const DecodeShape& shape() const noexcept { return shape_; }

  /// Returns the bytes of scratch memory of one run: query, key, value and heads of max_new_tokens, and the
  /// tiles of each thread.
  std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }

  /// Throws ShapeError unless x is (batch_size * n) x d_in for an n up to max_new_tokens, the weights and out
  /// fit, and the cache is of the planned shape and has room for n tokens more; ArgumentError if out or heads
  /// overlaps another view, or weights, key_input or value_input is given. Allocates nothing unless it
  /// throws.
  void check_tensors(const MultiHeadAttentionTensors<T>& tensors, const KvCache<T>& cache) const;

  /// Appends the n tokens of x to the cache, and writes a row of out for each. The arguments are as
  /// check_tensors() wants them; workspace has workspace_bytes() bytes, aligned to Workspace::alignment. Runs
  /// on the calling thread, or on the executor's. Allocates nothing and locks nothing itself.
  void run(const MultiHeadAttentionTensors<T>& tensors, KvCache<T>& cache, void* workspace,
           Executor* executor = nullptr) const noexcept;

 private:
  DecodeShape shape_;
  std::optional<Rotary> rotary_;
  Mask mask_;
  CachedAttentionPlan<T> attention_;
  std::size_t buffer_bytes_;  ///< Bytes of query, key, value and heads, each on a cache line of its own.
  std::size_t workspace_bytes_;
  Index threads_;
};

extern template class MultiHeadAttentionDecodePlan<float>;
extern template class MultiHeadAttentionDecodePlan<double>;

}  // namespace heed
