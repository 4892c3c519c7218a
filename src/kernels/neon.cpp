// The kernels for NEON on AArch64.

#define HEED_KERNEL_NAMESPACE neon
#define HEED_KERNEL_ISA "neon"
#include "kernels/isa_table.inl"
