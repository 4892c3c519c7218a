#pragma once

// Memory that is counted, and that runs out on purpose: included by one source of a test program, this header
// stands in for operator new and, with glibc, for malloc and its kin, which Eigen calls.
//
//   heed::test::sweep_allocations("KvCache::append", make, call, check_unchanged, check_result);

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <typeinfo>

#if defined(__SSE__)
#include <xmmintrin.h>  // Clang's declares posix_memalign once more, which it allows before the definition below
#endif

#include "catch.hpp"

namespace heed::test {

/// Allocations so far, by all threads.
inline std::atomic<long> allocations{0};

/// The bytes that they asked for, those given back included.
inline std::atomic<std::size_t> allocated_bytes{0};

/// What fails: allocations of one thread, those of others go on.
struct FailingAllocations {
  long before = -1;      // how many more succeed; negative: nothing is to fail
  bool lasting = false;  // all that follow fail too
  bool failed = false;   // one has
  const char* call = "";
  long number = 0;
};
inline constinit thread_local FailingAllocations failing_allocations;

inline void count_allocation(std::size_t bytes) noexcept {
  ++allocations;
  allocated_bytes += bytes;
}

/// False if an allocation is to fail.
inline bool allocation_succeeds() noexcept {
  FailingAllocations& failing = failing_allocations;
  if (failing.before < 0) return true;
  if (failing.before > 0) {
    --failing.before;
    return true;
  }
  failing.failed = true;
  if (!failing.lasting) failing.before = -1;
  return false;
}

/// Says which allocation of which call ended the program: it was thrown out of a function that is noexcept.
[[noreturn]] inline void report_terminate() noexcept {
  const FailingAllocations failing = failing_allocations;
  failing_allocations.before = -1;
  std::fprintf(stderr, "std::terminate: %s, allocation %ld fails%s\n", failing.call, failing.number,
               failing.lasting ? ", and all after it" : "");
  std::abort();
}

/// Calls attempt() with the allocation of this number (the first is 1) failing. True if it came to that.
template <class Attempt>
bool with_failing_allocation(const char* name, long number, bool lasting, const Attempt& attempt) {
  struct Armed {
    std::terminate_handler before = std::set_terminate(report_terminate);
    Armed(const char* call, long nth, bool all) { failing_allocations = {nth - 1, all, false, call, nth}; }
    ~Armed() {
      failing_allocations.before = -1;
      std::set_terminate(before);
    }
  };
  {
    const Armed armed(name, number, lasting);
    attempt();
  }
  return failing_allocations.failed;
}

/// Calls call(state) on a fresh state = make(), with its first allocation failing, its second, and so on
/// until all succeed; then again with all after it failing too. An attempt ends with std::bad_alloc, and
/// check_failed(state) looks at what that left behind, or it does without the memory, and check_done(state)
/// looks at what it did. The checks have memory again. Returns how many allocations the call makes.
template <class Make, class Call, class CheckFailed, class CheckDone>
long sweep_allocations(const char* name, const Make& make, const Call& call, const CheckFailed& check_failed,
                       const CheckDone& check_done) {
  long made = 0;
  for (const bool lasting : {false, true}) {
    for (long number = 1;; ++number) {
      auto state = make();
      bool done = false;
      const char* other = nullptr;
      const bool failed = with_failing_allocation(name, number, lasting, [&] {
        try {
          call(state);
          done = true;
        } catch (const std::bad_alloc&) {
        } catch (const std::exception& e) {
          other = typeid(e).name();
        }
      });
      INFO(name << ", allocation " << number << (lasting ? " and all after it fail" : " fails"));
      if (other != nullptr) FAIL("another exception: " << other);
      if (done) {
        check_done(state);
      } else {
        check_failed(state);
      }
      if (!failed) {
        REQUIRE(done);
        made = number - 1;
        break;
      }
    }
  }
  return made;
}

}  // namespace heed::test

#if defined(__GLIBC__) && !defined(HEED_SANITIZED)
#define HEED_COUNTS_MALLOC 1

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl*): glibc's own, which the functions below stand in front
// of
void* __libc_malloc(std::size_t bytes) noexcept;
void* __libc_calloc(std::size_t count, std::size_t bytes) noexcept;
void* __libc_realloc(void* memory, std::size_t bytes) noexcept;
void* __libc_memalign(std::size_t alignment, std::size_t bytes) noexcept;
// NOLINTEND(bugprone-reserved-identifier,cert-dcl*)

void* malloc(std::size_t bytes) noexcept {
  heed::test::count_allocation(bytes);
  if (heed::test::allocation_succeeds()) return __libc_malloc(bytes);
  errno = ENOMEM;
  return nullptr;
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  heed::test::count_allocation(count * bytes);
  if (heed::test::allocation_succeeds()) return __libc_calloc(count, bytes);
  errno = ENOMEM;
  return nullptr;
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  heed::test::count_allocation(bytes);
  if (heed::test::allocation_succeeds()) return __libc_realloc(memory, bytes);
  errno = ENOMEM;
  return nullptr;
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  heed::test::count_allocation(bytes);
  if (heed::test::allocation_succeeds()) return __libc_memalign(alignment, bytes);
  errno = ENOMEM;
  return nullptr;
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return aligned_alloc(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  *memory = aligned_alloc(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

#elif defined(HEED_SANITIZED)

// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl*): of sanitizer/allocator_interface.h, which GCC
// leaves out
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                                         void (*on_free)(const volatile void*));

namespace heed::test {

/// A sanitizer keeps malloc to itself, but tells of each allocation, its own among them: the bytes of all are
/// counted. The number of allocations is that of new, which alone fails.
inline const int sanitizer_counts = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t bytes) { allocated_bytes += bytes; }, [](const volatile void*) {});

}  // namespace heed::test

#endif

namespace heed::test {

inline void* memory_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t rounded = bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
#if defined(HEED_COUNTS_MALLOC)
  return std::aligned_alloc(alignment, rounded);
#else
#if defined(HEED_SANITIZED)
  ++allocations;
#else
  count_allocation(bytes);
#endif
  return allocation_succeeds() ? std::aligned_alloc(alignment, rounded) : nullptr;
#endif
}

inline void* memory_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = memory_or_null(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace heed::test

// The forms that do not throw as well: a sanitizer has its own, and would pair them with the delete below.
void* operator new(std::size_t bytes) {
  return heed::test::memory_or_throw(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return heed::test::memory_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return heed::test::memory_or_null(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return heed::test::memory_or_null(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
