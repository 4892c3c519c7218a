#pragma once

// Scaled dot-product attention on Eigen matrices (Vaswani et al. 2017, section 3.2.1).
//
//   Eigen::MatrixXf out = heed::scaled_dot_product_attention(query, key, value, {.mask = heed::causal()});
//
// Rows are positions. Several heads stand side by side in the columns, several sequences one after another in
// the rows.

#include "heed/core/config.hpp"

#include <algorithm>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/attention/mask.hpp"
#include "heed/attention/mask_matrix.hpp"
#include "heed/attention/options.hpp"
#include "heed/attention/plan.hpp"
#include "heed/attention/reference.hpp"
#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/workspace.hpp"

namespace heed {

/// The weights of every head: rows x columns are queries x keys.
template <class Scalar>
struct AttentionWeights {
  Matrix<Scalar> stacked;  ///< (batch_size * num_heads * query_len) x kv_len, in a ragged batch too.
  Index batch_size = 0;
  Index num_heads = 0;
  Index query_len = 0;
  Index kv_len = 0;
  std::vector<Index> query_starts = {};
  std::vector<Index> kv_starts = {};

  /// Makes room for the weights of an attention.
  void resize(const AttentionShape& shape) {
    stacked.resize(shape.query_rows() * shape.num_heads, shape.kv_len);
    batch_size = shape.batch_size;
    num_heads = shape.num_heads;
    query_len = shape.query_len;
    kv_len = shape.kv_len;
    query_starts = shape.query_starts;
    kv_starts = shape.kv_starts;
  }

  /// Returns the query_len x kv_len weights of one head of one sequence. Throws RangeError if there is no
  /// such head or sequence.
  auto head(Index head, Index sequence = 0) const {
    if (head < 0 || head >= num_heads || sequence < 0 || sequence >= batch_size) {
      throw_range_error("head " + std::to_string(head) + " of sequence " + std::to_string(sequence) +
                        " is wanted, there are " + std::to_string(num_heads) + " heads and " +
                        std::to_string(batch_size) + " sequences");
    }
    const auto b = static_cast<std::size_t>(sequence);
    const Index first = query_starts.empty() ? sequence * query_len : query_starts[b];
    const Index rows = query_starts.empty() ? query_len : query_starts[b + 1] - first;
    const Index cols = kv_starts.empty() ? kv_len : kv_starts[b + 1] - kv_starts[b];
    return stacked.block(first * num_heads + head * rows, 0, rows, cols);
  }
};

/// The result of an attention with its weights and logsumexp, or with logsumexp alone.
template <class Scalar>
struct AttentionResult {
  Matrix<Scalar> out;                ///< (batch_size * query_len) x (num_heads * value_dim).
  AttentionWeights<Scalar> weights;  ///< Every row sums to 1, or is 0 if it sees no key.
  Matrix<Scalar>
      logsumexp;  ///< (batch_size * query_len) x num_heads: log of the sum of exp(score) over visible keys.
};

namespace detail {

template <class First, class... Others>
inline constexpr bool same_scalar = (std::is_same_v<typename First::Scalar, typename Others::Scalar> && ...);

/// Returns the views of what an attention reads; what it writes is left empty.
template <class Q, class K, class V>
AttentionTensors<typename Q::Scalar> input_tensors(const Eigen::DenseBase<Q>& query,
                                                   const Eigen::DenseBase<K>& key,
                                                   const Eigen::DenseBase<V>& value) {
  static_assert(require_number<typename Q::Scalar>());
  static_assert(same_scalar<Q, K, V>, "query, key and value need the same scalar type: cast them");
  AttentionTensors<typename Q::Scalar> tensors;
  tensors.query = view(query);
  tensors.key = view(key);
  tensors.value = view(value);
  return tensors;
}

/// Returns the sizes of an attention, checked, so that results may be given theirs.
template <class Scalar>
AttentionShape checked_shape(const AttentionTensors<Scalar>& inputs, const AttentionOptions& options,
                             bool with_functions = false) {
  AttentionShape shape = attention_shape(inputs.query, inputs.key, inputs.value, options);
  check_attention(shape, options.mask, score_options(options), scalar_type<Scalar>(), with_functions);
  return shape;
}

/// Checks everything, then runs the engine or, for scalars without kernels, the reference loops.
template <class Scalar>
[[gnu::noinline]] void run_attention(const AttentionShape& shape, const AttentionOptions& options,
                                     const AttentionTensors<Scalar>& tensors,
                                     const ScoreFunctions<Scalar>& functions = {}) {
  if constexpr (has_kernels<Scalar>) {
    const AttentionPlan<Scalar> plan(shape, options.mask, score_options(options),
                                     threads_of(options.executor), functions);
    plan.check_tensors(tensors);
    CallWorkspace workspace(plan.workspace_bytes());
    for (Index i = 0; i < tensors.num_observers; ++i) tensors.observers[i]->prepare(shape);
    plan.run(tensors, workspace.data(), options.executor);
  } else {
    check_attention(shape, options.mask, score_options(options), scalar_type<Scalar>(), functions.any());
    check_tensors(shape, options.mask, tensors);
    for (Index i = 0; i < tensors.num_observers; ++i) tensors.observers[i]->prepare(shape);
    reference::attention(shape, options.mask, score_options(options), tensors, functions);
  }
}

}  // namespace detail

/// Computes out = softmax(scale * query * key^T + bias, over the visible keys) * value, for each head.
///
/// query (batch_size * query_len) x (num_heads * head_dim), key (batch_size * kv_len) x (num_kv_heads *
/// head_dim), value (batch_size * kv_len) x (num_kv_heads * value_dim), out (batch_size * query_len) x
/// (num_heads * value_dim): any Eigen expressions with memory, in any storage order and with any strides, of
/// one scalar type; nothing is copied or transposed. Throws ShapeError or ArgumentError, before anything is
/// written, if sizes do not fit or out overlaps an input. Memory: a few tiles for each thread, nothing that
/// grows with the lengths; on the stack where all of it fits into CallWorkspace::kStackBytes. Threads: the
/// caller's, or the executor's.
template <class Q, class K, class V, class O>
void scaled_dot_product_attention_into(const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key,
                                       const Eigen::DenseBase<V>& value, Eigen::DenseBase<O>& out,
                                       const AttentionOptions& options = {}) {
  static_assert(detail::same_scalar<Q, K, V, O>,
                "query, key, value and out need the same scalar type: cast them");
  auto tensors = detail::input_tensors(query, key, value);
  tensors.out = mutable_view(out);
  detail::run_attention(detail::attention_shape(tensors.query, tensors.key, tensors.value, options), options,
                        tensors);
}

/// Computes attention into a part of a matrix: m.topRows(n) as out.
template <class Q, class K, class V, class O>
void scaled_dot_product_attention_into(const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key,
                                       const Eigen::DenseBase<V>& value, Eigen::DenseBase<O>&& out,
                                       const AttentionOptions& options = {}) {
  scaled_dot_product_attention_into(query, key, value, out, options);
}

/// Returns softmax(scale * query * key^T + bias, over the visible keys) * value for each head, in a new
/// matrix of (batch_size * query_len) x (num_heads * value_dim). Sizes, errors, memory and threads are those
/// of scaled_dot_product_attention_into().
template <class Q, class K, class V>
Matrix<typename Q::Scalar> scaled_dot_product_attention(const Eigen::DenseBase<Q>& query,
                                                        const Eigen::DenseBase<K>& key,
                                                        const Eigen::DenseBase<V>& value,
                                                        const AttentionOptions& options = {}) {
  static_assert(detail::same_scalar<Q, K, V>, "query, key and value need the same scalar type: cast them");
  if constexpr (detail::same_scalar<Q, K, V>) {
    const AttentionShape shape = detail::checked_shape(detail::input_tensors(query, key, value), options);
    Matrix<typename Q::Scalar> out(query.rows(), shape.num_heads * shape.value_dim);
    scaled_dot_product_attention_into(query, key, value, out, options);
    return out;
  }
}

/// Returns attention under a mask, without other options.
template <class Q, class K, class V, std::same_as<Mask> M>
Matrix<typename Q::Scalar> scaled_dot_product_attention(const Eigen::DenseBase<Q>& query,
                                                        const Eigen::DenseBase<K>& key,
                                                        const Eigen::DenseBase<V>& value, const M& mask) {
  AttentionOptions options;
  options.mask = mask;
  return scaled_dot_product_attention(query, key, value, options);
}

namespace detail {

template <class Q, class K, class V>
AttentionResult<typename Q::Scalar> attention_result(const Eigen::DenseBase<Q>& query,
                                                     const Eigen::DenseBase<K>& key,
                                                     const Eigen::DenseBase<V>& value,
                                                     const AttentionOptions& options, bool with_weights) {
  using Scalar = typename Q::Scalar;
  AttentionTensors<Scalar> tensors = input_tensors(query, key, value);
  const AttentionShape shape = checked_shape(tensors, options);
  AttentionResult<Scalar> result;
  result.out.resize(query.rows(), shape.num_heads * shape.value_dim);
  result.logsumexp.resize(query.rows(), shape.num_heads);
  tensors.out = mutable_view(result.out);
  tensors.logsumexp = mutable_view(result.logsumexp);
  if (with_weights) {
    result.weights.resize(shape);
    tensors.weights = mutable_view(result.weights.stacked);
  }
  run_attention(shape, options, tensors);
  return result;
}

}  // namespace detail

/// Returns attention with the weights and the logsumexp of every head: out has the same bits as without them.
/// Memory: the weights are batch_size * num_heads * query_len * kv_len numbers.
template <class Q, class K, class V>
AttentionResult<typename Q::Scalar> scaled_dot_product_attention_with_weights(
    const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key, const Eigen::DenseBase<V>& value,
    const AttentionOptions& options = {}) {
  return detail::attention_result(query, key, value, options, true);
}

/// Returns attention with its logsumexp, a number for each row and head: what merge_attention() needs. The
/// result's weights stay empty.
template <class Q, class K, class V>
AttentionResult<typename Q::Scalar> scaled_dot_product_attention_with_logsumexp(
    const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key, const Eigen::DenseBase<V>& value,
    const AttentionOptions& options = {}) {
  return detail::attention_result(query, key, value, options, false);
}

}  // namespace heed
