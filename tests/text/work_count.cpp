// What the compiler calls at each basic block, and stand-ins for the functions of the C library that do work
// in proportion to a length. Compiled with -fno-builtin, so that the loops stay loops.

#include "work_count.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::uint64_t work = 0;

}  // namespace

namespace heed::test {

std::uint64_t work_count() {
  return work;
}

}  // namespace heed::test

extern "C" {

void __sanitizer_cov_trace_pc() {
  ++work;
}

void* memmove(void* to, const void* from, std::size_t count) {
  work += count;
  auto* t = static_cast<unsigned char*>(to);
  const auto* f = static_cast<const unsigned char*>(from);
  if (t < f) {
    for (std::size_t i = 0; i < count; ++i) t[i] = f[i];
  } else {
    for (std::size_t i = count; i > 0; --i) t[i - 1] = f[i - 1];
  }
  return to;
}

void* memcpy(void* to, const void* from, std::size_t count) {
  return memmove(to, from, count);
}

void* memset(void* to, int value, std::size_t count) {
  work += count;
  auto* t = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < count; ++i) t[i] = static_cast<unsigned char>(value);
  return to;
}

int memcmp(const void* a, const void* b, std::size_t count) {
  const auto* x = static_cast<const unsigned char*>(a);
  const auto* y = static_cast<const unsigned char*>(b);
  for (std::size_t i = 0; i < count; ++i) {
    ++work;
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  }
  return 0;
}

}  // extern "C"

void* operator new(std::size_t size) {
  work += size;
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
