// The one place that chooses an instruction set.

#include <cstdlib>
#include <string>
#include <string_view>

#include "heed/error.hpp"
#include "heed/isa.hpp"
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

struct Candidate {
  const KernelTable* table;
  bool supported;
};

const KernelTable& choose() {
#if defined(HEED_KERNELS_X86)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
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
  const char* cap = std::getenv("HEED_ISA");
  const KernelTable* best = nullptr;
  std::string known;
  for (const Candidate& candidate : candidates) {
    if (candidate.supported) best = candidate.table;
    known += (known.empty() ? "" : ", ") + std::string(candidate.table->isa);
    if (cap != nullptr && std::string_view(cap) == candidate.table->isa) return *best;
  }
  if (cap != nullptr && *cap != '\0')
    throw_argument_error("HEED_ISA is \"" + std::string(cap) + "\", known are " + known);
  return *best;
}

}  // namespace

const KernelTable& table() {
  static const KernelTable& chosen = choose();
  return chosen;
}

}  // namespace kernels

const char* isa() {
  return kernels::table().isa;
}

}  // namespace heed
