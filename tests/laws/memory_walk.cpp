// A small walk through all options of attention, its gradients, caches, layers and a little GPT, each result
// looked at number by number: run by a tool that knows which memory has been set, nothing that was not shows
// in a result or decides what is done. Prints how many numbers it has seen.

#include <iostream>

#include "heed/attention/backward.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/attention/flex_attention.hpp"
#include "heed/attention/observe_attention.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "heed/models/generate.hpp"
#include "heed/models/gpt_trainer.hpp"
#include "option_cases.hpp"

namespace {

using namespace heed;
using namespace heed::test;

Index numbers = 0;

/// Branches on every number.
template <class M>
void look_at(const M& matrix) {
  for (Index i = 0; i < matrix.rows(); ++i) {
    for (Index j = 0; j < matrix.cols(); ++j) numbers += matrix(i, j) == matrix(i, j) ? 1 : 2;
  }
}

template <class T>
void walk(const Problem& p) {
  const Poured<T> in(p);
  const AttentionResult<T> result = in.run();
  look_at(result.out);
  look_at(result.weights.stacked);
  look_at(result.logsumexp);
  look_at(in.run_alone());
  TopWeights<T> top(3);
  ColumnSums<T> sums;
  look_at(observe_attention(in.query, in.key, in.value, in.options, {&top, &sums}));
  look_at(top.weights);
  look_at(top.keys);
  look_at(sums.sums);
  const auto grads = scaled_dot_product_attention_backward(
      in.query, in.key, in.value, result, Matrix<T>(Matrix<T>::Ones(result.out.rows(), result.out.cols())),
      in.options);
  look_at(grads.query);
  look_at(grads.key);
  look_at(grads.value);
  look_at(grads.sinks);
  for (const Matrix<T>& grad : grads.biases) look_at(grad);
  AttentionOptions stand = in.options;
  if (!stand.mask.has_position()) stand.mask = stand.mask & bottom_right();
  look_at(flex_attention(
      in.query, in.key, in.value,
      [](T score, Index, Index, Index i, Index j) { return i == j ? -kInf<T> : score; },
      visible_where([](Index, Index, Index, Index j) { return j % 3 != 1; }), stand));

  KvCache<T> cache({p.shape.batch_size, p.shape.num_kv_heads, p.shape.head_dim, p.shape.value_dim,
                    p.shape.kv_len,
                    sizeof(T) == 4 && p.seed % 2 == 1 ? KvStorage::bfloat16 : KvStorage::same});
  for (Index b = 0; b < p.shape.batch_size; ++b) {
    const Index first = p.shape.kv_start(b);
    const Index count = p.shape.kv_len_of(b);
    cache.append_to(b, in.key.middleRows(first, count), in.value.middleRows(first, count), p.rotary);
  }
  AttentionOptions cached = stand;
  cached.kv_starts.clear();
  look_at(scaled_dot_product_attention(in.query, cache, cached));
}

template <class T>
void walk_layers() {
  Random random(1);
  const MultiHeadAttention<T> layer({.d_model = 21, .num_heads = 3, .bias = true}, random);
  const Matrix<T> x = random_matrix<T>(13, 21, 2);
  look_at(layer.forward(x, causal()));
  auto cache = layer.make_cache(13);
  look_at(layer.prefill(x.topRows(9), cache, {.mask = causal()}));
  for (Index i = 9; i < 13; ++i) look_at(layer.step(x.row(i), cache, {.mask = causal()}));

  GptConfig config{.vocab_size = 29, .context = 11, .num_layers = 2, .num_heads = 3, .d_model = 21};
  config.gated = true;
  config.dropout = 0.2;
  Gpt<T> model(config, random);
  std::vector<TokenId> tokens(200);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * i % 29);
  GptTrainer<T> trainer(model, {.batch_size = 3, .seq_len = 11});
  const TokenWindows windows(tokens, 11);
  TokenBatch batch;
  for (int step = 0; step < 2; ++step) {
    windows.draw(random, 3, batch);
    trainer.step(batch.inputs, batch.targets, 0.01);
  }
  look_at(model.forward(std::span<const TokenId>(tokens).first(11)));
  for (const TokenId token :
       generate(model, std::span<const TokenId>(tokens).first(4), {.max_new_tokens = 12}, random))
    numbers += token >= 0 ? 1 : 0;
}

}  // namespace

int main() {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Problem p = Draw(seed).problem(30'000);
    walk<float>(p);
    walk<double>(p);
  }
  walk_layers<float>();
  walk_layers<double>();
  std::cout << numbers << " numbers, all of them set\n";
}
