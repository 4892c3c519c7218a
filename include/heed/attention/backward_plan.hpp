#pragma once

// The gradients of attention, planned once and run many times, on views instead of Eigen matrices.

#include "heed/core/config.hpp"

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/attention/plan.hpp"
#include "heed/core/error.hpp"

namespace heed {

/// What one backward run reads and writes. Sizes are as in AttentionTensors.
template <class T>
struct AttentionBackwardTensors {
  MatrixView<const T> query;
  MatrixView<const T> key;
  MatrixView<const T> value;
  MatrixView<const T> out;        ///< What the forward run wrote.
  MatrixView<const T> logsumexp;  ///< What the forward run wrote.
  MatrixView<const T> grad_out;   ///< The size of out.
  MatrixView<T> grad_query;       ///< The size of query. A gradient that is left empty is not wanted.
  MatrixView<T> grad_key;
  MatrixView<T> grad_value;
  MatrixView<T> grad_sinks;  ///< 1 x num_heads.
  /// For each bias of the mask, in their order, a matrix of the bias's size, or an empty one: not wanted.
  /// num_grad_biases is their number, or 0: none is wanted.
  const MatrixView<T>* grad_biases = nullptr;
  Index num_grad_biases = 0;
};

namespace detail {

struct UntypedBackwardTensors {
  UntypedView query, key, value, out, logsumexp, grad_out, grad_query, grad_key, grad_value, grad_sinks;
  std::vector<UntypedView> grad_biases;
};
HEED_EXPORT void check_backward_tensors(const AttentionShape& shape, const Mask& mask,
                                        const ScoreOptions& options, const UntypedBackwardTensors& tensors);

}  // namespace detail

/// Throws ShapeError for a view of the wrong size or a wrong number of biases, ArgumentError if one that is
/// written overlaps another one, or the gradient of sinks is wanted and there are none.
template <class T>
void check_backward_tensors(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
                            const AttentionBackwardTensors<T>& tensors) {
  detail::UntypedBackwardTensors views{untyped(tensors.query),
                                       untyped(tensors.key),
                                       untyped(tensors.value),
                                       untyped(tensors.out),
                                       untyped(tensors.logsumexp),
                                       untyped(tensors.grad_out),
                                       untyped(tensors.grad_query),
                                       untyped(tensors.grad_key),
                                       untyped(tensors.grad_value),
                                       untyped(tensors.grad_sinks),
                                       {}};
  if (tensors.num_grad_biases > 0 && tensors.grad_biases == nullptr) {
    throw_argument_error("grad_biases is null, num_grad_biases is " +
                         std::to_string(tensors.num_grad_biases));
  }
  for (Index i = 0; i < tensors.num_grad_biases; ++i)
    views.grad_biases.push_back(untyped(tensors.grad_biases[i]));
  detail::check_backward_tensors(shape, mask, options, views);
}

/// The gradients of a loss with respect to query, key, value, biases and sinks of an attention, from that
/// with respect to out. The weights are computed anew from the logsumexp, tile by tile (Dao et al. 2022,
/// "FlashAttention", Algorithm 4; Dao 2023, Algorithm 2): no query_len x kv_len matrix exists.
///
/// T is float or double. Every gradient has the same bits for any number of threads, any strides and
/// alignment; the gradient of a query depends on what its row sees alone. A row that sees no key has
/// gradients of 0 and adds nothing to others; what no row sees is never read into a result. Keys and values
/// that several query heads share, and biases that several heads, sequences or rows share, get the sum, head
/// after head and row after row.
///
///   const AttentionBackwardPlan<float> plan(shape, causal(), {}, pool.concurrency());
///   Workspace workspace(plan.workspace_bytes());
///   AttentionBackwardTensors<float> tensors;  // query, key, value, out, logsumexp, grad_out; grad_query,
///   ... plan.check_tensors(tensors); plan.run(tensors, workspace.data(), &pool);
template <class T>
class HEED_EXPORT AttentionBackwardPlan {
  static_assert(
      std::is_same_v<T, float> || std::is_same_v<T, double>,
      "plans run on kernels, for float and double; scaled_dot_product_attention_backward takes other "
      "scalars");

 public:
  /// Plans a backward run, as AttentionPlan plans a forward one, without functions of the caller, which have
  /// no gradients here. Throws as check_attention does, ArgumentError if threads < 1, ShapeError if the sums
  /// of a head are more than any memory holds.
  explicit AttentionBackwardPlan(const AttentionShape& shape, const Mask& mask = {},
                                 const ScoreOptions& options = {}, Index threads = 1);

  const AttentionShape& shape() const noexcept { return shape_; }
  const Mask& mask() const noexcept { return mask_; }

  /// Returns the bytes of scratch memory of one run, exactly: for each thread O(head_dim + value_dim) *
  /// (query_len + kv_len), for the sums of one head, and with sinks a number for each row.
  std::size_t workspace_bytes() const noexcept;

  /// Throws as check_backward_tensors does.
  void check_tensors(const AttentionBackwardTensors<T>& tensors) const {
    check_backward_tensors(shape_, mask_, options_, tensors);
  }

  /// Writes the gradients. Checks nothing, allocates nothing and throws nothing: see AttentionPlan::run.
  void run(const AttentionBackwardTensors<T>& tensors, void* workspace,
           Executor* executor = nullptr) const noexcept;

 private:
  struct HEED_NO_EXPORT Run;  // one call of run()

  AttentionShape shape_;
  Mask mask_;
  ScoreOptions options_;
  detail::ScoreNumbers<T> numbers_;
  Index threads_;     ///< No more than there are items.
  Index chunk_keys_;  ///< Keys of an item that is for keys, 0: an item is all of a group of heads.
  Index chunk_rows_;  ///< Rows of an item that is for queries.
  std::size_t kernel_bytes_;
  std::size_t thread_bytes_;
};

extern template class AttentionBackwardPlan<float>;
extern template class AttentionBackwardPlan<double>;

}  // namespace heed
