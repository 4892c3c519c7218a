// The names and sizes of a model's matrices.

#include "models/gpt_weights.hpp"

namespace heed::detail {
namespace {

void add_norm(std::vector<WeightShape>& weights, const std::string& name, const GptConfig& config) {
  weights.push_back({name + ".weight", 1, config.d_model});
  if (config.bias && !config.rms_norm) weights.push_back({name + ".bias", 1, config.d_model});
}

}  // namespace

std::vector<WeightShape> block_weights(const GptConfig& config) {
  const Index d = config.d_model;
  const Index kv = d / config.num_heads * config.kv_heads();
  const Index ff = config.ff_size();
  std::vector<WeightShape> weights;
  const auto add = [&](const char* name, const char* bias, Index rows, Index cols) {
    weights.push_back({name, rows, cols});
    if (config.bias) weights.push_back({bias, 1, cols});
  };
  add_norm(weights, "norm1", config);
  add("attention.w_q", "attention.b_q", d, d);
  add("attention.w_k", "attention.b_k", d, kv);
  add("attention.w_v", "attention.b_v", d, kv);
  add("attention.w_o", "attention.b_o", d, d);
  add_norm(weights, "norm2", config);
  add("feed_forward.up.w", "feed_forward.up.b", d, ff);
  if (config.gated) add("feed_forward.gate.w", "feed_forward.gate.b", d, ff);
  add("feed_forward.down.w", "feed_forward.down.b", ff, d);
  return weights;
}

std::vector<WeightShape> other_weights(const GptConfig& config) {
  const Index d = config.d_model;
  std::vector<WeightShape> weights = {{"tokens.table", config.vocab_size, d}};
  if (config.positions == PositionKind::learned) weights.push_back({"positions", config.context, d});
  add_norm(weights, "final_norm", config);
  if (!config.tied) weights.push_back({"output", d, config.vocab_size});
  return weights;
}

}  // namespace heed::detail
