// The table of one instruction set. Included by one file per instruction set, which defines
//   HEED_KERNEL_NAMESPACE  baseline, avx2, ...
//   HEED_KERNEL_ISA        the same as a string
#include "kernels/attention_kernel.hpp"
#include "kernels/exp.hpp"
#include "kernels/product_kernel.hpp"

namespace heed::kernels {
namespace HEED_KERNEL_NAMESPACE {

template <class T>
constexpr Kernels<T> make_kernels() {
  return {kLanes<T>,    kRegisters,          kTileRows,     kPanel<T>,         kQueryBlock,  kKeyTile<T>,
          kProductRows, &attention_bytes<T>, &attention<T>, &product_bytes<T>, &product<T>, &exp_array<T>};
}

extern const KernelTable table;
constinit const KernelTable table = {HEED_KERNEL_ISA, make_kernels<float>(), make_kernels<double>()};

}  // namespace HEED_KERNEL_NAMESPACE
}  // namespace heed::kernels
