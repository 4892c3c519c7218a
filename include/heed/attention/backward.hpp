#pragma once

// Gradients of attention on Eigen matrices.
//
//   const auto forward = heed::scaled_dot_product_attention_with_logsumexp(query, key, value, options);
//   const auto grads =
//       heed::scaled_dot_product_attention_backward(query, key, value, forward, grad_out, options);
//   query -= rate * grads.query;
//
// docs/training.md derives them.

#include "heed/core/config.hpp"

#include <utility>
#include <vector>

#include "heed/attention/backward_plan.hpp"
#include "heed/attention/detail/reference_backward.hpp"
#include "heed/attention/scaled_dot_product_attention.hpp"

namespace heed {

/// The gradients that scaled_dot_product_attention_backward() returns.
template <class Scalar>
struct AttentionGradients {
  Matrix<Scalar> query;                ///< The gradient with respect to query, of its size.
  Matrix<Scalar> key;                  ///< The gradient with respect to key, of its size.
  Matrix<Scalar> value;                ///< The gradient with respect to value, of its size.
  std::vector<Matrix<Scalar>> biases;  ///< A gradient for each bias of the mask, of its size.
  Matrix<Scalar> sinks;                ///< 1 x num_heads; empty without sinks.
};

namespace detail {

template <class Q, class K, class V, class O, class L, class G>
AttentionBackwardTensors<typename Q::Scalar> backward_tensors(const Eigen::DenseBase<Q>& query,
                                                              const Eigen::DenseBase<K>& key,
                                                              const Eigen::DenseBase<V>& value,
                                                              const Eigen::DenseBase<O>& out,
                                                              const Eigen::DenseBase<L>& logsumexp,
                                                              const Eigen::DenseBase<G>& grad_out) {
  static_assert(same_scalar<Q, K, V, O, L, G>, "all matrices need the same scalar type: cast them");
  const auto inputs = input_tensors(query, key, value);
  AttentionBackwardTensors<typename Q::Scalar> tensors;
  tensors.query = inputs.query;
  tensors.key = inputs.key;
  tensors.value = inputs.value;
  tensors.out = view(out);
  tensors.logsumexp = view(logsumexp);
  tensors.grad_out = view(grad_out);
  return tensors;
}

/// Gradients of everything that there is, with room for them, and the tensors' views of it. To be kept in
/// place while the tensors are used.
template <class Scalar>
struct GradientRoom {
  AttentionGradients<Scalar> grads;
  std::vector<MatrixView<Scalar>> biases;

  GradientRoom(const AttentionOptions& options, AttentionBackwardTensors<Scalar>& tensors) {
    const auto like = [](Matrix<Scalar>& grad, Index rows, Index cols) {
      grad.resize(rows, cols);
      return mutable_view(grad);
    };
    tensors.grad_query = like(grads.query, tensors.query.rows, tensors.query.cols);
    tensors.grad_key = like(grads.key, tensors.key.rows, tensors.key.cols);
    tensors.grad_value = like(grads.value, tensors.value.rows, tensors.value.cols);
    if (!options.sinks.empty()) tensors.grad_sinks = like(grads.sinks, 1, options.num_heads);
    for (const MaskMatrix& matrix : options.mask.matrices()) {
      if (matrix.kind == MaskMatrix::Kind::bias)
        grads.biases.emplace_back(matrix.entries.rows, matrix.entries.cols);
    }
    for (Matrix<Scalar>& bias : grads.biases) biases.push_back(mutable_view(bias));
    tensors.grad_biases = biases.data();
    tensors.num_grad_biases = static_cast<Index>(biases.size());
  }
  GradientRoom(const GradientRoom&) = delete;
  GradientRoom& operator=(const GradientRoom&) = delete;
};

/// Checks everything, then runs the engine or, for scalars without kernels, the reference loops.
template <class Scalar>
void run_backward(const AttentionShape& shape, const AttentionOptions& options,
                  const AttentionBackwardTensors<Scalar>& tensors) {
  const ScoreOptions scores = score_options(options);
  if constexpr (has_kernels<Scalar>) {
    const AttentionBackwardPlan<Scalar> plan(shape, options.mask, scores, threads_of(options.executor));
    plan.check_tensors(tensors);
    const Workspace workspace(plan.workspace_bytes());
    plan.run(tensors, workspace.data(), options.executor);
  } else {
    check_attention(shape, options.mask, scores, scalar_type<Scalar>());
    check_backward_tensors(shape, options.mask, scores, tensors);
    reference::attention_backward(shape, options.mask, scores, tensors);
  }
}

}  // namespace detail

/// Returns the gradients of a loss with respect to query, key and value, to each bias of the mask and to the
/// sinks, from grad_out, that with respect to out. out and logsumexp are what the forward call returned for
/// the same query, key, value and options. Equations: Dao et al. 2022, appendix B.2.
///
/// Any Eigen expressions with memory, as for the forward call. Throws ShapeError or ArgumentError if sizes do
/// not fit. Memory: for each thread the sums of one head, O(head_dim + value_dim) * (query_len + kv_len); no
/// query_len x kv_len matrix. Threads: the caller's, or the executor's; the same bits for any number of them.
template <class Q, class K, class V, class O, class L, class G>
AttentionGradients<typename Q::Scalar> scaled_dot_product_attention_backward(
    const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key, const Eigen::DenseBase<V>& value,
    const Eigen::DenseBase<O>& out, const Eigen::DenseBase<L>& logsumexp, const Eigen::DenseBase<G>& grad_out,
    const AttentionOptions& options = {}) {
  using Scalar = typename Q::Scalar;
  auto tensors = detail::backward_tensors(query, key, value, out, logsumexp, grad_out);
  const AttentionShape shape = detail::checked_shape(detail::input_tensors(query, key, value), options);
  detail::GradientRoom<Scalar> room(options, tensors);
  detail::run_backward(shape, options, tensors);
  return std::move(room.grads);
}

/// Returns the gradients of a loss from the forward call's result, which holds out and logsumexp.
template <class Q, class K, class V, class Scalar, class G>
AttentionGradients<Scalar> scaled_dot_product_attention_backward(const Eigen::DenseBase<Q>& query,
                                                                 const Eigen::DenseBase<K>& key,
                                                                 const Eigen::DenseBase<V>& value,
                                                                 const AttentionResult<Scalar>& forward,
                                                                 const Eigen::DenseBase<G>& grad_out,
                                                                 const AttentionOptions& options = {}) {
  return scaled_dot_product_attention_backward(query, key, value, forward.out, forward.logsumexp, grad_out,
                                               options);
}

}  // namespace heed
