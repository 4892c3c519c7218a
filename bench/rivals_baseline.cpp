#define HEED_BENCH_ISA baseline
#define HEED_BENCH_BYTES 16
#include "peak.inl"
#include "plain_eigen.inl"
