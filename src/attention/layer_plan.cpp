#include <algorithm>
#include <optional>
#include <string>

#include "attention/blocks.hpp"
#include "attention/check.hpp"
#include "attention/plan_text.hpp"
#include "heed/multi_head_attention_plan.hpp"
#include "heed/product_plan.hpp"
#include "heed/workspace.hpp"

namespace heed {

using detail::require_positive;
using detail::require_possible;
using detail::require_product;

namespace {

AttentionShape attention_shape(const LayerShape& shape) {
  return {shape.batch_size, shape.num_heads, shape.num_heads, shape.seq_len,
          shape.seq_len,    shape.head_dim,  shape.value_dim};
}

template <class T>
std::size_t matrix_bytes(Index rows, Index cols) {
  return detail::round_to_line(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) * sizeof(T));
}

template <class T>
MatrixView<T> row_major(std::byte* data, Index rows, Index cols) {
  return {reinterpret_cast<T*>(data), rows, cols, cols, 1};
}

}  // namespace

void detail::check_layer_tensors(const LayerShape& shape, const Mask& mask,
                                 const UntypedLayerTensors& tensors) {
  const Index rows = shape.batch_size * shape.seq_len;
  const Index key_cols = shape.num_heads * shape.head_dim;
  const Index value_cols = shape.num_heads * shape.value_dim;
  const auto positions = [&] {
    return count_of(shape.batch_size, "sequence") + " of " + count_of(shape.seq_len, "position");
  };
  const auto heads = [&] {
    return count_of(shape.num_heads, "head") + " of " + std::to_string(shape.head_dim);
  };
  const auto values = [&] {
    return count_of(shape.num_heads, "head") + " of " + std::to_string(shape.value_dim);
  };
  require_size(tensors.x, "x", rows, shape.d_in, positions);
  require_size(tensors.w_q, "w_q", shape.d_in, key_cols, heads);
  require_size(tensors.w_k, "w_k", shape.d_in, key_cols, heads);
  require_size(tensors.w_v, "w_v", shape.d_in, value_cols, values);
  require_size(tensors.w_o, "w_o", value_cols, shape.d_out, values);
  require_size(tensors.out, "out", rows, shape.d_out, positions);
  if (wanted(tensors.weights)) {
    require_size(tensors.weights, "weights", rows * shape.num_heads, shape.seq_len, positions);
  }
  if (wanted(tensors.heads)) require_size(tensors.heads, "heads", rows, value_cols, values);
  const auto require_apart_from_inputs = [&](const UntypedView& written, const char* name) {
    require_apart(written, name, tensors.x, "x");
    require_apart(written, name, tensors.w_q, "w_q");
    require_apart(written, name, tensors.w_k, "w_k");
    require_apart(written, name, tensors.w_v, "w_v");
    require_apart(written, name, tensors.w_o, "w_o");
    for (const MaskMatrix& matrix : mask.matrices())
      require_apart(written, name, matrix.entries, name_of(matrix.kind));
  };
  require_apart_from_inputs(tensors.out, "out");
  require_apart_from_inputs(tensors.weights, "weights");
  require_apart_from_inputs(tensors.heads, "heads");
  require_apart(tensors.out, "out", tensors.weights, "weights");
  require_apart(tensors.out, "out", tensors.heads, "heads");
  require_apart(tensors.weights, "weights", tensors.heads, "heads");
}

template <class T>
MultiHeadAttentionPlan<T>::MultiHeadAttentionPlan(const LayerShape& shape, const Mask& mask, Index threads)
    : shape_(shape), attention_(attention_shape(shape), mask, {}, threads), threads_(threads) {
  require_positive(shape.d_in, "d_in");
  require_positive(shape.d_out, "d_out");
  require_possible(shape.d_in, "d_in");
  require_possible(shape.d_out, "d_out");
  const Index rows = shape.batch_size * shape.seq_len;
  const Index key_cols = shape.num_heads * shape.head_dim;
  const Index value_cols = shape.num_heads * shape.value_dim;
  require_product(rows, std::max({2 * key_cols + value_cols, value_cols, shape.d_in, shape.d_out}),
                  "rows times columns");
  buffer_bytes_ = 2 * matrix_bytes<T>(rows, key_cols) + 2 * matrix_bytes<T>(rows, value_cols);
  // The tiles of the products and of the attention take turns in one place.
  const std::size_t tiles = std::max(
      {product_workspace_bytes<T>(rows, shape.d_in, 2 * key_cols + value_cols, threads),
       product_workspace_bytes<T>(rows, value_cols, shape.d_out, threads), attention_.workspace_bytes()});
  workspace_bytes_ = buffer_bytes_ + tiles;
}

template <class T>
void MultiHeadAttentionPlan<T>::run(const LayerTensors<T>& tensors, void* workspace,
                                    Executor* executor) const noexcept {
  const Index rows = shape_.batch_size * shape_.seq_len;
  const Index key_cols = shape_.num_heads * shape_.head_dim;
  const Index value_cols = shape_.num_heads * shape_.value_dim;
  auto* next = static_cast<std::byte*>(workspace);
  std::byte* const tiles = next + buffer_bytes_;
  const auto take = [&](Index cols) {
    const MatrixView<T> matrix = row_major<T>(next, rows, cols);
    next += matrix_bytes<T>(rows, cols);
    return matrix;
  };
  const MatrixView<T> query = take(key_cols);
  const MatrixView<T> key = take(key_cols);
  const MatrixView<T> value = take(value_cols);
  const MatrixView<T> own_heads = take(value_cols);
  const MatrixView<T> heads = tensors.heads.data != nullptr ? tensors.heads : own_heads;

  const ProductTerm<T> projections[] = {{tensors.w_q, query}, {tensors.w_k, key}, {tensors.w_v, value}};
  run_products<T>(tensors.x, projections, 3, tiles, threads_, executor);

  // Head h reads columns [h * head_dim, (h + 1) * head_dim) of query, key and value where they are: no split,
  // no transpose.
  AttentionTensors<T> attention;
  attention.query = query;
  attention.key = key;
  attention.value = value;
  attention.out = heads;
  attention.weights = tensors.weights;
  attention_.run(attention, tiles, executor);

  run_product<T>(heads, tensors.w_o, tensors.out, tiles, threads_, executor);
}

template <class T>
std::string MultiHeadAttentionPlan<T>::to_string() const {
  const auto size = [this](Index cols) {
    std::string text = "(";
    text += std::to_string(shape_.batch_size * shape_.seq_len);
    return text + " x " + std::to_string(cols) + ")";
  };
  const std::string keys = size(shape_.num_heads * shape_.head_dim);
  const std::string values = size(shape_.num_heads * shape_.value_dim);
  return "layer " + std::string(sizeof(T) == 4 ? "float" : "double") + ": x " + size(shape_.d_in) +
         " to out " + size(shape_.d_out) + "\n" +  //
         "  1. query " + keys + ", key " + keys + ", value " + values + ": x times w_q, w_k, w_v\n" +
         "  2. heads " + values + ": " + detail::indent_below(attention_.to_string(), "   ") +  //
         "  3. out: heads times w_o\n" +
         detail::plan_line("workspace", std::to_string(workspace_bytes_) + " bytes, of which:") +
         detail::plan_sizes({{buffer_bytes_, "query, key, value and heads"},
                             {workspace_bytes_ - buffer_bytes_,
                              "tiles of the products and of the attention, which take turns"}});
}

template class MultiHeadAttentionPlan<float>;
template class MultiHeadAttentionPlan<double>;

}  // namespace heed
