// A call that gets no memory ends with std::bad_alloc, and what it worked on is as it was, or refuses to go
// on until it is put right. Each allocation of each call is made to fail.

#include <vector>

#include "allocation_sweep.hpp"
#include "catch.hpp"
#include "heed/kv_cache.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

}  // namespace

TEST_CASE("the sweep fails each allocation once, and sees what a failed call leaves behind") {
  std::vector<long> failures;
  const long made = sweep_allocations(
      "two vectors", [] { return std::vector<std::vector<int>>(2); },
      [](std::vector<std::vector<int>>& both) {
        both[0].resize(100);
        both[1].resize(100);
      },
      [&](const std::vector<std::vector<int>>& both) {
        failures.push_back(static_cast<long>(both[0].size() + both[1].size()));
      },
      [](const std::vector<std::vector<int>>& both) { CHECK(both[1].size() == 100); });
  CHECK(made == 2);
  CHECK(failures == std::vector<long>{0, 100, 0, 100});
#if defined(HEED_COUNTS_MALLOC)
  CHECK(sweep_allocations(
            "a matrix", [] { return 0; },
            [](int&) {
              Matrix<double> m = Matrix<double>::Zero(30, 30);
              m(0, 0) = 1;
              if (m.sum() != 1) throw 0;
            },
            [](int) {}, [](int) {}) == 1);
#endif
}
