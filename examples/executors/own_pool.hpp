#pragma once

#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>

#include "heed/core/executor.hpp"

/// Heed's tasks on a pool that has post(f), which runs f() on one of its threads some time, and size().
/// The caller works too and waits only for tasks that have begun: a pool whose threads are all busy, or all
/// inside a run() of their own, delays nothing. Helpers that come too late find no task left.
template <class Pool>
class PoolExecutor final : public heed::Executor {
 public:
  explicit PoolExecutor(Pool& pool) : Executor(static_cast<heed::Index>(pool.size()) + 1), pool_(pool) {}

  void run(heed::Index count, void (*task)(void* context, heed::Index i), void* context) override {
    struct Work {
      explicit Work(heed::Index tasks) : left(tasks) {}
      std::atomic<heed::Index> next{0};
      std::latch left;
    };
    const auto work = std::make_shared<Work>(count);
    const auto help = [=] {
      for (heed::Index i = work->next++; i < count; i = work->next++) {
        task(context, i);
        work->left.count_down();
      }
    };
    for (heed::Index i = 1; i < std::min(count, concurrency()); ++i) pool_.post(help);
    help();
    work->left.wait();
  }

 private:
  Pool& pool_;
};
