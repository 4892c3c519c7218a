// Attention against a cache that grows: one plan for every length.

#include "heed/attention/cached_plan.hpp"

#include <algorithm>
#include <string>

#include "attention/blocks.hpp"
#include "core/require.hpp"
#include "kernels/kernels.hpp"

namespace heed {

using detail::count_of;

namespace {

/// The longest that a run can be.
AttentionShape longest_shape(const KvCacheOptions& cache, Index num_heads, Index max_new_tokens) {
  detail::require_positive(max_new_tokens, "max_new_tokens");
  if (max_new_tokens > cache.capacity) {
    throw_shape_error("max_new_tokens is " + std::to_string(max_new_tokens) +
                      ", the cache has a capacity of " + count_of(cache.capacity, "token"));
  }
  AttentionShape shape;
  shape.batch_size = cache.batch_size;
  shape.num_heads = num_heads;
  shape.num_kv_heads = cache.num_kv_heads;
  shape.query_len = max_new_tokens;
  shape.kv_len = cache.capacity;
  shape.head_dim = cache.head_dim;
  shape.value_dim = cache.value_dim;
  return shape;
}

/// The mask with the queries at the last tokens.
Mask for_any_length(const Mask& mask, const KvCacheOptions& cache, Index max_new_tokens) {
  if (!mask.matrices().empty()) {
    throw_argument_error(
        std::string("the mask has a ") + name_of(mask.matrices().front().kind) +
        ", whose columns are keys: a cache that grows has another number of them in each run");
  }
  Mask placed = mask & bottom_right();
  if (!cache.ring) return placed;
  const Index left = mask.window().left;
  if (left == kUnlimited || left > cache.capacity - max_new_tokens) {
    throw_shape_error("the ring keeps the last " + count_of(cache.capacity, "token") + ", mask " +
                      mask.to_string() + " lets the first of " + count_of(max_new_tokens, "new token") +
                      " see older ones: window left + number of queries must not be above the capacity");
  }
  return placed;
}

}  // namespace

Index detail::new_tokens_of(Index rows, const char* name, const KvCacheOptions& cache, Index max_new_tokens) {
  const Index tokens = per_sequence(rows, cache.batch_size, name);
  if (tokens > max_new_tokens) {
    throw_shape_error(std::string(name) + " has " + count_of(rows, "row") + ", " + std::to_string(tokens) +
                      " for each sequence: the plan is for up to " + std::to_string(max_new_tokens));
  }
  return tokens;
}

void detail::require_planned(const KvCacheOptions& cache, const KvCacheOptions& planned) {
  if (cache == planned) return;
  const auto text = [](const KvCacheOptions& shape) {
    return count_of(shape.batch_size, "sequence") + ", " + count_of(shape.num_kv_heads, "key/value head") +
           " of " + std::to_string(shape.head_dim) + " and " + std::to_string(shape.value_dim) +
           ", capacity " + std::to_string(shape.capacity) + (shape.ring ? ", a ring" : "") +
           (shape.storage == KvStorage::same ? "" : ", in 16 bits");
  };
  throw_shape_error("the cache (" + text(cache) + ") is not the one that was planned for (" + text(planned) +
                    ")");
}

template <class T>
CachedAttentionPlan<T>::CachedAttentionPlan(const KvCacheOptions& cache, Index num_heads,
                                            Index max_new_tokens, const Mask& mask,
                                            const ScoreOptions& options, Index threads)
    : cache_(cache),
      plan_(longest_shape(cache, num_heads, max_new_tokens), for_any_length(mask, cache, max_new_tokens),
            options, threads) {
  for (Index b = 0; b < cache.batch_size; ++b) {
    if (mask.kv_length(b, kUnlimited) != kUnlimited)
      throw_argument_error("the mask has kv_lengths, but the lengths of the keys are the cache's");
  }
  // Fewer queries may be cut into higher blocks, and heads that share keys come together only where queries
  // are few.
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  const Index sharing = num_heads / cache.num_kv_heads;
  kernels::AttentionExtent extent{};
  extent.num_rows = std::min(kernels.query_block, sharing * max_new_tokens);
  extent.kv_len = kUnlimited;
  extent.head_dim = cache.head_dim;
  extent.value_dim = cache.value_dim;
  extent.gathered = options.rotary.has_value() || (sharing > 1 && max_new_tokens > 1);
  plan_.threads_ = std::min(threads, detail::kMaxThreads);
  plan_.thread_bytes_ =
      detail::statistics_bytes(kernels) + detail::round_to_line(kernels.attention_bytes(extent).total());
}

template <class T>
void CachedAttentionPlan<T>::check_tensors(const MatrixView<const T>& query, const KvCache<T>& cache,
                                           const MatrixView<T>& out) const {
  detail::require_planned(cache.shape(), cache_);
  AttentionShape shape;
  shape.batch_size = cache_.batch_size;
  shape.num_heads = num_heads();
  shape.num_kv_heads = cache_.num_kv_heads;
  shape.query_len = detail::new_tokens_of(query.rows, "query", cache_, max_new_tokens());
  shape.head_dim = cache_.head_dim;
  shape.value_dim = cache_.value_dim;
  detail::UntypedAttentionTensors tensors{untyped(query), {}, {}, untyped(out), {}, {}, true};
  detail::check_tensors(shape, plan_.mask(), tensors);
  const std::optional<Rotary>& rotary = plan_.numbers_.rotary;
  for (const Index length : cache.lengths()) {
    if (length < shape.query_len) {
      throw_shape_error("query has " + count_of(shape.query_len, "token") +
                        " of each sequence, a sequence of the cache has " + std::to_string(length) +
                        ": append their keys and values first");
    }
    if (!rotary || length <= rotary->max_positions()) continue;
    throw_shape_error("rotary has angles for the positions 0 to " +
                      std::to_string(rotary->max_positions() - 1) + ", a sequence of the cache has " +
                      count_of(length, "token"));
  }
}

template <class T>
void CachedAttentionPlan<T>::run(const MatrixView<const T>& query, const KvCache<T>& cache,
                                 const MatrixView<T>& out, void* workspace,
                                 Executor* executor) const noexcept {
  detail::CacheView tiles = cache.cache_view();
  tiles.lengths = cache.lengths().data();
  AttentionTensors<T> tensors;
  tensors.query = query;
  tensors.out = out;
  tensors.cache = &tiles;
  plan_.run(tensors, workspace, executor);
}

template class CachedAttentionPlan<float>;
template class CachedAttentionPlan<double>;

}  // namespace heed
