// The kernels for SSE2 on x86-64, and for architectures that Heed has no others for.

#define HEED_KERNEL_NAMESPACE baseline
#define HEED_KERNEL_ISA "baseline"
#include "kernels/isa_table.inl"
