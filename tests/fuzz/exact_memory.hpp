#pragma once

#include <cstdlib>
#include <cstring>

#include "byte_choices.hpp"
#include "heed/core/workspace.hpp"

namespace heed::test {

/// Memory of exactly so many bytes, so that the sanitizer sees a run that leaves it, full of NaN.
class ExactMemory {
 public:
  explicit ExactMemory(std::size_t bytes) {
    require_law(posix_memalign(&memory_, Workspace::alignment, bytes) == 0, "there is memory");
    std::memset(memory_, 0xFF, bytes);
  }
  ~ExactMemory() { std::free(memory_); }
  ExactMemory(const ExactMemory&) = delete;
  ExactMemory& operator=(const ExactMemory&) = delete;
  void* data() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

}  // namespace heed::test
