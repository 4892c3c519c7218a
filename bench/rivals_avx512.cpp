#define HEED_BENCH_ISA avx512
#define HEED_BENCH_BYTES 64
#include "peak.inl"
#include "plain_eigen.inl"
