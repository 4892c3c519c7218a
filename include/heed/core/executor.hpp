#pragma once

// Threads are the caller's: Heed works on the calling thread unless it is handed an Executor.
//
//   heed::ThreadPool pool(4);  // three threads that sleep until there is work, and the caller
//   const Eigen::MatrixXf y = linear.forward(x, &pool);

#include "heed/core/config.hpp"

#include <memory>

#include "heed/core/view.hpp"

namespace heed {

/// Runs tasks, on whatever threads it has. To adapt a pool of your own, derive and write run().
class HEED_EXPORT Executor {
 public:
  /// Takes how many tasks can be under way at once, at least 1; an engine splits its work and its workspace
  /// by it.
  explicit Executor(Index concurrency);
  virtual ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  Index concurrency() const noexcept { return concurrency_; }

  /// Calls task(context, i) once for each i in [0, count), in any order and on any threads, and returns when
  /// all calls have returned. Tasks do not throw, and neither may this: the runs of plans are noexcept.
  virtual void run(Index count, void (*task)(void* context, Index i), void* context) = 0;

 private:
  Index concurrency_;
};

/// A pool of threads. The thread that calls run() works too, so ThreadPool(2) starts one thread. Idle threads
/// sleep; the caller, when only the last tasks of others are left, after 100 us. run() may be called from
/// several threads at once, and from inside a task: the caller of a nested run() works through its own tasks.
/// In a child of fork(), which has none of its threads, a pool does all tasks on the calling thread; a child
/// that was forked inside a task must not return from it.
class HEED_EXPORT ThreadPool final : public Executor {
 public:
  /// Makes a pool of `threads` threads, the caller's included; 0 means one for each processor. Throws
  /// ArgumentError if negative.
  explicit ThreadPool(Index threads = 0);
  ~ThreadPool() override;

  void run(Index count, void (*task)(void* context, Index i), void* context) override;

 private:
  struct HEED_NO_EXPORT State;
  std::unique_ptr<State> state_;
};

namespace detail {

inline Index threads_of(const Executor* executor) {
  return executor != nullptr ? executor->concurrency() : 1;
}

}  // namespace detail

}  // namespace heed
