// The kernels for AVX-512.

#define HEED_KERNEL_NAMESPACE avx512
#define HEED_KERNEL_ISA "avx512"
#include "kernels/isa_table.inl"
