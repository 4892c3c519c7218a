#pragma once

// Which instruction set the kernels use.

#include "heed/core/config.hpp"

namespace heed {

/// Returns the instruction set whose kernels this process runs. On x86-64 "baseline" (SSE2), "avx2" (with
/// FMA) or "avx512", the best one that the processor has; the environment variable HEED_ISA, read once, caps
/// it (baseline | avx2 | avx512). "neon" on AArch64 and "baseline" elsewhere, the only ones there.
/// Thread-safe. Throws ArgumentError if HEED_ISA holds the name of none.
HEED_EXPORT const char* isa();

}  // namespace heed
