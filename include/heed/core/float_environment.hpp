#pragma once

// The rounding mode, flush-to-zero and the other switches of a thread's floating-point arithmetic: the tasks
// of a run work under its caller's, so that bits do not depend on the thread that computes.

#include "heed/core/config.hpp"

#include <cstdint>

namespace heed::detail {

// Beside the switches the register of x86 has sticky flags (bits 0 to 5), which belong to the thread: they
// stay. Statements in assembler, since compilers move arithmetic across other ways to write these registers;
// what a task reads and writes in memory they leave on its side.

#if defined(__SSE__)

using FloatSwitches = std::uint32_t;
inline constexpr FloatSwitches kFloatFlags = 0x3F;

inline FloatSwitches float_register() noexcept {
  FloatSwitches value = 0;
  asm volatile("stmxcsr %0" : "=m"(value) : : "memory");
  return value;
}
inline void set_float_register(FloatSwitches value) noexcept {
  asm volatile("ldmxcsr %0" : : "m"(value) : "memory");
}

#elif defined(__aarch64__)

using FloatSwitches = std::uint64_t;
inline constexpr FloatSwitches kFloatFlags = 0;  // FPSR has them

inline FloatSwitches float_register() noexcept {
  FloatSwitches value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value) : : "memory");
  return value;
}
inline void set_float_register(FloatSwitches value) noexcept {
  asm volatile("msr fpcr, %0" : : "r"(value) : "memory");
}

#else

using FloatSwitches = std::uint32_t;
inline constexpr FloatSwitches kFloatFlags = 0;

inline FloatSwitches float_register() noexcept {
  return 0;
}
inline void set_float_register(FloatSwitches) noexcept {}

#endif

/// Returns the switches of this thread.
inline FloatSwitches float_switches() noexcept {
  return float_register() & ~kFloatFlags;
}

/// Gives this thread other switches, and its own back in the end.
class FloatEnvironment {
 public:
  explicit FloatEnvironment(FloatSwitches wanted) noexcept : own_(float_switches()), wanted_(wanted) {
    if (wanted_ != own_) change_to(wanted_);
  }
  ~FloatEnvironment() {
    if (wanted_ != own_) change_to(own_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  static void change_to(FloatSwitches switches) noexcept {
    set_float_register((float_register() & kFloatFlags) | switches);
  }

  FloatSwitches own_;
  FloatSwitches wanted_;
};

}  // namespace heed::detail
