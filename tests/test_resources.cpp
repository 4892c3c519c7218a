// What a run may not do: allocate memory, take a lock, or need memory that grows with the lengths. Counted,
// by standing in for the functions that would be called.

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <optional>

#include "allocation_sweep.hpp"
#include "catch.hpp"
#include "gpt_cases.hpp"
#include "heed/attention_backward.hpp"
#include "heed/multi_head_attention.hpp"
#include "heed/multi_head_attention_backward.hpp"
#include "helpers.hpp"

namespace {

std::atomic<long> locks{0};

}  // namespace

// The sanitizers stand in for this one themselves.
#if !defined(HEED_SANITIZED)
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static const Lock next = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks;
  return next(mutex);
}
#endif

namespace {

using namespace heed;
using namespace heed::test;

struct Counted {
  long allocations;
  long locks;
};

template <class F>
Counted count(F&& f) {
  const long allocated = allocations;
  const long locked = locks;
  f();
  return {allocations - allocated, locks - locked};
}

}  // namespace

TEST_CASE("the counters count") {
  CHECK(count([] { std::vector<int>(100).swap(*std::make_unique<std::vector<int>>()); }).allocations == 2);
#if !defined(HEED_SANITIZED)
  CHECK(count([] {
          ThreadPool pool(2);
          pool.run(
              8, [](void*, Index) {}, nullptr);
        }).locks > 0);
#endif
}

TEMPLATE_TEST_CASE("a run of attention allocates nothing and takes no lock", "", float, double) {
  const AttentionShape s{2, 4, 2, 150, 150, 20, 12};
  const auto in = random_inputs<TestType>(s, 1);
  Matrix<TestType> out(300, 48);
  Matrix<TestType> weights(2 * 4 * 150, 150);
  Matrix<TestType> logsumexp(300, 4);
  Matrix<TestType> added = Matrix<TestType>::Zero(150, 150);
  for (const Mask& mask : {Mask(), causal(), causal() & bias(added)}) {
    const AttentionPlan<TestType> plan(s, mask);
    Workspace workspace(plan.workspace_bytes());
    AttentionTensors<TestType> tensors;
    tensors.query = view(in.query);
    tensors.key = view(in.key);
    tensors.value = view(in.value);
    tensors.out = mutable_view(out);
    const Counted plain = count([&] { plan.run(tensors, workspace.data()); });
    CHECK(plain.allocations == 0);
    CHECK(plain.locks == 0);
    tensors.weights = mutable_view(weights);
    tensors.logsumexp = mutable_view(logsumexp);
    const Counted full = count([&] { plan.run(tensors, workspace.data()); });
    CHECK(full.allocations == 0);
    CHECK(full.locks == 0);
  }
}

TEMPLATE_TEST_CASE("a backward run allocates nothing and takes no lock", "", float, double) {
  const AttentionShape s{2, 4, 2, 150, 150, 20, 12};
  const auto in = random_inputs<TestType>(s, 1);
  const Matrix<TestType> grad_out = random_matrix<TestType>(300, 48, 4);
  Matrix<TestType> added = Matrix<TestType>::Zero(150, 150);
  AttentionOptions options = options_for(s, causal() & bias(added));
  options.sinks = {0.5, 0, 1, -1};
  const auto forward = scaled_dot_product_attention_with_logsumexp(in.query, in.key, in.value, options);
  auto tensors =
      detail::backward_tensors(in.query, in.key, in.value, forward.out, forward.logsumexp, grad_out);
  Inputs<TestType> grads = in;
  Matrix<TestType> grad_bias = added;
  Matrix<TestType> grad_sinks(1, 4);
  const MatrixView<TestType> biases[] = {mutable_view(grad_bias)};
  tensors.grad_query = mutable_view(grads.query);
  tensors.grad_key = mutable_view(grads.key);
  tensors.grad_value = mutable_view(grads.value);
  tensors.grad_sinks = mutable_view(grad_sinks);
  tensors.grad_biases = biases;
  tensors.num_grad_biases = 1;
  const AttentionBackwardPlan<TestType> plan(s, options.mask, detail::score_options(options));
  Workspace workspace(plan.workspace_bytes());
  plan.check(tensors);
  const Counted run = count([&] { plan.run(tensors, workspace.data()); });
  CHECK(run.allocations == 0);
  CHECK(run.locks == 0);
}

TEMPLATE_TEST_CASE("a pass through a layer and back allocates nothing", "", float, double) {
  Random random(2);
  const MultiHeadAttention<TestType> layer({.d_model = 24, .num_heads = 3, .bias = true}, random);
  MultiHeadAttention<TestType> grads = zeros_like(layer);
  const Matrix<TestType> x = random_matrix<TestType>(80, 24, 3);
  MultiHeadAttentionPass<TestType> pass(layer, 80, {.mask = causal(), .batch_size = 2});
  const Counted run = count([&] {
    pass.forward(layer, x);
    pass.backward(layer, x, x, grads);
  });
  CHECK(run.allocations == 0);
  CHECK(run.locks == 0);
}

TEMPLATE_TEST_CASE("a run of a layer allocates nothing, takes no lock, and gives the layer's bits", "", float,
                   double) {
  Random random(2);
  const MultiHeadAttention<TestType> layer(24, 3, random);
  const Matrix<TestType> x = random_matrix<TestType>(2 * 40, 24, 3);
  LayerOptions options;
  options.mask = causal();
  options.batch_size = 2;
  const Matrix<TestType> expected = layer.forward(x, options);
  Matrix<TestType> out(80, 24);
  const MultiHeadAttentionPlan<TestType> plan({2, 40, 24, 24, 3, 8, 8}, causal());
  const std::size_t bytes = plan.workspace_bytes();
  Workspace workspace(bytes + Workspace::alignment);
  std::memset(workspace.data(), 0xFF,
              bytes + Workspace::alignment);  // NaN wherever it is read before it is written
  const LayerTensors<TestType> tensors{
      view(x), view(layer.w_q), view(layer.w_k), view(layer.w_v), view(layer.w_o), mutable_view(out), {}, {}};
  plan.check(tensors);
  const Counted run = count([&] { plan.run(tensors, workspace.data()); });
  CHECK(run.allocations == 0);
  CHECK(run.locks == 0);
  CHECK(same_bits(out, expected));
  const auto* guard = static_cast<const unsigned char*>(workspace.data()) + bytes;
  for (std::size_t i = 0; i < Workspace::alignment; ++i) REQUIRE(guard[i] == 0xFF);
  CHECK(contains(plan.to_string(), std::to_string(bytes) + " bytes"));

  auto wrong = tensors;
  wrong.w_k.cols = 23;
  CHECK(contains(message_of<ShapeError>([&] { plan.check(wrong); }), "w_k is 24 x 23"));
  wrong = tensors;
  wrong.out.data = const_cast<TestType*>(x.data());
  CHECK(
      contains(message_of<ArgumentError>([&] { plan.check(wrong); }), "out (80 x 24) overlaps x (80 x 24)"));
}

TEMPLATE_TEST_CASE("training allocates nothing once the trainer is made", "", float, double) {
  GptConfig config{.vocab_size = 300, .context = 40, .num_layers = 2, .num_heads = 2, .d_model = 24};
  for (const bool all_options : {false, true}) {
    config.gated = config.bias = all_options;
    config.tied = config.rms_norm = !all_options;
    config.dropout = all_options ? 0.2 : 0;
    config.positions = all_options ? PositionKind::learned : PositionKind::rotary;
    for (const Index batch_size : {1, 7}) {
      for (const Index threads : {1, 3}) {
        CAPTURE(all_options, batch_size, threads);
        std::optional<ThreadPool> pool;  // here, as the threads of another one take locks of their own
        if (threads > 1) pool.emplace(threads);
        Gpt<TestType> model = stirred_model<TestType>(config, 5, 0.1);
        GptTrainer<TestType> trainer(model, {.batch_size = batch_size, .seq_len = 33},
                                     pool ? &*pool : nullptr);
        const TokenWindows windows(drawn_ids(200, 300, 6), 33);
        Random random(7);
        TokenBatch batch;
        windows.draw(random, batch_size, batch);
        const Counted training = count([&] {
          for (int step = 0; step < 3; ++step) {
            windows.draw(random, batch_size, batch);
            trainer.step(batch.inputs, batch.targets, 0.01);
            trainer.loss(batch.inputs, batch.targets);
          }
        });
        CHECK(training.allocations == 0);
        if (!pool) CHECK(training.locks == 0);
      }
    }
  }
}
