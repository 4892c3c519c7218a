#pragma once

#include <omp.h>

#include "heed/core/executor.hpp"

/// Heed's tasks on OpenMP's threads. Inside another parallel region OpenMP gives the caller one thread,
/// unless omp_set_max_active_levels() allows more: the tasks then run one after another.
class OpenMpExecutor final : public heed::Executor {
 public:
  explicit OpenMpExecutor(int threads = omp_get_max_threads()) : Executor(threads), threads_(threads) {}

  void run(heed::Index count, void (*task)(void* context, heed::Index i), void* context) override {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_) if (count > 1)
    for (heed::Index i = 0; i < count; ++i) task(context, i);
  }

 private:
  int threads_;
};
