// Threads are the caller's: the pool, adapters, and const objects used by many threads at once.

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "heed/executor.hpp"
#include "heed/multi_head_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

struct Counts {
  std::vector<std::atomic<int>> calls;
  explicit Counts(Index n) : calls(static_cast<std::size_t>(n)) {}
  static void count(void* context, Index i) {
    ++static_cast<Counts*>(context)->calls[static_cast<std::size_t>(i)];
  }
  bool all_once() const {
    for (const auto& c : calls) {
      if (c != 1) return false;
    }
    return true;
  }
};

/// What a user writes to bring threads of their own.
class ThreadForEachTask final : public Executor {
 public:
  ThreadForEachTask() : Executor(3) {}
  void run(Index count, void (*task)(void*, Index), void* context) override {
    std::vector<std::thread> threads;
    for (Index i = 0; i < count; ++i) threads.emplace_back(task, context, i);
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace

TEST_CASE("a pool runs every task once, for any number of threads and tasks") {
  for (const Index threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    CHECK(pool.concurrency() == threads);
    for (const Index tasks : {0, 1, 2, 7, 100}) {
      Counts counts(tasks);
      pool.run(tasks, &Counts::count, &counts);
      CHECK(counts.all_once());
    }
  }
  CHECK(ThreadPool().concurrency() >= 1);
  CHECK(contains(message_of<ArgumentError>([] { ThreadPool(-1); }), "threads is -1"));
}

TEST_CASE("a pool serves several callers at once, and a task that calls it again") {
  ThreadPool pool(3);
  std::atomic<int> inner_runs{0};
  struct Nested {
    ThreadPool* pool;
    std::atomic<int>* inner_runs;
  } nested{&pool, &inner_runs};
  const auto outer = [](void* context, Index) {
    auto& n = *static_cast<Nested*>(context);
    Counts counts(5);
    n.pool->run(5, &Counts::count, &counts);
    if (counts.all_once()) ++*n.inner_runs;
  };
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) pool.run(6, outer, &nested);
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(inner_runs == 4 * 20 * 6);
}

TEST_CASE("any executor will do, and gives the same bits") {
  const AttentionShape s{2, 3, 3, 70, 70, 16, 16};
  const auto in = random_inputs<float>(s, 1);
  AttentionOptions options = options_for(s, causal());
  const auto alone = scaled_dot_product_attention(in.query, in.key, in.value, options);
  ThreadForEachTask executor;
  options.executor = &executor;
  CHECK(same_bits(alone, scaled_dot_product_attention(in.query, in.key, in.value, options)));
}

TEST_CASE("eight threads on one const layer give the same bits, whatever else uses std::rand") {
  Random random(2);
  const MultiHeadAttention<float> layer(32, 4, random);
  const Matrix<float> x = random_matrix<float>(24, 32, 3);
  LayerOptions options;
  options.mask = causal();
  const Matrix<float> expected = layer.forward(x, options);
  std::atomic<int> different{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (!same_bits(expected, layer.forward(x, options))) ++different;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(different == 0);

  std::srand(7);
  (void)std::rand();
  Random again(2);
  CHECK(same_bits(layer.w_q, MultiHeadAttention<float>(32, 4, again).w_q));
}

TEST_CASE("layers on one shared pool, called from several threads, give the same bits") {
  Random random(4);
  const MultiHeadAttention<double> layer(16, 2, random);
  const Matrix<double> x = random_matrix<double>(4 * 50, 16, 5);
  LayerOptions options;
  options.mask = causal();
  options.batch_size = 4;
  const Matrix<double> expected = layer.forward(x, options);
  ThreadPool pool(2);
  options.executor = &pool;
  std::atomic<int> different{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        if (!same_bits(expected, layer.forward(x, options))) ++different;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(different == 0);
}
