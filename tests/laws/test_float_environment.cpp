// A run has the same bits on any threads under any floating-point environment of its caller: rounding mode,
// and subnormal numbers flushed to zero. Threads get their own environment back.

#include <atomic>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "gpt_cases.hpp"
#include "heed/attention/backward.hpp"
#include "heed/core/float_environment.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/multi_head_attention_tape.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Each task has a thread of its own, none is the caller's, and all have the environment of a fresh process.
class FreshThreads final : public Executor {
 public:
  FreshThreads() : Executor(4) {}
  void run(Index count, void (*task)(void*, Index), void* context) override {
    std::vector<std::thread> threads;
    for (Index i = 0; i < count; ++i) {
      threads.emplace_back([=, this] {
        std::fesetenv(FE_DFL_ENV);
        const detail::FloatSwitches before = detail::float_switches();
        task(context, i);
        if (detail::float_switches() != before) changed = true;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::atomic<bool> changed{false};
};

enum class Environment { nearest, upward, downward, toward_zero, flush_to_zero };

void enter(Environment environment) {
  switch (environment) {
    case Environment::nearest:
      return;
    case Environment::upward:
      std::fesetround(FE_UPWARD);
      return;
    case Environment::downward:
      std::fesetround(FE_DOWNWARD);
      return;
    case Environment::toward_zero:
      std::fesetround(FE_TOWARDZERO);
      return;
    case Environment::flush_to_zero:
#if defined(__SSE__)
      detail::set_float_register(detail::float_register() | 0x8040);  // FTZ and DAZ
#elif defined(__aarch64__)
      detail::set_float_register(detail::float_register() | (1U << 24));  // FZ
#endif
      return;
  }
}

/// Everything that shares work among threads, on inputs large enough for it. Numbers are small: some results
/// and what they are made of are subnormal.
template <class T>
std::vector<T> results(Executor* executor) {
  std::vector<T> all;
  const auto keep = [&](const auto& matrix) {
    const Matrix<T> m = matrix;
    all.insert(all.end(), m.data(), m.data() + m.size());
  };
  const T tiny = std::numeric_limits<T>::min() * T(3);
  const AttentionShape shape{1, 2, 2, 70, 70, 16, 16};
  auto in = random_inputs<T>(shape, 1);
  in.value *= tiny;
  const Matrix<T> added = random_matrix<T>(70, 70, 4);
  AttentionOptions options = options_for(shape, causal() & bias(added));
  options.sinks = {0.5, -0.5};
  options.executor = executor;
  const auto attended = scaled_dot_product_attention_with_logsumexp(in.query, in.key, in.value, options);
  keep(attended.out);
  keep(attended.logsumexp);
  const Matrix<T> grad_out = random_matrix<T>(70, 32, 5);
  const auto grads =
      scaled_dot_product_attention_backward(in.query, in.key, in.value, attended, grad_out, options);
  keep(grads.query);
  keep(grads.key);
  keep(grads.value);

  const Matrix<T> x = random_matrix<T>(300, 128, 6);
  const Matrix<T> small = x * std::sqrt(tiny);
  keep(matrix_product(small, Matrix<T>(small.transpose()), executor));
  Random random(7);
  const MultiHeadAttention<T> layer(128, 4, random);
  LayerOptions layer_options;
  layer_options.mask = causal();
  layer_options.executor = executor;
  keep(layer.forward(x, layer_options));
  MultiHeadAttention<T> layer_grads = zeros_like(layer);
  MultiHeadAttentionTape<T> tape(layer, 300, layer_options);
  tape.forward(layer, x);
  keep(tape.backward(layer, x, small, layer_grads));
  keep(layer_grads.w_q);
  keep(layer_norm<T>(128).forward(x, executor));
  keep(activate(Activation::gelu, small, executor));
  keep(dropout(small, {.rate = 0.5}, executor));
  std::vector<TokenId> targets(300, 3);
  keep(cross_entropy_with_gradient(x, std::span<const TokenId>(targets), executor).grad_logits);

  GptConfig config{.vocab_size = 30, .context = 12, .num_layers = 1, .num_heads = 2, .d_model = 16};
  for (const Index batch_size : {1, 5}) {  // work within one sequence is shared, or whole sequences are
    Gpt<T> model = stirred_model<T>(config, 8, 0.2);
    GptTrainer<T> trainer(model, {.batch_size = batch_size, .seq_len = 12}, executor);
    const TokenBatch batch = drawn_batch(12 * batch_size, 30, 9);
    for (int step = 0; step < 2; ++step) trainer.step(batch.inputs, batch.targets, 0.01);
    const std::vector<T> weights = numbers_of(model);
    all.insert(all.end(), weights.begin(), weights.end());
  }
  return all;
}

template <class T>
std::vector<T> results_under(Environment environment, Executor* executor) {
  std::fenv_t own;
  std::fegetenv(&own);
  enter(environment);
  std::vector<T> all = results<T>(executor);
  std::fesetenv(&own);
  return all;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return same_bits(std::span<const T>(a), std::span<const T>(b));
}

}  // namespace

TEMPLATE_TEST_CASE("any threads give the same bits under any rounding mode, and with subnormals flushed",
                   "[float_environment][threads][bits]", float, double) {
  ThreadPool pool(4);
  FreshThreads fresh;
  const std::vector<TestType> plain = results_under<TestType>(Environment::nearest, nullptr);
  for (const Environment environment : {Environment::nearest, Environment::upward, Environment::downward,
                                        Environment::toward_zero, Environment::flush_to_zero}) {
    CAPTURE(static_cast<int>(environment));
    const std::vector<TestType> alone = results_under<TestType>(environment, nullptr);
    CHECK(same(alone, plain) == (environment == Environment::nearest));
    CHECK(same(alone, results_under<TestType>(environment, &pool)));
    CHECK(same(alone, results_under<TestType>(environment, &fresh)));
  }
  CHECK_FALSE(fresh.changed);
}
