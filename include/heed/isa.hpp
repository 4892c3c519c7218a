#pragma once

namespace heed {

/// The instruction set whose kernels this process runs: "baseline" (SSE2 on x86-64), "avx2" (with FMA) or
/// "avx512". The best one that the processor has; the environment variable HEED_ISA, read once, caps it
/// (baseline | avx2 | avx512). Thread-safe. Throws ArgumentError if HEED_ISA holds anything else.
const char* isa();

}  // namespace heed
