// What a run may not do: allocate memory, take a lock, or need memory that grows with the lengths. Counted,
// by standing in for the functions that would be called.

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <optional>

#include "allocation_sweep.hpp"
#include "catch.hpp"
#include "gpt_cases.hpp"
#include "heed/attention/backward.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "heed/layers/multi_head_attention_tape.hpp"
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

/// Whether f, which takes no lock unless others work on it too, allocates nothing, and does the same work
/// where no memory is to be had: outcome() has the same bits after both.
template <class F, class Outcome>
void check_needs_no_memory(const F& f, const Outcome& outcome, bool alone) {
  const Counted first = count(f);
  REQUIRE(first.allocations == 0);
  if (alone) REQUIRE(first.locks == 0);
  const auto expected = outcome();
  CHECK_FALSE(with_failing_allocation("run", 1, true, f));
  REQUIRE(same_bits(expected, outcome()));
}

/// Made late, as the threads of another pool take locks of their own.
std::optional<ThreadPool> pool_of(Index threads) {
  return threads > 1 ? std::optional<ThreadPool>(std::in_place, threads) : std::nullopt;
}

/// Matrices of a batch that may be ragged.
template <class T>
Inputs<T> inputs_of(const AttentionShape& s, std::uint64_t seed) {
  return {random_matrix<T>(s.query_rows(), s.num_heads * s.head_dim, seed),
          random_matrix<T>(s.kv_rows(), s.num_kv_heads * s.head_dim, seed + 1),
          random_matrix<T>(s.kv_rows(), s.num_kv_heads * s.value_dim, seed + 2)};
}

/// Equal lengths, a ragged batch, and cross-attention, equal and ragged.
std::vector<AttentionShape> shapes() {
  return {{2, 4, 2, 150, 150, 20, 12},
          {3, 4, 2, 150, 150, 20, 12, {0, 150, 150, 221}, {0, 150, 150, 221}},
          {2, 4, 2, 9, 150, 20, 12},
          {2, 4, 2, 9, 150, 20, 12, {0, 7, 16}, {0, 7, 157}}};
}

/// No option but where queries stand, and all of them at once.
template <class T>
struct Options {
  Matrix<T> added;
  Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> kept;
  Mask mask;
  ScoreOptions score;

  Options(const AttentionShape& s, bool all)
      : added(Matrix<T>::Constant(s.query_len, s.kv_len, T(0.5))),
        kept(decltype(kept)::Constant(s.query_len, s.kv_len, true)) {
    // Functions of scores ask where queries stand.
    if (!all && s.query_len != s.kv_len) mask = bottom_right();
    if (!all) return;
    mask = causal() & window(100, 0) & bottom_right() & bias(added) & keep_where(kept) &
           alibi(alibi_slopes(s.num_heads));
    score.softcap = 3;
    score.sinks.assign(static_cast<std::size_t>(s.num_heads), 0.25);
    score.rotary.emplace(8, 400);
  }
  Options(const Options&) = delete;  // the mask points into this object
  Options& operator=(const Options&) = delete;
};

}  // namespace

TEST_CASE("the counters count", "[resources]") {
#if defined(HEED_COUNTS_MALLOC)
  CHECK(count([] {
          void* volatile memory = std::malloc(1);  // volatile: else no call is left
          std::free(memory);
        }).allocations == 1);
#endif
  CHECK(count([] { std::vector<int>(100).swap(*std::make_unique<std::vector<int>>()); }).allocations == 2);
#if !defined(HEED_SANITIZED)
  CHECK(count([] {
          ThreadPool pool(2);
          pool.run(
              8, [](void*, Index) {}, nullptr);
        }).locks > 0);
#endif
}

TEMPLATE_TEST_CASE("a run of attention needs no memory, whatever the batch, the options and who looks on",
                   "[resources][cache][ragged][memory]", float, double) {
  using T = TestType;
  const auto score = [](T x, Index, Index, Index i, Index j) { return x + T(0.01) * T(i - j); };
  const auto visible = visible_where([](Index, Index, Index, Index j) { return j % 5 != 3; });
  const detail::FunctorFunctions<T, decltype(score), decltype(visible)> functors(score, visible);
  for (const AttentionShape& s : shapes()) {
    const auto in = inputs_of<T>(s, 1);
    Matrix<T> out(s.query_rows(), s.num_heads * s.value_dim);
    Matrix<T> weights(s.query_rows() * s.num_heads, s.kv_len);
    Matrix<T> logsumexp(s.query_rows(), s.num_heads);
    TopWeights<T> top(2);
    ColumnSums<T> sums;
    SelectedWeights<T> selected({0, 3}, {1});
    std::atomic<Index> tiles = 0;
    auto callback = weights_callback<T>([&](const WeightsTile<T>&) { ++tiles; });
    WeightsObserver<T>* const observers[] = {&top, &sums, &selected, &callback};
    KvCache<T> cache({s.batch_size, s.num_kv_heads, s.head_dim, s.value_dim, s.kv_len});
    for (Index b = 0; b < s.batch_size; ++b) {
      const Index keys = s.kv_len_of(b);
      cache.append_to(b, in.key.middleRows(s.kv_start(b), keys), in.value.middleRows(s.kv_start(b), keys));
    }
    for (const bool all_options : {false, true}) {
      const Options<T> options(s, all_options);
      for (const bool with_functors : {false, true}) {
        for (const bool cached : {false, true}) {
          AttentionShape shape = s;
          AttentionOptions at_the_end;
          if (cached) {
            at_the_end = options_for(s, options.mask);
            at_the_end.batch_size = 1;
            at_the_end.query_starts = s.query_starts;
            shape = detail::cached_shape<T>(view(in.query), cache, 0, at_the_end);
          }
          for (const Index threads : {1, 3}) {
            std::optional<ThreadPool> pool = pool_of(threads);
            Executor* const executor = pool ? &*pool : nullptr;
            const AttentionPlan<T> plan(shape, cached ? at_the_end.mask : options.mask, options.score,
                                        threads, with_functors ? functors.functions() : ScoreFunctions<T>{});
            const Workspace workspace(plan.workspace_bytes());
            AttentionTensors<T> tensors;
            tensors.query = view(in.query);
            if (!cached) tensors.key = view(in.key);
            if (!cached) tensors.value = view(in.value);
            tensors.out = mutable_view(out);
            const detail::CacheView tiles_of_cache = cache.cache_view();
            if (cached) tensors.cache = &tiles_of_cache;
            CAPTURE(plan.to_string(), with_functors, cached);
            for (const bool looked_at : {false, true}) {
              if (looked_at) {
                tensors.weights = mutable_view(weights);
                tensors.logsumexp = mutable_view(logsumexp);
                tensors.observers = observers;
                tensors.num_observers = std::ssize(observers);
                for (WeightsObserver<T>* observer : observers) observer->prepare(shape);
              }
              plan.check_tensors(tensors);
              check_needs_no_memory([&] { plan.run(tensors, workspace.data(), executor); },
                                    [&] { return out; }, executor == nullptr);
            }
          }
        }
      }
    }
    CHECK(tiles > 0);
  }
}

TEMPLATE_TEST_CASE("a backward run needs no memory, whatever the batch and the options",
                   "[resources][rotary][ragged][gradient][memory]", float, double) {
  using T = TestType;
  for (const AttentionShape& s : shapes()) {
    const auto in = inputs_of<T>(s, 1);
    const Matrix<T> grad_out = random_matrix<T>(s.query_rows(), s.num_heads * s.value_dim, 4);
    for (const bool all_options : {false, true}) {
      const Options<T> own(s, all_options);
      AttentionOptions options = options_for(s, own.mask);
      options.batch_size = 1;
      if (s.query_starts.empty()) options.batch_size = s.batch_size;
      options.query_starts = s.query_starts;
      options.kv_starts = s.kv_starts;
      options.softcap = own.score.softcap;
      options.sinks = own.score.sinks;
      options.rotary = own.score.rotary;
      const auto forward = scaled_dot_product_attention_with_logsumexp(in.query, in.key, in.value, options);
      auto tensors =
          detail::backward_tensors(in.query, in.key, in.value, forward.out, forward.logsumexp, grad_out);
      detail::GradientRoom<T> room(options, tensors);
      for (const Index threads : {1, 3}) {
        std::optional<ThreadPool> pool = pool_of(threads);
        Executor* const executor = pool ? &*pool : nullptr;
        // Seven for less groups of heads, which are then cut.
        for (const Index tasks : {threads, threads == 1 ? 1 : Index{7}}) {
          const AttentionBackwardPlan<T> plan(s, own.mask, own.score, tasks);
          const Workspace workspace(plan.workspace_bytes());
          plan.check_tensors(tensors);
          CAPTURE(all_options, tasks, s.query_len, s.kv_len);
          check_needs_no_memory([&] { plan.run(tensors, workspace.data(), executor); },
                                [&] { return room.grads.key; }, executor == nullptr);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("a tape of a layer forward and back needs no memory, whatever the batch and the options",
                   "[resources][ragged][memory]", float, double) {
  using T = TestType;
  Random random(2);
  const MultiHeadAttention<T> layer(
      {.d_model = 24, .num_heads = 4, .num_kv_heads = 2, .head_dim = 20, .value_dim = 12, .bias = true},
      random);
  MultiHeadAttention<T> grads = zeros_like(layer);
  for (const AttentionShape& s : shapes()) {
    const bool cross = s.query_len != s.kv_len;
    const Matrix<T> x = random_matrix<T>(s.query_rows(), 24, 3);
    const Matrix<T> context = random_matrix<T>(s.kv_rows(), 24, 4);
    for (const bool all_options : {false, true}) {
      const Options<T> own(s, all_options);
      for (const Index threads : {1, 3}) {
        std::optional<ThreadPool> pool = pool_of(threads);
        Executor* const executor = pool ? &*pool : nullptr;
        LayerOptions options;
        options.mask = own.mask;
        options.score = own.score;
        options.executor = executor;
        options.batch_size = s.batch_size;
        options.query_starts = s.query_starts;
        if (cross) options.kv_starts = s.kv_starts;
        const std::optional<Index> kv_rows = cross ? std::optional(s.kv_rows()) : std::nullopt;
        MultiHeadAttentionTape<T> tape(layer, s.query_rows(), options, kv_rows);
        CAPTURE(all_options, cross, s.query_len, s.query_starts.size());
        check_needs_no_memory(
            [&] {
              if (cross) {
                tape.forward(layer, x, context, context);
                tape.backward(layer, x, context, context, x, grads);
              } else {
                tape.forward(layer, x);
                tape.backward(layer, x, x, grads);
              }
            },
            [&] { return tape.grad_x(); }, executor == nullptr);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a run of a layer's plan needs no memory, whatever the batch and the options",
                   "[resources][ragged][plan][memory]", float, double) {
  using T = TestType;
  Random random(2);
  const MultiHeadAttention<T> layer(
      {.d_model = 24, .num_heads = 4, .num_kv_heads = 2, .head_dim = 20, .value_dim = 12, .bias = true},
      random);
  for (const AttentionShape& s : shapes()) {
    const bool cross = s.query_len != s.kv_len;
    const Matrix<T> x = random_matrix<T>(s.query_rows(), 24, 3);
    const Matrix<T> context = random_matrix<T>(s.kv_rows(), 24, 4);
    Matrix<T> out(x.rows(), 24);
    Matrix<T> weights(s.query_rows() * s.num_heads, s.kv_len);
    Matrix<T> heads(x.rows(), 48);
    MultiHeadAttentionShape shape{s.batch_size, s.query_len, 24, 24, 4, 20, 12, 2};
    shape.query_starts = s.query_starts;
    if (cross) {
      shape.kv_len = s.kv_len;
      shape.d_key = shape.d_value = 24;
      shape.kv_starts = s.kv_starts;
    }
    for (const bool all_options : {false, true}) {
      const Options<T> own(s, all_options);
      for (const Index threads : {1, 3}) {
        std::optional<ThreadPool> pool = pool_of(threads);
        Executor* const executor = pool ? &*pool : nullptr;
        const MultiHeadAttentionPlan<T> plan(shape, own.mask, own.score, threads);
        const Workspace workspace(plan.workspace_bytes());
        MultiHeadAttentionTensors<T> tensors{view(x),
                                             view(layer.w_q),
                                             view(layer.w_k),
                                             view(layer.w_v),
                                             view(layer.w_o),
                                             mutable_view(out),
                                             {},
                                             {},
                                             view(layer.b_q),
                                             view(layer.b_k),
                                             view(layer.b_v),
                                             view(layer.b_o)};
        if (cross) tensors.key_input = tensors.value_input = view(context);
        for (const bool looked_at : {false, true}) {
          if (looked_at) tensors.weights = mutable_view(weights);
          if (looked_at) tensors.heads = mutable_view(heads);
          plan.check_tensors(tensors);
          CAPTURE(all_options, looked_at, plan.to_string());
          check_needs_no_memory([&] { plan.run(tensors, workspace.data(), executor); }, [&] { return out; },
                                executor == nullptr);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("products need no memory", "[resources][memory]", float, double) {
  using T = TestType;
  const Matrix<T> a = random_matrix<T>(300, 70, 1);
  const Matrix<T> b = random_matrix<T>(70, 200, 2);
  const Matrix<T> added = random_matrix<T>(1, 200, 3);
  Matrix<T> out(300, 200);
  Matrix<T> sum = Matrix<T>::Zero(300, 200);
  const ProductTerm<T> terms[] = {{view(b), mutable_view(out), view(added)},
                                  {view(b), mutable_view(sum), {}, true}};
  for (const Index threads : {1, 3}) {
    std::optional<ThreadPool> pool = pool_of(threads);
    Executor* const executor = pool ? &*pool : nullptr;
    const Workspace workspace(product_workspace_bytes<T>(300, 70, 400, threads));
    check_needs_no_memory([&] { run_products<T>(view(a), terms, 2, workspace.data(), threads, executor); },
                          [&] { return out; }, executor == nullptr);
  }
}

TEMPLATE_TEST_CASE("a run of a layer allocates nothing, takes no lock, and gives the layer's bits",
                   "[resources][memory]", float, double) {
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
  const MultiHeadAttentionTensors<TestType> tensors{
      view(x), view(layer.w_q), view(layer.w_k), view(layer.w_v), view(layer.w_o), mutable_view(out), {}, {}};
  plan.check_tensors(tensors);
  const Counted run = count([&] { plan.run(tensors, workspace.data()); });
  CHECK(run.allocations == 0);
  CHECK(run.locks == 0);
  CHECK(same_bits(out, expected));
  const auto* guard = static_cast<const unsigned char*>(workspace.data()) + bytes;
  for (std::size_t i = 0; i < Workspace::alignment; ++i) REQUIRE(guard[i] == 0xFF);
  CHECK(contains(plan.to_string(), std::to_string(bytes) + " bytes"));

  auto wrong = tensors;
  wrong.w_k.cols = 23;
  CHECK(contains(message_of<ShapeError>([&] { plan.check_tensors(wrong); }), "w_k is 24 x 23"));
  wrong = tensors;
  wrong.out.data = const_cast<TestType*>(x.data());
  CHECK(contains(message_of<ArgumentError>([&] { plan.check_tensors(wrong); }),
                 "out (80 x 24) overlaps x (80 x 24)"));
}

TEMPLATE_TEST_CASE("training allocates nothing once the trainer is made", "[resources][rotary][memory]",
                   float, double) {
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
