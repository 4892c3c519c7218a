#pragma once

// What a function of the caller's throws inside a run, which may throw nothing: kept until the run has ended.

#include "heed/core/config.hpp"

#include <atomic>
#include <exception>
#include <utility>

namespace heed::detail {

/// The first exception of several threads; after it the functions are not called any more. In a program built
/// with -fno-exceptions a function just runs, as it cannot throw.
class KeptException {
 public:
  void reset() {
    failed_ = false;
    thrown_ = nullptr;
  }

  template <class Function>
  void guard(Function&& function) noexcept {
    if (failed_.load(std::memory_order_relaxed)) return;
#if defined(__cpp_exceptions)
    try {
      function();
    } catch (...) {
      if (!failed_.exchange(true)) thrown_ = std::current_exception();
    }
#else
    function();
#endif
  }

  /// Throws what was kept, once.
  void rethrow() {
    if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }

 private:
  std::atomic<bool> failed_ = false;
  std::exception_ptr thrown_;
};

}  // namespace heed::detail
