// The table of one instruction set. Included by one file per instruction set, which defines
//   HEED_KERNEL_NAMESPACE  baseline, avx2, ...
//   HEED_KERNEL_ISA        the same as a string
#include "kernels/activation_kernel.hpp"
#include "kernels/attention_kernel.hpp"
#include "kernels/backward_kernel.hpp"
#include "kernels/cache_kernel.hpp"
#include "kernels/exp.hpp"
#include "kernels/norm_kernel.hpp"
#include "kernels/optimizer_kernel.hpp"
#include "kernels/product_kernel.hpp"
#include "kernels/row_kernel.hpp"

namespace heed::kernels {
namespace HEED_KERNEL_NAMESPACE {

template <class T>
constexpr LayerKernels<T> make_layer_kernels() {
  LayerKernels<T> kernels;
  kernels.norm = &norm<T>;
  kernels.norm_backward = &norm_backward<T>;
  kernels.norm_weight_gradient = &norm_weight_gradient<T>;
  kernels.activation = &activation<T>;
  kernels.activation_backward = &activation_backward<T>;
  kernels.gated = &gated<T>;
  kernels.gated_backward = &gated_backward<T>;
  kernels.softmax_row = &softmax_row<T>;
  kernels.add = &add<T>;
  kernels.scale = &scale<T>;
  kernels.column_sums = &column_sums<T>;
  kernels.sum_of_squares = &sum_of_squares<T>;
  kernels.dropout = &dropout<T>;
  kernels.adam = &adam<T>;
  kernels.sgd = &sgd<T>;
  return kernels;
}

template <class T>
constexpr Kernels<T> make_kernels() {
  Kernels<T> kernels;
  kernels.lanes = kLanes<T>;
  kernels.registers = kRegisters;
  kernels.tile_rows = kTileRows;
  kernels.tile_cols = kPanel<T>;
  kernels.query_block = kQueryBlock;
  kernels.key_tile = kKeyTile<T>;
  kernels.backward_rows = kBackwardRows;
  kernels.product_rows = kProductRows;
  kernels.attention_bytes = &attention_bytes<T>;
  kernels.attention = &attention<T>;
  kernels.weights = &weights<T>;
  kernels.backward_bytes = &backward_bytes<T>;
  kernels.backward = &backward<T>;
  kernels.finish_gradient = &finish_gradient<T>;
  kernels.cached_key_bytes = &cached_key_bytes<T>;
  kernels.cached_value_bytes = &cached_value_bytes<T>;
  kernels.cache_scratch = &cache_scratch<T>;
  kernels.store_in_cache = &store_in_cache<T>;
  kernels.product_bytes = &product_bytes<T>;
  kernels.product = &product<T>;
  kernels.exp = &exp_array<T>;
  kernels.layers = make_layer_kernels<T>();
  return kernels;
}

extern const KernelTable table;
constinit const KernelTable table = {HEED_KERNEL_ISA, make_kernels<float>(), make_kernels<double>()};

}  // namespace HEED_KERNEL_NAMESPACE
}  // namespace heed::kernels
