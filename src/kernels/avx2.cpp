// The kernels for AVX2 with FMA.

#define HEED_KERNEL_NAMESPACE avx2
#define HEED_KERNEL_ISA "avx2"
#include "kernels/isa_table.inl"
