// How many bytes a model, its training and its decoder take, counted before any is taken.

#include "heed/models/gpt_memory.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/require.hpp"
#include "heed/attention/backward_plan.hpp"
#include "heed/attention/kv_cache.hpp"
#include "heed/attention/plan.hpp"
#include "heed/core/token.hpp"
#include "heed/layers/multi_head_attention_decode_plan.hpp"
#include "heed/layers/product.hpp"
#include "models/gpt_weights.hpp"

namespace heed {
namespace {

using detail::matrix_bytes;
using detail::plus_bytes;
using detail::times_bytes;

// The objects of a block around its matrices, with their names in a trainer: a round upper bound.
constexpr std::uint64_t kBlockObjects = 4096;

std::uint64_t weight_bytes(const GptConfig& config, std::size_t scalar_size) {
  const auto sum = [&](const std::vector<detail::WeightShape>& weights) {
    std::uint64_t bytes = 0;
    for (const detail::WeightShape& weight : weights)
      bytes = plus_bytes(bytes, matrix_bytes(scalar_size, weight.rows, weight.cols));
    return bytes;
  };
  return plus_bytes(
      sum(detail::other_weights(config)),
      times_bytes(static_cast<std::uint64_t>(config.num_layers), sum(detail::block_weights(config))));
}

std::uint64_t block_objects(const GptConfig& config) {
  return times_bytes(static_cast<std::uint64_t>(config.num_layers), kBlockObjects);
}

std::uint64_t sinusoid_bytes(const GptConfig& config, std::size_t scalar_size) {
  if (config.positions != PositionKind::sinusoidal) return 0;
  return matrix_bytes(scalar_size, config.context, config.d_model);
}

/// What a batch leaves behind in the blocks: GptTrainer's records.
std::uint64_t record_bytes(const GptConfig& config, std::size_t scalar_size, Index rows) {
  const Index kv = config.d_model / config.num_heads * config.kv_heads();
  const auto matrices = [&](std::uint64_t count, Index cols) {
    return times_bytes(count, matrix_bytes(scalar_size, rows, cols));
  };
  std::uint64_t block = matrices(config.dropout > 0 ? 13 : 11, config.d_model);
  block = plus_bytes(block, matrices(4, kv));
  block = plus_bytes(block, matrices(config.gated ? 5 : 3, config.ff_size()));
  block = plus_bytes(block, matrices(1, config.num_heads));
  std::uint64_t bytes = times_bytes(static_cast<std::uint64_t>(config.num_layers), block);
  bytes = plus_bytes(bytes, matrices(4, config.d_model));
  bytes = plus_bytes(bytes, matrices(1, config.vocab_size));
  return plus_bytes(bytes, matrix_bytes(2 * sizeof(TokenId) + sizeof(double), rows, 1));
}

/// Scratch memory of one thread. The sizes are known to fit into memory.
template <class Scalar>
std::uint64_t scratch_bytes(const GptConfig& config, Index rows, Index seq_len, Index threads) {
  AttentionShape shape;
  shape.num_heads = config.num_heads;
  shape.num_kv_heads = config.kv_heads();
  shape.query_len = shape.kv_len = seq_len;
  shape.head_dim = shape.value_dim = config.d_model / config.num_heads;
  std::size_t most = std::max(AttentionPlan<Scalar>(shape, causal(), {}, threads).workspace_bytes(),
                              AttentionBackwardPlan<Scalar>(shape, causal(), {}, threads).workspace_bytes());
  std::vector<detail::WeightShape> weights = detail::block_weights(config);
  for (const detail::WeightShape& other : detail::other_weights(config)) weights.push_back(other);
  for (const detail::WeightShape& weight : weights) {
    for (const std::size_t bytes : {product_workspace_bytes<Scalar>(rows, weight.rows, weight.cols, threads),
                                    product_workspace_bytes<Scalar>(rows, weight.cols, weight.rows, threads),
                                    product_workspace_bytes<Scalar>(weight.rows, rows, weight.cols, 1)}) {
      most = std::max(most, bytes);
    }
  }
  return most;
}

}  // namespace

std::uint64_t detail::gpt_bytes(const GptConfig& config, std::size_t scalar_size) {
  check_config(config);
  std::uint64_t bytes = plus_bytes(weight_bytes(config, scalar_size), block_objects(config));
  bytes = plus_bytes(bytes, sinusoid_bytes(config, scalar_size));
  if (config.positions == PositionKind::rotary)
    bytes = plus_bytes(bytes, matrix_bytes(scalar_size, config.context, config.d_model / config.num_heads));
  return bytes;
}

template <class Scalar>
std::uint64_t detail::gpt_trainer_bytes(const GptConfig& config, Index batch_size, Index seq_len,
                                        Index threads) {
  check_config(config);
  require_positive(batch_size, "batch_size");
  require_positive(seq_len, "seq_len");
  require_positive(threads, "threads");
  const std::uint64_t weights = weight_bytes(config, sizeof(Scalar));
  std::uint64_t bytes = plus_bytes(times_bytes(weights, 3), times_bytes(block_objects(config), 2));
  bytes = plus_bytes(bytes, sinusoid_bytes(config, sizeof(Scalar)));
  Index rows = 0;
  if (__builtin_mul_overflow(batch_size, seq_len, &rows)) return kUncountableBytes;
  bytes = plus_bytes(bytes, record_bytes(config, sizeof(Scalar), rows));
  if (bytes > physical_memory()) return bytes;  // scratch memory is only a part, and no machine has that much
  return plus_bytes(bytes, times_bytes(static_cast<std::uint64_t>(threads),
                                       scratch_bytes<Scalar>(config, rows, seq_len, threads)));
}

template <class Scalar>
std::uint64_t detail::gpt_decoder_bytes(const GptConfig& config, Index threads) {
  check_config(config);
  require_positive(threads, "threads");
  const Index d = config.d_model;
  const Index head_dim = d / config.num_heads;
  const KvCacheOptions cache{.num_kv_heads = config.kv_heads(),
                             .head_dim = head_dim,
                             .value_dim = head_dim,
                             .capacity = config.context};
  const Index rows = std::min(kDecoderRows, config.context);
  const auto matrices = [](std::uint64_t count, Index height, Index cols) {
    return times_bytes(count, matrix_bytes(sizeof(Scalar), height, cols));
  };
  std::uint64_t bytes =
      times_bytes(static_cast<std::uint64_t>(config.num_layers), KvCache<Scalar>::bytes_of(cache));
  bytes = plus_bytes(bytes, matrices(3, rows, d));
  bytes = plus_bytes(bytes, matrices(config.gated ? 2 : 1, rows, config.ff_size()));
  bytes = plus_bytes(bytes, matrices(1, 1, config.vocab_size));
  bytes = plus_bytes(bytes, matrix_bytes(sizeof(TokenId), 1, config.context));
  if (bytes > physical_memory()) return bytes;
  const MultiHeadAttentionDecodePlan<Scalar> plan(
      {.cache = cache, .num_heads = config.num_heads, .d_in = d, .d_out = d, .max_new_tokens = rows},
      causal(), {}, threads);
  const auto product = [&](Index height, Index depth, Index cols) {
    return static_cast<std::size_t>(threads) * product_workspace_bytes<Scalar>(height, depth, cols);
  };
  return plus_bytes(bytes, std::max({plan.workspace_bytes(), product(rows, d, config.ff_size()),
                                     product(rows, config.ff_size(), d), product(1, d, config.vocab_size)}));
}

template std::uint64_t detail::gpt_trainer_bytes<float>(const GptConfig&, Index, Index, Index);
template std::uint64_t detail::gpt_trainer_bytes<double>(const GptConfig&, Index, Index, Index);
template std::uint64_t detail::gpt_decoder_bytes<float>(const GptConfig&, Index);
template std::uint64_t detail::gpt_decoder_bytes<double>(const GptConfig&, Index);

void detail::require_gpt_memory(std::uint64_t bytes, const char* what, const GptConfig& config) {
  require_memory(bytes, [&] {
    return std::string(what) + " of " + count_of(config.num_layers, "layer") + ", d_model " +
           std::to_string(config.d_model) + ", d_ff " + std::to_string(config.ff_size()) + ", vocab_size " +
           std::to_string(config.vocab_size) + " and context " + std::to_string(config.context);
  });
}

}  // namespace heed
