#pragma once

// Scaled dot-product attention on Eigen matrices (Vaswani et al. 2017, section 3.2.1).
//
//   Eigen::MatrixXf out = heed::scaled_dot_product_attention(query, key, value, {.mask = heed::causal()});
//
// Rows are positions. Several heads stand side by side in the columns, several sequences one after another in
// the rows.

#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include "heed/attention_plan.hpp"
#include "heed/eigen_view.hpp"
#include "heed/error.hpp"
#include "heed/mask.hpp"
#include "heed/matrix_product.hpp"
#include "heed/reference.hpp"
#include "heed/workspace.hpp"

namespace heed {

struct AttentionOptions {
  Mask mask = {};                              // who may see whom; default: every query sees every key
  std::optional<double> scale = std::nullopt;  // default: 1 / sqrt(head_dim)
  Index num_heads = 1;                         // query is (batch_size * query_len) x (num_heads * head_dim)
  std::optional<Index> num_kv_heads = std::nullopt;  // heads of key and value; default: num_heads
  Index batch_size = 1;                              // sequences of equal length, stacked in the rows
  Executor* executor = nullptr;                      // default: the calling thread alone
};

/// The weights of every head: rows x columns are queries x keys.
template <class Scalar>
struct AttentionWeights {
  Matrix<Scalar> stacked;  // (batch_size * num_heads * query_len) x kv_len
  Index batch_size = 0;
  Index num_heads = 0;
  Index query_len = 0;

  /// The query_len x kv_len weights of one head of one sequence. Throws RangeError if there is no such head
  /// or sequence.
  auto head(Index head, Index sequence = 0) const {
    if (head < 0 || head >= num_heads || sequence < 0 || sequence >= batch_size) {
      throw_range_error("head " + std::to_string(head) + " of sequence " + std::to_string(sequence) +
                        " is wanted, there are " + std::to_string(num_heads) + " heads and " +
                        std::to_string(batch_size) + " sequences");
    }
    return stacked.middleRows((sequence * num_heads + head) * query_len, query_len);
  }
};

template <class Scalar>
struct AttentionResult {
  Matrix<Scalar> out;                // (batch_size * query_len) x (num_heads * value_dim)
  AttentionWeights<Scalar> weights;  // every row sums to 1, or is 0 if it sees no key
  Matrix<Scalar>
      logsumexp;  // (batch_size * query_len) x num_heads: log of the sum of exp(score) over visible keys
};

namespace detail {

template <class First, class... Others>
inline constexpr bool same_scalar = (std::is_same_v<typename First::Scalar, typename Others::Scalar> && ...);

inline Index per_head(Index cols, Index heads, const char* name) {
  if (heads < 1 || cols % heads != 0) {
    throw_shape_error(std::string(name) + " has " + std::to_string(cols) +
                      " columns, they cannot be split into " + std::to_string(heads) + " heads");
  }
  return cols / heads;
}

inline Index per_sequence(Index rows, Index batch_size, const char* name) {
  if (batch_size < 0 || (batch_size == 0 ? rows != 0 : rows % batch_size != 0)) {
    throw_shape_error(std::string(name) + " has " + std::to_string(rows) +
                      " rows, they cannot be split into " + std::to_string(batch_size) + " sequences");
  }
  return batch_size == 0 ? 0 : rows / batch_size;
}

template <class Scalar>
AttentionShape attention_shape(const MatrixView<const Scalar>& query, const MatrixView<const Scalar>& key,
                               const MatrixView<const Scalar>& value, const AttentionOptions& options) {
  if (key.rows != value.rows) {
    throw_shape_error("key has " + std::to_string(key.rows) + " rows, value has " +
                      std::to_string(value.rows));
  }
  const Index num_kv_heads = options.num_kv_heads.value_or(options.num_heads);
  AttentionShape shape;
  shape.batch_size = options.batch_size;
  shape.num_heads = options.num_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.query_len = per_sequence(query.rows, options.batch_size, "query");
  shape.kv_len = per_sequence(key.rows, options.batch_size, "key");
  shape.head_dim = per_head(query.cols, options.num_heads, "query");
  shape.value_dim = per_head(value.cols, num_kv_heads, "value");
  if (per_head(key.cols, num_kv_heads, "key") != shape.head_dim) {
    throw_shape_error("query has heads of " + std::to_string(shape.head_dim) + " columns, key has heads of " +
                      std::to_string(key.cols / num_kv_heads));
  }
  return shape;
}

/// Checks everything, then runs the engine or, for scalars without kernels, the reference loops.
template <class Scalar>
void run_attention(const AttentionShape& shape, const AttentionOptions& options,
                   const AttentionTensors<Scalar>& tensors) {
  if constexpr (has_kernels<Scalar>) {
    const AttentionPlan<Scalar> plan(shape, options.mask, options.scale,
                                     options.executor != nullptr ? options.executor->concurrency() : 1);
    plan.check(tensors);
    CallWorkspace workspace(plan.workspace_bytes());
    plan.run(tensors, workspace.data(), options.executor);
  } else {
    check_attention(shape, options.mask, options.scale);
    check_tensors(shape, options.mask, tensors);
    (void)options.mask.template bias_as<Scalar>();
    reference::attention(shape, options.mask, options.scale, tensors);
  }
}

}  // namespace detail

/// out = softmax(scale * query * key^T + bias, over the visible keys) * value, for each head.
///
/// query (batch_size * query_len) x (num_heads * head_dim), key (batch_size * kv_len) x (num_kv_heads *
/// head_dim), value (batch_size * kv_len) x (num_kv_heads * value_dim), out (batch_size * query_len) x
/// (num_heads * value_dim): any Eigen expressions with memory, in any storage order and with any strides, of
/// one scalar type; nothing is copied or transposed. Throws ShapeError or ArgumentError, before anything is
/// written, if sizes do not fit or out overlaps an input. Memory: a few tiles for each thread, nothing that
/// grows with the lengths; on the stack where all of it fits into CallWorkspace::stack_bytes. Threads: the
/// caller's, or the executor's.
template <class Q, class K, class V, class O>
void scaled_dot_product_attention_into(const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key,
                                       const Eigen::DenseBase<V>& value, Eigen::DenseBase<O>& out,
                                       const AttentionOptions& options = {}) {
  using Scalar = typename Q::Scalar;
  static_assert(detail::same_scalar<Q, K, V, O>,
                "query, key, value and out need the same scalar type: cast them");
  AttentionTensors<Scalar> tensors;
  tensors.query = view(query);
  tensors.key = view(key);
  tensors.value = view(value);
  tensors.out = mutable_view(out);
  detail::run_attention(detail::attention_shape(tensors.query, tensors.key, tensors.value, options), options,
                        tensors);
}

/// The same into a part of a matrix: m.topRows(n) as out.
template <class Q, class K, class V, class O>
void scaled_dot_product_attention_into(const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key,
                                       const Eigen::DenseBase<V>& value, Eigen::DenseBase<O>&& out,
                                       const AttentionOptions& options = {}) {
  scaled_dot_product_attention_into(query, key, value, out, options);
}

/// The same, returning a new matrix.
template <class Q, class K, class V>
Matrix<typename Q::Scalar> scaled_dot_product_attention(const Eigen::DenseBase<Q>& query,
                                                        const Eigen::DenseBase<K>& key,
                                                        const Eigen::DenseBase<V>& value,
                                                        const AttentionOptions& options = {}) {
  static_assert(detail::same_scalar<Q, K, V>, "query, key and value need the same scalar type: cast them");
  if constexpr (detail::same_scalar<Q, K, V>) {
    const AttentionShape shape =
        detail::attention_shape<typename Q::Scalar>(view(query), view(key), view(value), options);
    check_attention(shape, options.mask, options.scale);
    Matrix<typename Q::Scalar> out(query.rows(), shape.num_heads * shape.value_dim);
    scaled_dot_product_attention_into(query, key, value, out, options);
    return out;
  }
}

/// The same, for no other option than a mask.
template <class Q, class K, class V, std::same_as<Mask> M>
Matrix<typename Q::Scalar> scaled_dot_product_attention(const Eigen::DenseBase<Q>& query,
                                                        const Eigen::DenseBase<K>& key,
                                                        const Eigen::DenseBase<V>& value, const M& mask) {
  AttentionOptions options;
  options.mask = mask;
  return scaled_dot_product_attention(query, key, value, options);
}

/// The same, with the weights and the logsumexp of every head: out has the same bits as without them. Memory:
/// the weights are batch_size * num_heads * query_len * kv_len numbers.
template <class Q, class K, class V>
AttentionResult<typename Q::Scalar> scaled_dot_product_attention_with_weights(
    const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key, const Eigen::DenseBase<V>& value,
    const AttentionOptions& options = {}) {
  using Scalar = typename Q::Scalar;
  static_assert(detail::same_scalar<Q, K, V>, "query, key and value need the same scalar type: cast them");
  AttentionTensors<Scalar> tensors;
  tensors.query = view(query);
  tensors.key = view(key);
  tensors.value = view(value);
  const AttentionShape shape = detail::attention_shape(tensors.query, tensors.key, tensors.value, options);
  check_attention(shape, options.mask, options.scale);
  AttentionResult<Scalar> result;
  result.out.resize(query.rows(), shape.num_heads * shape.value_dim);
  result.weights.stacked.resize(query.rows() * shape.num_heads, shape.kv_len);
  result.weights.batch_size = shape.batch_size;
  result.weights.num_heads = shape.num_heads;
  result.weights.query_len = shape.query_len;
  result.logsumexp.resize(query.rows(), shape.num_heads);
  tensors.out = mutable_view(result.out);
  tensors.weights = mutable_view(result.weights.stacked);
  tensors.logsumexp = mutable_view(result.logsumexp);
  detail::run_attention(shape, options, tensors);
  return result;
}

/// The causal mask as a matrix to add to n x n scores: 0 where key j <= query i, -inf elsewhere. causal()
/// does the same without the matrix, and skips what it hides. Throws ShapeError if n is negative.
template <class Scalar = double>
Matrix<Scalar> causal_mask(Index n) {
  if (n < 0) throw_shape_error("a causal mask of " + std::to_string(n) + " positions");
  Matrix<Scalar> mask = Matrix<Scalar>::Zero(n, n);
  mask.template triangularView<Eigen::StrictlyUpper>().setConstant(-std::numeric_limits<Scalar>::infinity());
  return mask;
}

/// bias(matrix) for a matrix that is meant as a mask, 0 where a query may see a key and -inf where it may
/// not: throws ArgumentError if it holds anything else, such as the 1 of a matrix of zeros and ones.
template <class M>
Mask additive_mask(const Eigen::DenseBase<M>& matrix) {
  using Scalar = typename M::Scalar;
  static_assert(!std::is_integral_v<Scalar>,
                "an additive mask holds 0 and -inf; a matrix of bool or int is not one");
  const MatrixView<const Scalar> entries = view(matrix);
  for (Index i = 0; i < entries.rows; ++i) {
    for (Index j = 0; j < entries.cols; ++j) {
      const Scalar entry = entries(i, j);
      if (!(entry == Scalar(0) || entry == -std::numeric_limits<Scalar>::infinity())) {
        throw_argument_error("an additive mask holds 0 (visible) and -inf (hidden), this one (" +
                             size_of(entries) + ") has another value at row " + std::to_string(i) +
                             ", column " + std::to_string(j) +
                             "; to add other values to the scores, say bias(matrix)");
      }
    }
  }
  return bias(entries);
}

/// A matrix that would be gone before attention looks at it.
template <class Scalar, int Rows, int Cols, int Options, int MaxRows, int MaxCols>
Mask additive_mask(Eigen::Matrix<Scalar, Rows, Cols, Options, MaxRows, MaxCols>&& matrix) = delete;

}  // namespace heed
