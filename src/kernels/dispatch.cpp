// Asks the processor, once, which instruction sets it has, and chooses the kernels.

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string>

#include "heed/core/isa.hpp"
#include "kernels/choice.hpp"
#include "kernels/kernels.hpp"

namespace heed {
namespace kernels {

// One table for each instruction set that the build has, HEED_ISAS of cmake/HeedKernels.cmake.
#if defined(HEED_KERNELS_NEON)
namespace neon {
extern const KernelTable table;
}
#endif
#if defined(HEED_KERNELS_BASELINE)
namespace baseline {
extern const KernelTable table;
}
#endif
#if defined(HEED_KERNELS_AVX2)
namespace avx2 {
extern const KernelTable table;
}
#endif
#if defined(HEED_KERNELS_AVX512)
namespace avx512 {
extern const KernelTable table;
}
#endif

namespace {

#if defined(HEED_KERNELS_AVX2) || defined(HEED_KERNELS_AVX512)
/// F16C: not every compiler here knows it by name.
bool has_float16_conversion() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_float16_conversion();
}
#endif
#if defined(HEED_KERNELS_AVX512)
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

Choice choose_for_this_process() {
  const Candidate candidates[] = {
#if defined(HEED_KERNELS_NEON)
    {&neon::table, true},  // every AArch64 processor has NEON
#endif
#if defined(HEED_KERNELS_BASELINE)
    {&baseline::table, true},
#endif
#if defined(HEED_KERNELS_AVX2)
    {&avx2::table, has_avx2()},
#endif
#if defined(HEED_KERNELS_AVX512)
    {&avx512::table, has_avx512()},
#endif
  };
  return choose(candidates, std::getenv("HEED_ISA"));
}

const Choice& choice() {
  static const Choice chosen = choose_for_this_process();
  return chosen;
}

}  // namespace

const KernelTable& table() {
  return *choice().table;
}

std::string table_reason() {
  return reason(choice());
}

}  // namespace kernels

const char* isa() {
  return kernels::table().isa;
}

}  // namespace heed
