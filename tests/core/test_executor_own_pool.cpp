// A pool as many programs have one, behind the adapter of examples/executors/own_pool.hpp; and Heed's own.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "executor_laws.hpp"
#include "executors/own_pool.hpp"

namespace {

/// Runs what it is given, first come, first served.
class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    post(nullptr);
    for (std::thread& thread : threads_) thread.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::size_t size() const { return threads_.size(); }

  void post(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    posted_.notify_all();
  }

 private:
  // An empty function is the sign to go home, and stays in the queue for the others.
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return !jobs_.empty(); });
      if (!jobs_.front()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("a pool of the user's does as an executor should, and gives the same bits", "[executor][threads]") {
  heed::test::check_executor([](int threads, const auto& use) {
    Pool pool(threads - 1);  // the caller is a thread as well
    PoolExecutor executor(pool);
    use(executor);
  });
}

TEST_CASE("a pool that is busy with something else delays nothing", "[executor][threads]") {
  Pool pool(2);
  std::mutex gate;
  std::unique_lock closed(gate);
  for (int i = 0; i < 2; ++i) pool.post([&] { const std::lock_guard lock(gate); });
  PoolExecutor executor(pool);
  const heed::test::Computations<float> computations;
  CHECK(computations.same_with(executor));
  closed.unlock();
}

TEST_CASE("the jobs of a pool may use the pool's executor", "[executor][threads]") {
  Pool pool(2);
  PoolExecutor executor(pool);
  const heed::test::Computations<float> computations;
  std::atomic<int> equal{0};
  std::latch left(8);
  for (int i = 0; i < 8; ++i) {
    pool.post([&] {
      equal += computations.same_with(executor) ? 1 : 0;
      left.count_down();
    });
  }
  left.wait();
  CHECK(equal == 8);
}

TEST_CASE("Heed's pool does as an executor should, and gives the same bits", "[executor][threads]") {
  heed::test::check_executor([](int threads, const auto& use) {
    heed::ThreadPool pool(threads);
    use(pool);
  });
}
