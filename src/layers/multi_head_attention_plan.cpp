// MultiHeadAttentionPlan: project, attend, project, in a workspace of one run.

#include "heed/layers/multi_head_attention_plan.hpp"

#include <algorithm>
#include <string>

#include "attention/blocks.hpp"
#include "attention/plan_text.hpp"
#include "attention/require.hpp"
#include "heed/core/workspace.hpp"
#include "heed/layers/product.hpp"
#include "layers/layer_buffers.hpp"

namespace heed {

using detail::matrix_bytes;
using detail::require_positive;
using detail::require_possible;
using detail::require_product;

namespace {

/// Rows and columns of what lies between the products. Made by every run, so without a copy of the starts.
struct Sizes {
  Index rows;     ///< Of x, query, heads and out.
  Index kv_rows;  ///< Of key and value.
  Index query_cols;
  Index key_cols;
  Index value_cols;
  Index head_cols;
  Index d_key;
  Index d_value;

  explicit Sizes(const MultiHeadAttentionShape& shape) noexcept {
    const Index num_kv_heads = shape.num_kv_heads.value_or(shape.num_heads);
    rows = shape.rows();
    kv_rows = shape.kv_rows();
    query_cols = shape.num_heads * shape.head_dim;
    key_cols = num_kv_heads * shape.head_dim;
    value_cols = num_kv_heads * shape.value_dim;
    head_cols = shape.num_heads * shape.value_dim;
    d_key = shape.is_cross() ? shape.d_key : shape.d_in;
    d_value = shape.is_cross() ? shape.d_value : shape.d_in;
  }
};

}  // namespace

AttentionShape attention_shape_of(const MultiHeadAttentionShape& shape) {
  AttentionShape attention;
  attention.batch_size = shape.batch_size;
  attention.num_heads = shape.num_heads;
  attention.num_kv_heads = shape.num_kv_heads.value_or(shape.num_heads);
  attention.query_len = shape.seq_len;
  attention.kv_len = shape.kv_len.value_or(shape.seq_len);
  attention.head_dim = shape.head_dim;
  attention.value_dim = shape.value_dim;
  attention.query_starts = shape.query_starts;
  attention.kv_starts = shape.is_cross() ? shape.kv_starts : shape.query_starts;
  return attention;
}

void detail::check_layer_tensors(const MultiHeadAttentionShape& shape, const Mask& mask,
                                 const UntypedMultiHeadAttentionTensors& tensors) {
  const Sizes sizes(shape);
  const Index num_kv_heads = shape.num_kv_heads.value_or(shape.num_heads);
  const auto sequences = [&](Index length, Index rows) {
    if (!shape.query_starts.empty())
      return count_of(shape.batch_size, "sequence") + " with " + count_of(rows, "position") + " in all";
    return count_of(shape.batch_size, "sequence") + " of " + count_of(length, "position");
  };
  const auto positions = [&] { return sequences(shape.seq_len, sizes.rows); };
  const auto context = [&] { return sequences(shape.kv_len.value_or(shape.seq_len), sizes.kv_rows); };
  const auto heads_of = [](Index heads, Index dim) {
    return [heads, dim] { return count_of(heads, "head") + " of " + std::to_string(dim); };
  };
  const auto queries = heads_of(shape.num_heads, shape.head_dim);
  const auto keys = heads_of(num_kv_heads, shape.head_dim);
  const auto values = heads_of(num_kv_heads, shape.value_dim);
  const auto heads = heads_of(shape.num_heads, shape.value_dim);
  require_size(tensors.x, "x", sizes.rows, shape.d_in, positions);
  require_size(tensors.w_q, "w_q", shape.d_in, sizes.query_cols, queries);
  require_size(tensors.w_k, "w_k", sizes.d_key, sizes.key_cols, keys);
  require_size(tensors.w_v, "w_v", sizes.d_value, sizes.value_cols, values);
  require_size(tensors.w_o, "w_o", sizes.head_cols, shape.d_out, heads);
  if (wanted(tensors.b_q)) require_size(tensors.b_q, "b_q", 1, sizes.query_cols, queries);
  if (wanted(tensors.b_k)) require_size(tensors.b_k, "b_k", 1, sizes.key_cols, keys);
  if (wanted(tensors.b_v)) require_size(tensors.b_v, "b_v", 1, sizes.value_cols, values);
  if (wanted(tensors.b_o)) require_size(tensors.b_o, "b_o", 1, shape.d_out, heads);
  if (shape.is_cross()) {
    require_size(tensors.key_input, "key_input", sizes.kv_rows, shape.d_key, context);
    require_size(tensors.value_input, "value_input", sizes.kv_rows, shape.d_value, context);
  }
  require_size(tensors.out, "out", sizes.rows, shape.d_out, positions);
  if (wanted(tensors.weights)) {
    require_size(tensors.weights, "weights", sizes.rows * shape.num_heads,
                 shape.kv_len.value_or(shape.seq_len), positions);
  }
  if (wanted(tensors.heads)) require_size(tensors.heads, "heads", sizes.rows, sizes.head_cols, heads);
  require_results_apart({{&tensors.out, "out"}, {&tensors.weights, "weights"}, {&tensors.heads, "heads"}},
                        {{&tensors.x, "x"},
                         {&tensors.w_q, "w_q"},
                         {&tensors.w_k, "w_k"},
                         {&tensors.w_v, "w_v"},
                         {&tensors.w_o, "w_o"},
                         {&tensors.b_q, "b_q"},
                         {&tensors.b_k, "b_k"},
                         {&tensors.b_v, "b_v"},
                         {&tensors.b_o, "b_o"},
                         {&tensors.key_input, "key_input"},
                         {&tensors.value_input, "value_input"}},
                        mask);
}

template <class T>
MultiHeadAttentionPlan<T>::MultiHeadAttentionPlan(const MultiHeadAttentionShape& shape, const Mask& mask,
                                                  const ScoreOptions& options, Index threads)
    : shape_(shape), attention_(attention_shape_of(shape), mask, options, threads), threads_(threads) {
  require_positive(shape.d_in, "d_in");
  require_positive(shape.d_out, "d_out");
  require_possible(shape.d_in, "d_in");
  require_possible(shape.d_out, "d_out");
  if (shape.is_cross()) {
    require_positive(shape.d_key, "d_key");
    require_positive(shape.d_value, "d_value");
    require_possible(shape.d_key, "d_key");
    require_possible(shape.d_value, "d_value");
  }
  const Sizes sizes(shape);
  require_possible(sizes.query_cols, "num_heads * head_dim");
  require_possible(sizes.key_cols, "num_kv_heads * head_dim");
  require_possible(sizes.value_cols, "num_kv_heads * value_dim");
  require_possible(sizes.head_cols, "num_heads * value_dim");
  const Index widest = std::max({sizes.query_cols + sizes.key_cols + sizes.value_cols, sizes.head_cols,
                                 shape.d_in, shape.d_out, sizes.d_key, sizes.d_value});
  require_product(std::max(sizes.rows, sizes.kv_rows), widest, "rows times columns");
  buffer_bytes_ =
      matrix_bytes<T>(sizes.rows, sizes.query_cols) + matrix_bytes<T>(sizes.kv_rows, sizes.key_cols) +
      matrix_bytes<T>(sizes.kv_rows, sizes.value_cols) + matrix_bytes<T>(sizes.rows, sizes.head_cols);
  // The tiles of the products and of the attention take turns in one place.
  std::size_t tiles = std::max(product_workspace_bytes<T>(sizes.rows, sizes.head_cols, shape.d_out, threads),
                               attention_.workspace_bytes());
  if (shape.is_cross()) {
    tiles = std::max({tiles, product_workspace_bytes<T>(sizes.rows, shape.d_in, sizes.query_cols, threads),
                      product_workspace_bytes<T>(sizes.kv_rows, sizes.d_key, sizes.key_cols, threads),
                      product_workspace_bytes<T>(sizes.kv_rows, sizes.d_value, sizes.value_cols, threads)});
  } else {
    tiles = std::max(
        tiles, product_workspace_bytes<T>(sizes.rows, shape.d_in,
                                          sizes.query_cols + sizes.key_cols + sizes.value_cols, threads));
  }
  workspace_bytes_ = buffer_bytes_ + tiles;
}

template <class T>
void MultiHeadAttentionPlan<T>::run(const MultiHeadAttentionTensors<T>& tensors, void* workspace,
                                    Executor* executor) const noexcept {
  const Sizes sizes(shape_);
  auto* next = static_cast<std::byte*>(workspace);
  std::byte* const tiles = next + buffer_bytes_;
  const MatrixView<T> query = detail::take_matrix<T>(next, sizes.rows, sizes.query_cols);
  const MatrixView<T> key = detail::take_matrix<T>(next, sizes.kv_rows, sizes.key_cols);
  const MatrixView<T> value = detail::take_matrix<T>(next, sizes.kv_rows, sizes.value_cols);
  const MatrixView<T> own_heads = detail::take_matrix<T>(next, sizes.rows, sizes.head_cols);
  const MatrixView<T> heads = tensors.heads.data != nullptr ? tensors.heads : own_heads;

  const ProductTerm<T> projections[] = {
      {tensors.w_q, query, tensors.b_q}, {tensors.w_k, key, tensors.b_k}, {tensors.w_v, value, tensors.b_v}};
  if (shape_.is_cross()) {
    run_products<T>(tensors.x, projections, 1, tiles, threads_, executor);
    run_products<T>(tensors.key_input, projections + 1, 1, tiles, threads_, executor);
    run_products<T>(tensors.value_input, projections + 2, 1, tiles, threads_, executor);
  } else {
    run_products<T>(tensors.x, projections, 3, tiles, threads_, executor);
  }

  // Head h reads columns [h * head_dim, (h + 1) * head_dim) of query, key and value where they are: no split,
  // no transpose.
  AttentionTensors<T> attention;
  attention.query = query;
  attention.key = key;
  attention.value = value;
  attention.out = heads;
  attention.weights = tensors.weights;
  attention_.run(attention, tiles, executor);

  run_product<T>(heads, tensors.w_o, tensors.out, tiles, threads_, executor, tensors.b_o);
}

template <class T>
std::string MultiHeadAttentionPlan<T>::to_string() const {
  const Sizes sizes(shape_);
  const auto size = [](Index rows, Index cols) {
    std::string text = "(";
    text += std::to_string(rows);
    return text + " x " + std::to_string(cols) + ")";
  };
  const std::string query = "query " + size(sizes.rows, sizes.query_cols);
  const std::string key = "key " + size(sizes.kv_rows, sizes.key_cols);
  const std::string value = "value " + size(sizes.kv_rows, sizes.value_cols);
  const std::string projections =
      shape_.is_cross()
          ? query + ": x times w_q; " + key + ": key_input times w_k; " + value + ": value_input times w_v\n"
          : query + ", " + key + ", " + value +
                ": x times w_q, w_k, w_v, in one pass, since they share the packed rows of x\n";
  return "layer " + std::string(sizeof(T) == 4 ? "float" : "double") + ": x " +
         size(sizes.rows, shape_.d_in) + " to out " + size(sizes.rows, shape_.d_out) + "\n" +  //
         "  1. " + projections +                                                               //
         "  2. heads " + size(sizes.rows, sizes.head_cols) + ": " +
         detail::indent_below(attention_.to_string(), "   ") +  //
         "  3. out: heads times w_o\n" +
         detail::plan_line("workspace", std::to_string(workspace_bytes_) + " bytes, of which:") +
         detail::plan_sizes({{buffer_bytes_, "query, key, value and heads"},
                             {workspace_bytes_ - buffer_bytes_,
                              "tiles of the products and of the attention, which take turns"}});
}

template class MultiHeadAttentionPlan<float>;
template class MultiHeadAttentionPlan<double>;

}  // namespace heed
