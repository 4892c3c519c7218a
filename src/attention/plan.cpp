#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

#include "attention/blocks.hpp"
#include "attention/check.hpp"
#include "heed/attention_plan.hpp"
#include "heed/error.hpp"
#include "kernels/kernels.hpp"

namespace heed {

using detail::require_not_negative;
using detail::require_positive;
using detail::require_possible;
using detail::require_product;

void check_attention(const AttentionShape& shape, const Mask& mask, std::optional<double> scale) {
  require_not_negative(shape.batch_size, "batch_size");
  require_not_negative(shape.query_len, "query_len");
  require_not_negative(shape.kv_len, "kv_len");
  require_positive(shape.num_heads, "num_heads");
  require_positive(shape.num_kv_heads, "num_kv_heads");
  require_positive(shape.head_dim, "head_dim");
  require_positive(shape.value_dim, "value_dim");
  if (shape.num_heads % shape.num_kv_heads != 0) {
    throw_shape_error("num_heads is " + std::to_string(shape.num_heads) +
                      ", not a multiple of num_kv_heads, which is " + std::to_string(shape.num_kv_heads));
  }
  require_possible(shape.batch_size, "batch_size");
  require_possible(shape.num_heads, "num_heads");
  require_possible(shape.query_len, "query_len");
  require_possible(shape.kv_len, "kv_len");
  require_possible(shape.head_dim, "head_dim");
  require_possible(shape.value_dim, "value_dim");
  require_product(shape.batch_size, shape.num_heads, "batch_size * num_heads");
  require_product(shape.batch_size * shape.num_heads, shape.query_len, "batch_size * num_heads * query_len");
  require_product(shape.batch_size, shape.kv_len, "batch_size * kv_len");
  require_product(shape.num_heads, shape.head_dim, "num_heads * head_dim");
  require_product(shape.num_heads, shape.value_dim, "num_heads * value_dim");
  if (scale && !std::isfinite(*scale))
    throw_argument_error("scale is " + std::to_string(*scale) + ", it must be finite");
  mask.check_bias(shape.query_len, shape.kv_len);
  (void)mask.query_offset(shape.query_len, shape.kv_len);
}

void detail::check_tensors(const AttentionShape& shape, const UntypedAttentionTensors& tensors) {
  const Index query_rows = shape.batch_size * shape.query_len;
  const Index kv_rows = shape.batch_size * shape.kv_len;
  const auto sequences_of = [&](Index length, const char* what) {
    return count_of(shape.batch_size, "sequence") + " of " + count_of(length, what);
  };
  const auto queries = [&] {
    return sequences_of(shape.query_len, "query row") + " and " + count_of(shape.num_heads, "head");
  };
  const auto keys = [&] {
    return sequences_of(shape.kv_len, "key") + " and " + count_of(shape.num_kv_heads, "key/value head");
  };
  const auto with_dim = [](const auto& words, Index dim) {
    return [&words, dim] { return words() + " of " + std::to_string(dim); };
  };
  require_size(tensors.query, "query", query_rows, shape.num_heads * shape.head_dim,
               with_dim(queries, shape.head_dim));
  require_size(tensors.key, "key", kv_rows, shape.num_kv_heads * shape.head_dim,
               with_dim(keys, shape.head_dim));
  require_size(tensors.value, "value", kv_rows, shape.num_kv_heads * shape.value_dim,
               with_dim(keys, shape.value_dim));
  require_size(tensors.out, "out", query_rows, shape.num_heads * shape.value_dim,
               with_dim(queries, shape.value_dim));
  if (wanted(tensors.weights)) {
    require_size(tensors.weights, "weights", query_rows * shape.num_heads, shape.kv_len,
                 [&] { return queries() + ", " + keys(); });
  }
  if (wanted(tensors.logsumexp))
    require_size(tensors.logsumexp, "logsumexp", query_rows, shape.num_heads, queries);
  const auto require_apart_from_inputs = [&](const UntypedView& written, const char* name) {
    require_apart(written, name, tensors.query, "query");
    require_apart(written, name, tensors.key, "key");
    require_apart(written, name, tensors.value, "value");
    require_apart(written, name, tensors.bias, "bias");
  };
  require_apart_from_inputs(tensors.out, "out");
  require_apart_from_inputs(tensors.weights, "weights");
  require_apart_from_inputs(tensors.logsumexp, "logsumexp");
  require_apart(tensors.out, "out", tensors.weights, "weights");
  require_apart(tensors.out, "out", tensors.logsumexp, "logsumexp");
  require_apart(tensors.weights, "weights", tensors.logsumexp, "logsumexp");
}

namespace {

template <class T>
kernels::Strided<T> strided(const MatrixView<T>& view) {
  return {view.data, view.row_stride, view.col_stride};
}

}  // namespace

template <class T>
AttentionPlan<T>::AttentionPlan(const AttentionShape& shape, const Mask& mask, std::optional<double> scale,
                                Index threads)
    : shape_(shape), mask_(mask), asked_threads_(threads) {
  check_attention(shape, mask, scale);
  if (threads < 1) throw_argument_error("threads is " + std::to_string(threads) + ", it must be at least 1");
  bias_ = mask.bias_as<T>();
  scale_ = static_cast<T>(scale ? *scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  if (!std::isfinite(scale_)) {
    throw_argument_error("scale is " + std::to_string(*scale) + ", beyond the largest float");
  }
  query_offset_ = mask.query_offset(shape.query_len, shape.kv_len);
  const detail::Blocks blocks =
      detail::equal_blocks(shape, threads, kernels::kernels_of<T>(kernels::table()));
  block_rows_ = blocks.rows;
  blocks_per_head_ = blocks.per_head;
  threads_ = std::clamp<Index>(threads, 1, std::max<Index>(1, num_items()));
}

template <class T>
Index AttentionPlan<T>::num_items() const noexcept {
  return shape_.batch_size * detail::work_of(shape_).heads * blocks_per_head_;
}

template <class T>
std::size_t AttentionPlan<T>::workspace_bytes() const noexcept {
  return static_cast<std::size_t>(threads_) *
         detail::thread_bytes(kernels::kernels_of<T>(kernels::table()), shape_, block_rows_);
}

template <class T>
void AttentionPlan<T>::run_block(const AttentionTensors<T>& tensors, Index item,
                                 std::byte* workspace) const noexcept {
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  const detail::Work work = detail::work_of(shape_);
  const bool heads_are_rows = detail::heads_are_rows(shape_);
  const Index group = shape_.num_heads / shape_.num_kv_heads;
  const Index batch = item / blocks_per_head_ / work.heads;
  const Index work_head = item / blocks_per_head_ % work.heads;
  // The last block first: under a causal mask it is the longest, and the short ones even out the end.
  const Index first_row = (blocks_per_head_ - 1 - item % blocks_per_head_) * block_rows_;
  const Index rows = std::min(block_rows_, work.rows - first_row);
  const Index head = heads_are_rows ? work_head * group + first_row : work_head;  // of the first row
  const Index kv_head = head / group;
  const Index query_row = heads_are_rows ? batch : batch * shape_.query_len + first_row;
  const Index kv_row = batch * shape_.kv_len;

  // The block of rows that begins at the query row and head: down the positions, or across the heads of one.
  const auto rows_of = [&](const auto& tensor, Index dim) {
    auto block = strided(tensor.block(query_row, head * dim, heads_are_rows ? 1 : rows, dim));
    if (heads_are_rows) block.row_stride = dim * tensor.col_stride;
    return block;
  };
  kernels::AttentionBlock<T> block{};
  block.query = rows_of(tensors.query, shape_.head_dim);
  block.key = strided(tensors.key.block(kv_row, kv_head * shape_.head_dim, shape_.kv_len, shape_.head_dim));
  block.value =
      strided(tensors.value.block(kv_row, kv_head * shape_.value_dim, shape_.kv_len, shape_.value_dim));
  if (!bias_.empty()) {
    block.bias =
        strided(bias_.block(heads_are_rows ? 0 : first_row, 0, heads_are_rows ? 1 : rows, shape_.kv_len));
    if (heads_are_rows) block.bias.row_stride = 0;
  }
  block.out = rows_of(tensors.out, shape_.value_dim);
  if (!tensors.weights.empty()) {
    const Index weights_row = heads_are_rows
                                  ? batch * shape_.num_heads + head
                                  : (batch * shape_.num_heads + head) * shape_.query_len + first_row;
    block.weights = strided(tensors.weights.block(weights_row, 0, rows, shape_.kv_len));
  }
  block.query_rows = rows;
  block.kv_len = shape_.kv_len;
  block.head_dim = shape_.head_dim;
  block.value_dim = shape_.value_dim;
  block.visible_step = mask_.is_causal() && !heads_are_rows ? 1 : 0;
  block.first_visible_end =
      mask_.is_causal() ? (heads_are_rows ? 0 : first_row) + query_offset_ + 1 : shape_.kv_len;
  block.scale = scale_;
  block.row_max = reinterpret_cast<T*>(workspace);
  block.row_sum = block.row_max + kernels.query_block;
  block.workspace = workspace + detail::statistics_bytes(kernels);
  kernels.attention(block);

  if (!tensors.logsumexp.empty()) {
    for (Index row = 0; row < rows; ++row) {
      // A row that sees nothing has row_max -inf and row_sum 0: the -inf that the contract asks for.
      T& logsumexp = heads_are_rows ? tensors.logsumexp(query_row, head + row)
                                    : tensors.logsumexp(query_row + row, head);
      logsumexp = block.row_max[row] + std::log(block.row_sum[row]);
    }
  }
}

template <class T>
void AttentionPlan<T>::run(const AttentionTensors<T>& tensors, void* workspace,
                           Executor* executor) const noexcept {
  auto* const bytes = static_cast<std::byte*>(workspace);
  const Index items = num_items();
  if (executor == nullptr || threads_ == 1) {
    for (Index item = 0; item < items; ++item) run_block(tensors, item, bytes);
    return;
  }
  // One task for each part of the workspace; they draw blocks from one counter, so a slow processor simply
  // takes fewer.
  struct Shared {
    const AttentionPlan* plan;
    const AttentionTensors<T>* tensors;
    std::byte* workspace;
    std::size_t stride;
    Index items;
    std::atomic<Index> next{0};
  } shared{this, &tensors, bytes, workspace_bytes() / static_cast<std::size_t>(threads_), items};
  executor->run(
      threads_,
      [](void* context, Index thread) {
        auto& s = *static_cast<Shared*>(context);
        std::byte* const own = s.workspace + static_cast<std::size_t>(thread) * s.stride;
        for (Index item = s.next.fetch_add(1); item < s.items; item = s.next.fetch_add(1)) {
          s.plan->run_block(*s.tensors, item, own);
        }
      },
      &shared);
}

template class AttentionPlan<float>;
template class AttentionPlan<double>;

}  // namespace heed
