// The pool of threads, and what becomes of it in a forked child.

#include "heed/core/executor.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "heed/core/error.hpp"

namespace heed {

Executor::Executor(Index concurrency) : concurrency_(concurrency) {
  if (concurrency < 1)
    throw_argument_error("concurrency is " + std::to_string(concurrency) + ", it must be at least 1");
}

Executor::~Executor() = default;

namespace {

// One call of run(). It lives on the caller's stack; the caller leaves only when every task has returned, and
// a worker touches it only before it has counted its task as done.
struct Batch {
  void (*task)(void*, Index);
  void* context;
  Index count;
  Index next = 0;
  std::atomic<Index> done = 0;
  Batch* older = nullptr;  ///< The list of batches with tasks not yet taken, newest first.
};

// When only other threads' last tasks remain, the caller looks for their end this long before it sleeps,
// since waking it would take as long: docs/measurements.md#look-for-end.
constexpr std::chrono::microseconds kLookForEnd{100};

bool ends_soon(const Batch& batch) {
  const auto deadline = std::chrono::steady_clock::now() + kLookForEnd;
  do {
    if (batch.done.load(std::memory_order_acquire) == batch.count) return true;
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

Index thread_count(Index threads) {
  if (threads < 0)
    throw_argument_error("threads is " + std::to_string(threads) + ", it must not be negative");
  if (threads > 0) return threads;
  return std::max<Index>(1, static_cast<Index>(std::thread::hardware_concurrency()));
}

}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work;      ///< A batch was added, or the pool closes.
  std::condition_variable finished;  ///< A batch has been completed.
  Batch* newest = nullptr;
  bool closing = false;
  std::vector<std::thread> threads;
  State* next_pool = nullptr;  ///< The next pool of this process, in no order; under pools_mutex.

  // The pools of this process, for the child of a fork(), which has none of their threads.
  static constinit std::mutex pools_mutex;
  static constinit State* pools;

  State() {
    static const int registered = pthread_atfork([] { pools_mutex.lock(); }, [] { pools_mutex.unlock(); },
                                                 &State::leave_threads_to_parent);
    if (registered != 0) throw std::bad_alloc();
  }

  void join_pools() {
    const std::lock_guard lock(pools_mutex);
    next_pool = pools;
    pools = this;
  }

  void leave_pools() {
    const std::lock_guard lock(pools_mutex);
    for (State** link = &pools; *link != nullptr; link = &(*link)->next_pool) {
      if (*link == this) {
        *link = next_pool;
        return;
      }
    }
  }

  // In the child, whose only thread this is. Other threads of the parent may have held the locks, waited on
  // the conditions and had their batches listed: all of it is made anew in its place. What was there before
  // is not destroyed, since that would wait for threads that are not there.
  static void leave_threads_to_parent() {
    for (State* pool = pools; pool != nullptr; pool = pool->next_pool) {
      std::construct_at(&pool->mutex);
      std::construct_at(&pool->work);
      std::construct_at(&pool->finished);
      for (std::thread& thread : pool->threads) std::construct_at(&thread);
      pool->threads.clear();
    }
    std::construct_at(&pools_mutex);
  }

  void remove(Batch* batch) {
    for (Batch** link = &newest; *link != nullptr; link = &(*link)->older) {
      if (*link == batch) {
        *link = batch->older;
        return;
      }
    }
  }

  // Takes one task of the batch and runs it with the mutex released.
  void run_one(Batch* batch, std::unique_lock<std::mutex>& lock) {
    const Index count = batch->count;
    const Index i = batch->next++;
    if (batch->next == count) remove(batch);
    lock.unlock();
    batch->task(batch->context, i);
    lock.lock();
    if (batch->done.fetch_add(1, std::memory_order_release) + 1 == count) finished.notify_all();
  }

  void work_until_closed() {
    std::unique_lock lock(mutex);
    while (true) {
      work.wait(lock, [&] { return closing || newest != nullptr; });
      if (newest == nullptr) return;
      run_one(newest, lock);
    }
  }

  void close() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
};

constinit std::mutex ThreadPool::State::pools_mutex;
constinit ThreadPool::State* ThreadPool::State::pools = nullptr;

ThreadPool::ThreadPool(Index threads) : Executor(thread_count(threads)), state_(std::make_unique<State>()) {
  try {
    state_->threads.reserve(static_cast<std::size_t>(concurrency() - 1));
    for (Index i = 1; i < concurrency(); ++i) {
      state_->threads.emplace_back([state = state_.get()] { state->work_until_closed(); });
    }
  } catch (...) {
    state_->close();
    throw;
  }
  state_->join_pools();
}

ThreadPool::~ThreadPool() {
  state_->leave_pools();
  state_->close();
}

void ThreadPool::run(Index count, void (*task)(void* context, Index i), void* context) {
  if (count <= 0) return;
  if (count == 1 || state_->threads.empty()) {
    for (Index i = 0; i < count; ++i) task(context, i);
    return;
  }
  Batch batch{task, context, count};
  std::unique_lock lock(state_->mutex);
  batch.older = state_->newest;
  state_->newest = &batch;
  lock.unlock();
  state_->work.notify_all();
  lock.lock();
  while (batch.next < batch.count) state_->run_one(&batch, lock);
  lock.unlock();
  if (ends_soon(batch)) return;
  lock.lock();
  state_->finished.wait(lock, [&] { return batch.done == batch.count; });
}

}  // namespace heed
