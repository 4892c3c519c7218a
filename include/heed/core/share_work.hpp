#pragma once

// How the threads of a run share its items of work.

#include "heed/core/config.hpp"

#include <algorithm>
#include <atomic>

#include "heed/core/executor.hpp"
#include "heed/core/float_environment.hpp"
#include "heed/core/workspace.hpp"

namespace heed::detail {

// Large jobs are cut into four items per thread, so that a late or slow thread simply takes fewer.
inline constexpr Index kItemsPerThread = 4;

// More threads would only be parts without work. Small multiples of this number cannot overflow.
inline constexpr Index kMaxThreads = Index{1} << 16;

/// Ranges of neighboring items, one for each thread at best. A thread draws from its own, one item after
/// another, and when that is used up from the other ranges: a slow thread does less, and one that never comes
/// does nothing.
class SharedItems {
 public:
  SharedItems(Index items, Index ranges) noexcept : num_ranges_(std::clamp<Index>(ranges, 1, kMaxRanges)) {
    for (Index r = 0; r < num_ranges_; ++r) {
      ranges_[r].next = items * r / num_ranges_;
      ranges_[r].end = items * (r + 1) / num_ranges_;
    }
  }

  /// Calls work(item) for items until there are none left. Several threads may be in here at once.
  template <class Work>
  void draw(Index thread, const Work& work) noexcept {
    for (Index r = 0; r < num_ranges_; ++r) {
      Range& range = ranges_[(thread + r) % num_ranges_];
      for (Index item = range.next++; item < range.end; item = range.next++) work(item);
    }
  }

 private:
  // This lives on the caller's stack, whatever the number of threads; where there are more, they share
  // ranges.
  static constexpr Index kMaxRanges = 16;

  struct alignas(Workspace::alignment) Range {
    std::atomic<Index> next;
    Index end;
  };

  Range ranges_[kMaxRanges];
  Index num_ranges_;
};

/// Calls work(thread, item) once for each item, by `threads` tasks of the executor; returns when all are
/// done. work does not throw. Neighboring items stay with one thread. Drawn by turns, heads side by side
/// would have their results written into the same cache lines by two processors at once:
/// docs/measurements.md#neighboring-items. The tasks work under the caller's
/// floating-point environment, on whichever threads they run.
template <class Work>
void run_shared(Executor& executor, Index threads, Index items, Index ranges, const Work& work) noexcept {
  struct Context {
    SharedItems items;
    const Work& work;
    FloatSwitches switches;
  } context{{items, ranges}, work, float_switches()};
  executor.run(
      threads,
      [](void* given, Index thread) {
        auto& c = *static_cast<Context*>(given);
        const FloatEnvironment environment(c.switches);
        c.items.draw(thread, [&](Index item) { c.work(thread, item); });
      },
      &context);
}

/// Calls work(thread, item) once for each item, by `threads` tasks of the executor, or on the calling thread
/// alone where there is no executor or threads is 1.
template <class Work>
void share_items(Executor* executor, Index threads, Index items, const Work& work) noexcept {
  if (executor == nullptr || threads <= 1) {
    for (Index item = 0; item < items; ++item) work(Index{0}, item);
  } else {
    run_shared(*executor, threads, items, threads, work);
  }
}

}  // namespace heed::detail
