#define HEED_BENCH_ISA avx2
#define HEED_BENCH_BYTES 32
#include "peak.inl"
#include "plain_eigen.inl"
