// The one place that chooses an instruction set.

#if defined(HEED_KERNELS_X86)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string>

#include "heed/isa.hpp"
#include "kernels/choice.hpp"
#include "kernels/kernels.hpp"

namespace heed {
namespace kernels {

#if defined(HEED_KERNELS_AARCH64)
namespace neon {
extern const KernelTable table;
}
#else
namespace baseline {
extern const KernelTable table;
}
#endif
#if defined(HEED_KERNELS_X86)
namespace avx2 {
extern const KernelTable table;
}
namespace avx512 {
extern const KernelTable table;
}
#endif

namespace {

#if defined(HEED_KERNELS_X86)
/// F16C: not every compiler here knows it by name.
bool has_float16_conversion() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

Choice choose_for_this_process() {
#if defined(HEED_KERNELS_X86)
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_float16_conversion();
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  const Candidate candidates[] = {
      {&baseline::table, true}, {&avx2::table, has_avx2}, {&avx512::table, has_avx512}};
#elif defined(HEED_KERNELS_AARCH64)
  const Candidate candidates[] = {{&neon::table, true}};  // every AArch64 processor has NEON
#else
  const Candidate candidates[] = {{&baseline::table, true}};
#endif
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
