// A layer of multi-head attention on new tokens, against a cache: one plan for every length.

#include "heed/layers/multi_head_attention_decode_plan.hpp"

#include <algorithm>

#include "core/require.hpp"
#include "heed/layers/product.hpp"
#include "layers/layer_buffers.hpp"

namespace heed {

using detail::matrix_bytes;
using detail::require_positive;
using detail::require_possible;
using detail::require_product;

namespace {

/// Columns of what lies between the products.
struct Columns {
  Index query;
  Index key;
  Index value;
  Index heads;

  explicit Columns(const DecodeShape& shape) noexcept
      : query(shape.num_heads * shape.cache.head_dim),
        key(shape.cache.num_kv_heads * shape.cache.head_dim),
        value(shape.cache.num_kv_heads * shape.cache.value_dim),
        heads(shape.num_heads * shape.cache.value_dim) {}
};

/// Enough for any number of rows up to these, however they are shared among threads.
template <class T>
std::size_t product_bytes(Index rows, Index depth, Index cols, Index threads) {
  return static_cast<std::size_t>(threads) * product_workspace_bytes<T>(rows, depth, cols);
}

}  // namespace

template <class T>
MultiHeadAttentionDecodePlan<T>::MultiHeadAttentionDecodePlan(const DecodeShape& shape, const Mask& mask,
                                                              const ScoreOptions& options, Index threads)
    : shape_(shape),
      rotary_(options.rotary),
      mask_(mask),
      attention_(shape.cache, shape.num_heads, shape.max_new_tokens, mask, options, threads),
      threads_(std::min(threads, detail::kMaxThreads)) {
  require_positive(shape.d_in, "d_in");
  require_positive(shape.d_out, "d_out");
  require_possible(shape.d_in, "d_in");
  require_possible(shape.d_out, "d_out");
  const Columns cols(shape);
  const Index rows = shape.cache.batch_size * shape.max_new_tokens;
  require_product(rows, std::max({cols.query + cols.key + cols.value, cols.heads, shape.d_in, shape.d_out}),
                  "rows times columns");
  buffer_bytes_ = matrix_bytes<T>(rows, cols.query) + matrix_bytes<T>(rows, cols.key) +
                  matrix_bytes<T>(rows, cols.value) + matrix_bytes<T>(rows, cols.heads);
  // The tiles of the products and of the attention take turns in one place.
  workspace_bytes_ =
      buffer_bytes_ +
      std::max({product_bytes<T>(rows, shape.d_in, cols.query + cols.key + cols.value, threads_),
                product_bytes<T>(rows, cols.heads, shape.d_out, threads_), attention_.workspace_bytes()});
}

template <class T>
void MultiHeadAttentionDecodePlan<T>::check_tensors(const MultiHeadAttentionTensors<T>& tensors,
                                                    const KvCache<T>& cache) const {
  detail::require_planned(cache.shape(), shape_.cache);
  MultiHeadAttentionShape shape;
  shape.batch_size = shape_.cache.batch_size;
  shape.seq_len = detail::new_tokens_of(tensors.x.rows, "x", shape_.cache, shape_.max_new_tokens);
  shape.d_in = shape_.d_in;
  shape.d_out = shape_.d_out;
  shape.num_heads = shape_.num_heads;
  shape.num_kv_heads = shape_.cache.num_kv_heads;
  shape.head_dim = shape_.cache.head_dim;
  shape.value_dim = shape_.cache.value_dim;
  if (tensors.weights.data != nullptr || tensors.key_input.data != nullptr ||
      tensors.value_input.data != nullptr) {
    throw_argument_error(
        "weights, key_input or value_input is given, which a layer with a cache does not have");
  }
  check_layer_tensors(shape, mask_, tensors);
  cache.require_room(shape.seq_len, rotary_);
}

template <class T>
void MultiHeadAttentionDecodePlan<T>::run(const MultiHeadAttentionTensors<T>& tensors, KvCache<T>& cache,
                                          void* workspace, Executor* executor) const noexcept {
  const Columns cols(shape_);
  const Index rows = tensors.x.rows;
  auto* next = static_cast<std::byte*>(workspace);
  std::byte* const tiles = next + buffer_bytes_;
  const MatrixView<T> query = detail::take_matrix<T>(next, rows, cols.query);
  const MatrixView<T> key = detail::take_matrix<T>(next, rows, cols.key);
  const MatrixView<T> value = detail::take_matrix<T>(next, rows, cols.value);
  const MatrixView<T> own_heads = detail::take_matrix<T>(next, rows, cols.heads);
  const MatrixView<T> heads = tensors.heads.data != nullptr ? tensors.heads : own_heads;
  const ProductTerm<T> projections[] = {
      {tensors.w_q, query, tensors.b_q}, {tensors.w_k, key, tensors.b_k}, {tensors.w_v, value, tensors.b_v}};
  run_products<T>(tensors.x, projections, 3, tiles, threads_, executor);
  cache.store(key, value, rotary_);
  attention_.run(query, cache, heads, tiles, executor);
  run_product<T>(heads, tensors.w_o, tensors.out, tiles, threads_, executor, tensors.b_o);
}

template class MultiHeadAttentionDecodePlan<float>;
template class MultiHeadAttentionDecodePlan<double>;

}  // namespace heed
