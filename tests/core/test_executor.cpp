// Threads are the caller's: the pool, adapters, and const objects used by many threads at once.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "heed/core/executor.hpp"
#include "heed/layers/multi_head_attention.hpp"
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

/// Forks; the child ends with 0 if f() returns true. The exit code of the child, waited for as long as it
/// takes.
template <class F>
int in_forked_child(const F& f) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(f() ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool runs_all(ThreadPool& pool, Index tasks = 9) {
  Counts counts(tasks);
  pool.run(tasks, &Counts::count, &counts);
  return counts.all_once();
}

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

TEST_CASE("a pool runs every task once, for any number of threads and tasks", "[executor][threads]") {
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

TEST_CASE("a pool serves several callers at once, and a task that calls it again", "[executor][threads]") {
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

TEST_CASE("any executor will do, and gives the same bits", "[executor][bits]") {
  const AttentionShape s{2, 3, 3, 70, 70, 16, 16};
  const auto in = random_inputs<float>(s, 1);
  AttentionOptions options = options_for(s, causal());
  const auto alone = scaled_dot_product_attention(in.query, in.key, in.value, options);
  ThreadForEachTask executor;
  options.executor = &executor;
  CHECK(same_bits(alone, scaled_dot_product_attention(in.query, in.key, in.value, options)));
}

TEST_CASE("eight threads on one const layer give the same bits, whatever else uses std::rand",
          "[executor][threads][bits]") {
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

TEST_CASE("layers on one shared pool, called from several threads, give the same bits",
          "[executor][threads][bits]") {
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

TEST_CASE("a forked child works alone on the pool that it inherits, and destroys it", "[executor][threads]") {
  std::optional<ThreadPool> pool(4);
  CHECK(runs_all(*pool));
  const int child = in_forked_child([&] {
    const bool ran = runs_all(*pool) && runs_all(*pool, 2);
    const int grandchild = in_forked_child([&] {
      const bool runs = runs_all(*pool);
      pool.reset();
      return runs;
    });
    const bool still_runs = runs_all(*pool);
    pool.reset();
    return ran && grandchild == 0 && still_runs;
  });
  CHECK(child == 0);
  CHECK(runs_all(*pool));  // the parent's threads are where they were
}

TEST_CASE("a child forked while other threads are inside the pool's runs works on it, and ends",
          "[executor][threads]") {
  std::optional<ThreadPool> pool(3);
  const auto child_ends = [&] {
    return in_forked_child([&] {
      const bool ran = runs_all(*pool);
      pool.reset();
      return ran;
    });
  };
  SECTION("with tasks that have begun, and a caller that waits for them") {
    std::atomic<int> begun{0};
    std::atomic<bool> released{false};
    struct Held {
      std::atomic<int>& begun;
      std::atomic<bool>& released;
    } held{begun, released};
    std::thread caller([&] {
      pool->run(
          3,
          [](void* context, Index) {
            auto& h = *static_cast<Held*>(context);
            ++h.begun;
            h.begun.notify_all();
            h.released.wait(false);
          },
          &held);
    });
    for (int now = begun; now < 3; now = begun) begun.wait(now);
    CHECK(child_ends() == 0);
    released = true;
    released.notify_all();
    caller.join();
  }
  SECTION("at any moment of a run, its locks held or not") {
    std::atomic<bool> enough{false};
    std::vector<std::thread> callers;
    for (int c = 0; c < 2; ++c) {
      callers.emplace_back([&] {
        while (!enough) (void)runs_all(*pool, 4);
      });
    }
    int ended = 0;
    for (int child = 0; child < 50; ++child) ended += child_ends() == 0 ? 1 : 0;
    enough = true;
    for (std::thread& caller : callers) caller.join();
    CHECK(ended == 50);
  }
}

TEST_CASE("a child forked inside a task uses the pool before it ends, and any child starts pools of its own",
          "[executor][threads]") {
  ThreadPool pool(2);
  struct Forks {
    ThreadPool& pool;
    std::atomic<int> ended{0};
  } forks{pool};
  pool.run(
      4,
      [](void* context, Index) {
        auto& f = *static_cast<Forks*>(context);
        const pid_t child = ::fork();
        if (child == 0) ::_exit(runs_all(f.pool) ? 0 : 1);
        int status = -1;
        if (::waitpid(child, &status, 0) == child && status == 0) ++f.ended;
      },
      &forks);
  CHECK(forks.ended == 4);
#if !defined(HEED_SANITIZED)  // the thread sanitizer starts no threads in a child
  CHECK(in_forked_child([] {
          ThreadPool own(3);
          return runs_all(own);
        }) == 0);
#endif
}
