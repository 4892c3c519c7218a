#pragma once

// Plan once, run many times: the engine under scaled_dot_product_attention, on views instead of Eigen
// matrices.

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>

#include "heed/executor.hpp"
#include "heed/mask.hpp"
#include "heed/view.hpp"

namespace heed {

/// The sizes of one attention. A batch is a stack of rows, sequence after sequence; head h is the column
/// block [h * head_dim, (h + 1) * head_dim). Query head h reads key/value head h / (num_heads /
/// num_kv_heads).
struct AttentionShape {
  Index batch_size = 1;
  Index num_heads = 1;
  Index num_kv_heads = 1;
  Index query_len = 0;  // of one sequence
  Index kv_len = 0;     // of one sequence
  Index head_dim = 0;
  Index value_dim = 0;
};

/// What one run reads and writes.
template <class T>
struct AttentionTensors {
  MatrixView<const T> query;  // (batch_size * query_len) x (num_heads * head_dim)
  MatrixView<const T> key;    // (batch_size * kv_len) x (num_kv_heads * head_dim)
  MatrixView<const T> value;  // (batch_size * kv_len) x (num_kv_heads * value_dim)
  MatrixView<T> out;          // (batch_size * query_len) x (num_heads * value_dim)
  MatrixView<T> weights;      // (batch_size * num_heads * query_len) x kv_len, or left empty: not wanted
  MatrixView<T> logsumexp;    // (batch_size * query_len) x num_heads, or left empty: not wanted
};

/// Throws ShapeError if a size is negative, a head size below 1, num_heads no multiple of num_kv_heads, the
/// mask does not fit, or scale is not finite (ArgumentError).
void check_attention(const AttentionShape& shape, const Mask& mask, std::optional<double> scale);

namespace detail {

struct UntypedAttentionTensors {
  UntypedView query, key, value, bias, out, weights, logsumexp;
};
void check_tensors(const AttentionShape& shape, const UntypedAttentionTensors& tensors);

}  // namespace detail

/// Throws ShapeError for a view of the wrong size, ArgumentError if one that is written overlaps another one.
template <class T>
void check_tensors(const AttentionShape& shape, const Mask& mask, const AttentionTensors<T>& tensors) {
  detail::check_tensors(shape, {untyped(tensors.query), untyped(tensors.key), untyped(tensors.value),
                                untyped(mask.bias_as<T>()), untyped(tensors.out), untyped(tensors.weights),
                                untyped(tensors.logsumexp)});
}

/// out = softmax(scale * query * key^T + bias, over visible keys) * value, for each head of each sequence
/// (Vaswani et al. 2017, equation 1; the tiles and the online softmax: Dao 2023, "FlashAttention-2",
/// Algorithm 1).
///
/// T is float or double. A row's bits depend on its own query and the keys and values that it sees, not on
/// threads, batch, chunks, strides or alignment. A row that sees no key gives zeros and a logsumexp of -inf.
///
///   AttentionShape shape;
///   shape.num_heads = shape.num_kv_heads = 12;
///   shape.query_len = shape.kv_len = n;
///   shape.head_dim = shape.value_dim = 64;
///   const AttentionPlan<float> plan(shape, causal(), std::nullopt, pool.concurrency());
///   Workspace workspace(plan.workspace_bytes());
///   AttentionTensors<float> tensors;
///   tensors.query = view(query);  // and key, value; tensors.out = mutable_view(out)
///   plan.check(tensors);
///   plan.run(tensors, workspace.data(), &pool);  // as often as wanted
template <class T>
class AttentionPlan {
  static_assert(
      std::is_same_v<T, float> || std::is_same_v<T, double>,
      "plans run on kernels, for float and double; scaled_dot_product_attention takes other scalars");

 public:
  /// A bias in the mask is looked at by each run, and must live as long. An executor of less concurrency than
  /// `threads` is right too. scale defaults to 1 / sqrt(head_dim). threads: how many tasks of a run may be
  /// under way at once. Throws as check_attention does, ArgumentError if threads < 1 or a bias is of another
  /// type than T.
  explicit AttentionPlan(const AttentionShape& shape, const Mask& mask = {},
                         std::optional<double> scale = std::nullopt, Index threads = 1);

  const AttentionShape& shape() const noexcept { return shape_; }
  const Mask& mask() const noexcept { return mask_; }

  /// Scratch memory of one run, exact: O(head_dim + value_dim) for each thread, nothing that grows with the
  /// lengths.
  std::size_t workspace_bytes() const noexcept;

  /// Throws as check_tensors does.
  void check(const AttentionTensors<T>& tensors) const { check_tensors(shape_, mask_, tensors); }

  /// Runs on the calling thread, or on the executor's. The tensors are as check() wants them; workspace has
  /// workspace_bytes() bytes, aligned to Workspace::alignment, and serves one run at a time. Allocates
  /// nothing and locks nothing itself. A const plan may run on several threads at once, each with its own
  /// workspace.
  void run(const AttentionTensors<T>& tensors, void* workspace, Executor* executor = nullptr) const noexcept;

  /// Instruction set, tiles, blocks, threads and bytes of the workspace, each with the reason why: lines for
  /// people, the words may change.
  std::string to_string() const;

 private:
  void run_block(const AttentionTensors<T>& tensors, Index item, std::byte* workspace) const noexcept;
  Index num_items() const noexcept;

  AttentionShape shape_;
  Mask mask_;
  MatrixView<const T> bias_;
  T scale_;
  Index query_offset_;
  Index asked_threads_;
  Index threads_;  // no more than there are blocks
  Index block_rows_;
  Index blocks_per_head_;
};

extern template class AttentionPlan<float>;
extern template class AttentionPlan<double>;

}  // namespace heed
