#pragma once

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "heed/core/executor.hpp"

/// Heed's tasks on oneTBB's threads, in an arena of their own. isolate(): while the caller waits for the last
/// task, it takes none of the program's other tasks, which might need what the caller holds.
class TbbExecutor final : public heed::Executor {
 public:
  explicit TbbExecutor(int threads = tbb::this_task_arena::max_concurrency())
      : Executor(threads), arena_(threads) {}

  void run(heed::Index count, void (*task)(void* context, heed::Index i), void* context) override {
    const auto each = [=](heed::Index i) { task(context, i); };
    const auto all = [&] { tbb::parallel_for<heed::Index>(0, count, each, tbb::simple_partitioner()); };
    arena_.execute([&] { tbb::this_task_arena::isolate(all); });
  }

 private:
  tbb::task_arena arena_;
};
