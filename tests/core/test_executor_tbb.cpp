// The adapter for oneTBB, examples/executors/tbb.hpp, held to what an executor is held to.

#include <tbb/global_control.h>

#include "executor_laws.hpp"
#include "executors/tbb.hpp"

TEST_CASE("oneTBB's threads do as an executor's should, and give the same bits", "[executor][threads]") {
  // As many threads as are asked for, also on a machine of fewer processors.
  const tbb::global_control most(tbb::global_control::max_allowed_parallelism, heed::test::kMaxThreads);
  heed::test::check_executor([](int threads, const auto& use) {
    TbbExecutor executor(threads);
    use(executor);
  });
}
