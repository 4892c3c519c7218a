#pragma once

// Plan once, run many times: a whole layer of multi-head attention, on views instead of Eigen matrices.

#include "heed/core/config.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention/mask.hpp"
#include "heed/attention/plan.hpp"
#include "heed/core/executor.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/view.hpp"

namespace heed {

/// The sizes of one layer. Sequences of equal length are stacked in the rows of x.
struct MultiHeadAttentionShape {
  Index batch_size = 1;
  Index seq_len = 0;  ///< Rows of one sequence, or of the longest one in a ragged batch.
  Index d_in = 0;     ///< Columns of x.
  Index d_out = 0;    ///< Columns of out.
  Index num_heads = 1;
  Index head_dim = 0;
  Index value_dim = 0;
  std::optional<Index> num_kv_heads = std::nullopt;  ///< Default: num_heads.
  /// Cross-attention: keys and values come from other sequences. Default: from x.
  std::optional<Index> kv_len = std::nullopt;
  Index d_key = 0;    ///< Columns of what keys are made from.
  Index d_value = 0;  ///< Columns of what values are made from.
  /// A ragged batch, as in AttentionShape. In self-attention kv_starts stays empty.
  std::vector<Index> query_starts = {};
  std::vector<Index> kv_starts = {};

  bool is_cross() const noexcept { return kv_len.has_value(); }

  /// Returns the rows of x and out.
  Index rows() const noexcept { return rows_of(query_starts, seq_len); }
  /// Returns the rows of key_input and value_input, or of x.
  Index kv_rows() const noexcept { return is_cross() ? rows_of(kv_starts, *kv_len) : rows(); }

 private:
  Index rows_of(const std::vector<Index>& starts, Index length) const noexcept {
    return starts.empty() ? batch_size * length : starts[static_cast<std::size_t>(batch_size)];
  }
};

/// What one run reads and writes. What is left empty is not there, or not wanted.
template <class T>
struct MultiHeadAttentionTensors {
  MatrixView<const T> x;         ///< (batch_size * seq_len) x d_in.
  MatrixView<const T> w_q;       ///< d_in x (num_heads * head_dim).
  MatrixView<const T> w_k;       ///< d_in (cross: d_key) x (num_kv_heads * head_dim).
  MatrixView<const T> w_v;       ///< d_in (cross: d_value) x (num_kv_heads * value_dim).
  MatrixView<const T> w_o;       ///< (num_heads * value_dim) x d_out.
  MatrixView<T> out;             ///< (batch_size * seq_len) x d_out.
  MatrixView<T> weights;         ///< (batch_size * num_heads * seq_len) x kv_len.
  MatrixView<T> heads;           ///< (batch_size * seq_len) x (num_heads * value_dim): the heads before w_o.
  MatrixView<const T> b_q = {};  ///< 1 x the columns of w_q, or empty; b_k, b_v and b_o fit w_k, w_v and w_o.
  MatrixView<const T> b_k = {};
  MatrixView<const T> b_v = {};
  MatrixView<const T> b_o = {};
  MatrixView<const T> key_input = {};    ///< Cross: (batch_size * kv_len) x d_key.
  MatrixView<const T> value_input = {};  ///< Cross: (batch_size * kv_len) x d_value.
};

/// Returns the shape of the attention inside a layer.
HEED_EXPORT AttentionShape attention_shape_of(const MultiHeadAttentionShape& shape);

namespace detail {

struct UntypedMultiHeadAttentionTensors {
  UntypedView x, w_q, w_k, w_v, w_o, out, weights, heads, b_q, b_k, b_v, b_o, key_input, value_input;
};
HEED_EXPORT void check_layer_tensors(const MultiHeadAttentionShape& shape, const Mask& mask,
                                     const UntypedMultiHeadAttentionTensors& tensors);

}  // namespace detail

/// Throws ShapeError for a view of the wrong size, ArgumentError if one that is written overlaps another one.
template <class T>
void check_layer_tensors(const MultiHeadAttentionShape& shape, const Mask& mask,
                         const MultiHeadAttentionTensors<T>& tensors) {
  detail::check_layer_tensors(
      shape, mask,
      {untyped(tensors.x), untyped(tensors.w_q), untyped(tensors.w_k), untyped(tensors.w_v),
       untyped(tensors.w_o), untyped(tensors.out), untyped(tensors.weights), untyped(tensors.heads),
       untyped(tensors.b_q), untyped(tensors.b_k), untyped(tensors.b_v), untyped(tensors.b_o),
       untyped(tensors.key_input), untyped(tensors.value_input)});
}

/// out = concat over heads of softmax(q_h k_h^T / sqrt(head_dim)) v_h, times w_o + b_o, with q = x w_q + b_q,
/// and k and v are products of w_k and w_v with x, or with key_input and value_input (Vaswani et al. 2017,
/// section 3.2.2). T is float or double. Bits are as AttentionPlan promises.
template <class T>
class HEED_EXPORT MultiHeadAttentionPlan {
  static_assert(detail::require_kernels<T>());

 public:
  /// Plans runs of one shape. At most `threads` tasks of a run are under way at once. Throws ShapeError or
  /// ArgumentError if sizes, mask or options make no sense.
  explicit MultiHeadAttentionPlan(const MultiHeadAttentionShape& shape, const Mask& mask = {},
                                  const ScoreOptions& options = {}, Index threads = 1);

  const MultiHeadAttentionShape& shape() const noexcept { return shape_; }

  /// Returns the bytes of scratch memory of one run, exactly: query, key, value and heads, and the tiles of
  /// each thread.
  std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }

  /// Throws as check_layer_tensors does.
  void check_tensors(const MultiHeadAttentionTensors<T>& tensors) const {
    check_layer_tensors(shape_, attention_.mask(), tensors);
  }

  /// Runs on the calling thread, or on the executor's, as many tasks at once as the plan has threads. The
  /// tensors are as check_tensors() wants them; workspace has workspace_bytes() bytes, aligned to
  /// Workspace::alignment, and serves one run at a time. Allocates nothing and locks nothing itself.
  void run(const MultiHeadAttentionTensors<T>& tensors, void* workspace,
           Executor* executor = nullptr) const noexcept;

  /// Describes the steps, the attention's plan and the bytes of the workspace: lines for people, whose words
  /// may change.
  std::string to_string() const;

 private:
  MultiHeadAttentionShape shape_;
  AttentionPlan<T> attention_;
  std::size_t buffer_bytes_;  ///< Bytes of query, key, value and heads, each on a cache line of its own.
  std::size_t workspace_bytes_;
  Index threads_;
};

extern template class MultiHeadAttentionPlan<float>;
extern template class MultiHeadAttentionPlan<double>;

}  // namespace heed
