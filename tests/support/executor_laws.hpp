#pragma once

// What every Executor owes the engine, whoever's threads are behind it.

#include <atomic>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "heed/core/executor.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "helpers.hpp"

namespace heed::test {

inline constexpr int kMaxThreads = 8;

/// Executor::run() for a function object.
template <class F>
void run_tasks(Executor& executor, Index count, const F& f) {
  executor.run(
      count, [](void* context, Index i) { (*static_cast<const F*>(context))(i); }, const_cast<F*>(&f));
}

/// Counts, which takes a while. Who does not wait for a task that calls this is caught; who waits, waits for
/// as long as it takes. Work and not std::this_thread::yield(), which on a busy machine lets everybody go
/// first.
inline void dawdle(int steps) {
  for (std::atomic<int> step = 0; step < steps; ++step) {
  }
}

/// Calls f() on several threads at once.
template <class F>
void on_threads(int count, const F& f) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back(f);
  for (std::thread& thread : threads) thread.join();
}

/// An attention and a layer with work for many threads, and their results without any executor.
template <class T>
struct Computations {
  AttentionShape shape{2, 3, 3, 150, 150, 16, 16};
  Inputs<T> in = random_inputs<T>(shape, 1);
  Random random{2};
  MultiHeadAttention<T> layer{24, 3, random};
  Matrix<T> x = random_matrix<T>(4 * 60, 24, 3);
  Matrix<T> attended = attention(nullptr);
  Matrix<T> layered = forward(nullptr);

  Matrix<T> attention(Executor* executor) const {
    AttentionOptions options = options_for(shape, causal());
    options.executor = executor;
    return scaled_dot_product_attention(in.query, in.key, in.value, options);
  }
  Matrix<T> forward(Executor* executor) const {
    LayerOptions options;
    options.mask = causal();
    options.batch_size = 4;
    options.executor = executor;
    return layer.forward(x, options);
  }
  bool same_with(Executor& executor) const {
    return same_bits(attended, attention(&executor)) && same_bits(layered, forward(&executor));
  }
};

/// run() calls every task exactly once, and has seen the last one return when it returns.
inline void check_every_task_once(Executor& executor) {
  for (const Index tasks : {0, 1, 2, 7, 100}) {
    CAPTURE(executor.concurrency(), tasks);
    std::vector<int> calls(
        static_cast<std::size_t>(tasks));  // plain: the thread sanitizer sees who reads when
    run_tasks(executor, tasks, [&](Index i) {
      // The last ones take their time, so that who does not wait for them is caught.
      if (i + 2 >= tasks) dawdle(100'000);
      ++calls[static_cast<std::size_t>(i)];
    });
    CHECK(calls == std::vector<int>(calls.size(), 1));
  }
}

/// Tasks may call run() of the same executor, and several threads may at once.
inline void check_nested_and_concurrent(Executor& executor, const Computations<float>& computations) {
  CAPTURE(executor.concurrency());
  std::atomic<int> equal{0};
  run_tasks(executor, 6, [&](Index) { equal += computations.same_with(executor) ? 1 : 0; });
  CHECK(equal == 6);
  equal = 0;
  on_threads(4, [&] {
    for (int round = 0; round < 3; ++round) equal += computations.same_with(executor) ? 1 : 0;
    run_tasks(executor, 2, [&](Index) { equal += computations.same_with(executor) ? 1 : 0; });
  });
  CHECK(equal == 4 * (3 + 2));
}

/// A thread that waits in a nested run() takes no other task of the outer one: that might need a lock or a
/// buffer of the thread that the waiting task holds.
inline void check_no_task_within_another(Executor& executor) {
  CAPTURE(executor.concurrency());
  static thread_local bool busy;
  std::atomic<int> entered_twice{0};
  run_tasks(executor, 32, [&](Index) {
    if (busy) ++entered_twice;
    busy = true;
    run_tasks(executor, 8, [](Index) { dawdle(5'000); });
    busy = false;
  });
  CHECK(entered_twice == 0);
}

/// All of it. with(threads, use) calls use(executor) with an executor of so many threads.
template <class With>
void check_executor(const With& with) {
  const Computations<float> in_float;
  const Computations<double> in_double;
  for (int threads = 1; threads <= kMaxThreads; ++threads) {
    with(threads, [&](Executor& executor) {
      CAPTURE(threads);
      CHECK(executor.concurrency() == threads);
      check_every_task_once(executor);
      CHECK(in_float.same_with(executor));
      CHECK(in_double.same_with(executor));
      check_nested_and_concurrent(executor, in_float);
      check_no_task_within_another(executor);
    });
  }
}

}  // namespace heed::test
