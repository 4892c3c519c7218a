#pragma once

// Rows shared among threads.

#include <algorithm>

#include "core/ceil_div.hpp"
#include "heed/core/executor.hpp"
#include "heed/core/share_work.hpp"

namespace heed::detail {

// With fewer elements a second thread would not earn its call: docs/measurements.md#worth-sharing.
inline constexpr Index kMinElements = 32768;

/// Calls work(first_row, rows) for ranges that are all of the rows together, on the executor's threads where
/// that is worth it.
template <class Work>
void over_rows(Executor* executor, Index rows, Index cols, const Work& work) noexcept {
  if (rows == 0 || cols == 0) return;
  const Index threads = executor != nullptr ? std::min(executor->concurrency(), rows) : 1;
  if (threads <= 1 || rows * cols < kMinElements) {
    work(Index{0}, rows);
    return;
  }
  const Index range = ceil_div(rows, std::min(rows, std::min(threads, kMaxThreads) * kItemsPerThread));
  const Index ranges = ceil_div(rows, range);
  run_shared(*executor, threads, ranges, threads,
             [&](Index, Index item) { work(item * range, std::min(range, rows - item * range)); });
}

}  // namespace heed::detail
