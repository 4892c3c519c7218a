#pragma once

// Scratch memory of plans and calls.

#include "heed/core/config.hpp"

#include <cstddef>
#include <memory>
#include <new>

namespace heed {

/// Scratch memory for plans, aligned to a cache line; it grows when asked for more and can serve one run
/// after another.
class Workspace {
 public:
  static constexpr std::size_t alignment = 64;

  Workspace() = default;
  explicit Workspace(std::size_t bytes) { reserve(bytes); }

  /// Makes room for at least `bytes` bytes; what was in the memory before is lost if it has to grow. Throws
  /// std::bad_alloc.
  void* reserve(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      size_ = 0;
      memory_.reset(::operator new (bytes, std::align_val_t{alignment}));
      size_ = bytes;
    }
    return memory_.get();
  }

  void* data() const noexcept { return memory_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { ::operator delete (memory, std::align_val_t{alignment}); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t size_ = 0;
};

/// Scratch memory of one call: on the stack if that is enough, since for a handful of rows an allocation
/// would take as long as the attention. A function that has one is not inlined: its caller would hold the
/// room of all that it calls.
class CallWorkspace {
 public:
  /// A head of 64 floats against up to 16 tokens, for which a heap would be slow
  /// (docs/measurements.md#call-workspace). No more, since every call works in a thread with a stack of 64
  /// KB.
  static constexpr std::size_t kStackBytes = 32 * 1024;

  /// Throws std::bad_alloc.
  explicit CallWorkspace(std::size_t bytes) : memory_(bytes <= kStackBytes ? local_ : heap_.reserve(bytes)) {}
  CallWorkspace(const CallWorkspace&) = delete;
  CallWorkspace& operator=(const CallWorkspace&) = delete;

  void* data() const noexcept { return memory_; }

 private:
  Workspace heap_;
  void* memory_;
  alignas(Workspace::alignment) std::byte local_[kStackBytes];
};

}  // namespace heed
