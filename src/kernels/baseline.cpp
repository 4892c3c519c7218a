#define HEED_KERNEL_NAMESPACE baseline
#define HEED_KERNEL_ISA "baseline"
#include "kernels/isa_table.inl"
