// The adapter for OpenMP, examples/executors/openmp.hpp, held to what an executor is held to.

#include "executor_laws.hpp"
#include "executors/openmp.hpp"

TEST_CASE("OpenMP's threads do as an executor's should, and give the same bits", "[executor][threads]") {
  heed::test::check_executor([](int threads, const auto& use) {
    OpenMpExecutor executor(threads);
    use(executor);
  });
}

TEST_CASE("OpenMP's threads do so too where parallel regions may be nested", "[executor][threads]") {
  const int before = omp_get_max_active_levels();
  omp_set_max_active_levels(2);
  OpenMpExecutor executor(3);
  const heed::test::Computations<float> computations;
  heed::test::check_nested_and_concurrent(executor, computations);
  heed::test::check_no_task_within_another(executor);
  omp_set_max_active_levels(before);
}
