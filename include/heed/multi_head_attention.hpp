#pragma once

// Multi-head attention with its projections (Vaswani et al. 2017, section 3.2.2).

#include <cmath>
#include <concepts>
#include <string>
#include <type_traits>

#include "heed/attention.hpp"
#include "heed/matrix_product.hpp"
#include "heed/multi_head_attention_plan.hpp"
#include "heed/random.hpp"

namespace heed {

struct LayerOptions {
  Mask mask = {};                // who may see whom; default: every position sees every position
  Index batch_size = 1;          // sequences of equal length, stacked in the rows of x
  Executor* executor = nullptr;  // default: the calling thread alone
};

template <class Scalar>
struct MultiHeadAttentionResult {
  Matrix<Scalar> out;                // as forward() returns it
  AttentionWeights<Scalar> weights;  // of every head
  Matrix<Scalar> heads;              // the heads' outputs side by side, before the output projection
};

namespace detail {

template <class Scalar>
struct ProjectionWeights {
  MatrixView<const Scalar> w_q;  // d_in x (num_heads * head_dim)
  MatrixView<const Scalar> w_k;  // d_in x (num_heads * head_dim)
  MatrixView<const Scalar> w_v;  // d_in x (num_heads * value_dim)
  MatrixView<const Scalar> w_o;  // (num_heads * value_dim) x d_out
};

/// The sizes of the layer; throws ShapeError if the weights do not fit each other and x, or cannot be split
/// into heads.
template <class Scalar>
LayerShape layer_shape(const MatrixView<const Scalar>& x, const ProjectionWeights<Scalar>& w, Index num_heads,
                       const LayerOptions& options) {
  if (num_heads < 1)
    throw_shape_error("num_heads is " + std::to_string(num_heads) + ", it must be at least 1");
  const auto require_rows = [](const MatrixView<const Scalar>& matrix, const char* name, const auto& other,
                               const char* other_name, Index rows) {
    if (matrix.rows != rows) {
      throw_shape_error(std::string(other_name) + " is " + size_of(other) + ", " + name + " is " +
                        size_of(matrix) + ": as many columns as rows are needed");
    }
  };
  require_rows(w.w_q, "w_q", x, "x", x.cols);
  require_rows(w.w_k, "w_k", x, "x", x.cols);
  require_rows(w.w_v, "w_v", x, "x", x.cols);
  require_rows(w.w_o, "w_o", w.w_v, "w_v", w.w_v.cols);
  if (w.w_q.cols != w.w_k.cols) throw_shape_error("w_q is " + size_of(w.w_q) + ", w_k is " + size_of(w.w_k));
  const auto require_heads = [&](const MatrixView<const Scalar>& matrix, const char* name) {
    if (matrix.cols == 0 || matrix.cols % num_heads != 0) {
      throw_shape_error(std::string(name) + " is " + size_of(matrix) + ": d_model " +
                        std::to_string(matrix.cols) + " is not a positive multiple of num_heads " +
                        std::to_string(num_heads));
    }
  };
  require_heads(w.w_q, "w_q");
  require_heads(w.w_v, "w_v");
  LayerShape shape;
  shape.batch_size = options.batch_size;
  shape.seq_len = per_sequence(x.rows, options.batch_size, "x");
  shape.d_in = x.cols;
  shape.d_out = w.w_o.cols;
  shape.num_heads = num_heads;
  shape.head_dim = w.w_q.cols / num_heads;
  shape.value_dim = w.w_v.cols / num_heads;
  return shape;
}

/// Scalars without kernels: the same steps with the loops of reference.hpp.
template <class Scalar>
void run_layer_on_loops(const LayerShape& shape, const Mask& mask, const LayerTensors<Scalar>& tensors) {
  const AttentionShape attention{shape.batch_size,
                                 shape.num_heads,
                                 shape.num_heads,
                                 shape.seq_len,
                                 shape.seq_len,
                                 shape.head_dim,
                                 shape.value_dim,
                                 {},
                                 {}};
  check_attention(attention, mask, {}, typeid(Scalar));
  check_layer_tensors(shape, mask, tensors);
  Matrix<Scalar> query(tensors.x.rows, tensors.w_q.cols);
  Matrix<Scalar> key(tensors.x.rows, tensors.w_k.cols);
  Matrix<Scalar> value(tensors.x.rows, tensors.w_v.cols);
  Matrix<Scalar> heads(tensors.x.rows, tensors.w_v.cols);
  reference::matrix_product(tensors.x, tensors.w_q, mutable_view(query));
  reference::matrix_product(tensors.x, tensors.w_k, mutable_view(key));
  reference::matrix_product(tensors.x, tensors.w_v, mutable_view(value));
  AttentionTensors<Scalar> parts;
  parts.query = view(query);
  parts.key = view(key);
  parts.value = view(value);
  parts.out = tensors.heads.data != nullptr ? tensors.heads : mutable_view(heads);
  parts.weights = tensors.weights;
  reference::attention(attention, mask, {}, parts);
  reference::matrix_product(MatrixView<const Scalar>(parts.out), tensors.w_o, tensors.out);
}

template <class Scalar>
Matrix<Scalar> forward(const MatrixView<const Scalar>& x, const ProjectionWeights<Scalar>& w, Index num_heads,
                       const LayerOptions& options, MultiHeadAttentionResult<Scalar>* result) {
  const LayerShape shape = layer_shape(x, w, num_heads, options);
  Matrix<Scalar> out(x.rows, w.w_o.cols);
  LayerTensors<Scalar> tensors{x, w.w_q, w.w_k, w.w_v, w.w_o, mutable_view(out), {}, {}};
  if (result != nullptr) {
    result->weights.batch_size = shape.batch_size;
    result->weights.num_heads = num_heads;
    result->weights.query_len = shape.seq_len;
    result->weights.kv_len = shape.seq_len;
    result->weights.stacked.resize(x.rows * num_heads, shape.seq_len);
    result->heads.resize(x.rows, w.w_v.cols);
    tensors.weights = mutable_view(result->weights.stacked);
    tensors.heads = mutable_view(result->heads);
  }
  if constexpr (has_kernels<Scalar>) {
    const MultiHeadAttentionPlan<Scalar> plan(
        shape, options.mask, options.executor != nullptr ? options.executor->concurrency() : 1);
    plan.check(tensors);
    CallWorkspace workspace(plan.workspace_bytes());
    plan.run(tensors, workspace.data(), options.executor);
  } else {
    run_layer_on_loops(shape, options.mask, tensors);
  }
  return out;
}

}  // namespace detail

/// concat over heads of softmax(q_h * k_h^T / sqrt(head_dim)) * v_h, times w_o, where q = x * w_q, k = x *
/// w_k, v = x * w_v.
///
/// x is (batch_size * seq_len) x d_model; w_q, w_k and w_v have d_model rows, and each num_heads blocks of
/// columns; w_o has as many rows as w_v has columns. All are Eigen expressions with memory, of one scalar
/// type. Throws ShapeError, before any work, if sizes do not fit or d_model is no multiple of num_heads.
/// Memory: the four projections. Threads: the caller's, or the executor's.
template <class X, class Q, class K, class V, class O>
Matrix<typename X::Scalar> multi_head_attention(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<Q>& w_q,
                                                const Eigen::DenseBase<K>& w_k,
                                                const Eigen::DenseBase<V>& w_v,
                                                const Eigen::DenseBase<O>& w_o, Index num_heads,
                                                const LayerOptions& options = {}) {
  using Scalar = typename X::Scalar;
  static_assert(std::is_same_v<Scalar, typename Q::Scalar> && std::is_same_v<Scalar, typename K::Scalar> &&
                    std::is_same_v<Scalar, typename V::Scalar> && std::is_same_v<Scalar, typename O::Scalar>,
                "x and the weights need the same scalar type: cast them");
  return detail::forward<Scalar>(view(x), {view(w_q), view(w_k), view(w_v), view(w_o)}, num_heads, options,
                                 nullptr);
}

/// The same with a mask: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, causal()).
template <class X, class Q, class K, class V, class O, std::same_as<Mask> M>
Matrix<typename X::Scalar> multi_head_attention(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<Q>& w_q,
                                                const Eigen::DenseBase<K>& w_k,
                                                const Eigen::DenseBase<V>& w_v,
                                                const Eigen::DenseBase<O>& w_o, Index num_heads,
                                                const M& mask) {
  LayerOptions options;
  options.mask = mask;
  return multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads, options);
}

/// The same with a mask matrix of 0 and -inf, such as causal_mask(n). Throws ArgumentError if it holds
/// anything else.
template <class X, class Q, class K, class V, class O, class M>
Matrix<typename X::Scalar> multi_head_attention(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<Q>& w_q,
                                                const Eigen::DenseBase<K>& w_k,
                                                const Eigen::DenseBase<V>& w_v,
                                                const Eigen::DenseBase<O>& w_o, Index num_heads,
                                                const Eigen::DenseBase<M>& mask) {
  return multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads, additive_mask(mask));
}

/// A layer of multi-head self-attention that owns its projections.
///
///   heed::Random random(0xBEEF);
///   heed::MultiHeadAttention<double> attention(16, 2, random, 0.3);
///   Eigen::MatrixXd out = attention.forward(x, {.mask = heed::causal()});
///
/// The weights are plain Eigen matrices to read and to set; forward() checks them. forward() is const and
/// keeps nothing, so one layer serves several threads at once.
template <class Scalar>
class MultiHeadAttention {
 public:
  Matrix<Scalar> w_q;  // d_model x (num_heads * head_dim)
  Matrix<Scalar> w_k;  // d_model x (num_heads * head_dim)
  Matrix<Scalar> w_v;  // d_model x (num_heads * value_dim)
  Matrix<Scalar> w_o;  // (num_heads * value_dim) x d_model

  /// Square weights, filled row by row with uniform(-bound, bound), w_q, w_k, w_v and w_o in that order.
  /// bound defaults to sqrt(3 / d_model), which gives projections the variance of their input. Throws
  /// ShapeError unless d_model is a positive multiple of num_heads.
  MultiHeadAttention(Index d_model, Index num_heads, Random& random, double bound = -1)
      : num_heads_(num_heads) {
    if (d_model < 1 || num_heads < 1 || d_model % num_heads != 0) {
      throw_shape_error("d_model is " + std::to_string(d_model) +
                        ", it must be a positive multiple of num_heads, which is " +
                        std::to_string(num_heads));
    }
    if (!std::isfinite(bound))
      throw_argument_error("bound is " + std::to_string(bound) + ", it must be finite");
    const double limit = bound < 0 ? std::sqrt(3.0 / static_cast<double>(d_model)) : bound;
    for (Matrix<Scalar>* w : {&w_q, &w_k, &w_v, &w_o}) {
      w->resize(d_model, d_model);
      for (Index i = 0; i < d_model; ++i) {
        for (Index j = 0; j < d_model; ++j) (*w)(i, j) = static_cast<Scalar>(random.uniform(-limit, limit));
      }
    }
  }

  /// The given weights; forward() checks that they fit each other and x.
  MultiHeadAttention(Matrix<Scalar> q, Matrix<Scalar> k, Matrix<Scalar> v, Matrix<Scalar> o, Index num_heads)
      : w_q(std::move(q)), w_k(std::move(k)), w_v(std::move(v)), w_o(std::move(o)), num_heads_(num_heads) {
    if (num_heads < 1)
      throw_shape_error("num_heads is " + std::to_string(num_heads) + ", it must be at least 1");
  }

  Index num_heads() const noexcept { return num_heads_; }
  Index d_model() const noexcept { return w_q.rows(); }

  /// As multi_head_attention(): x is (batch_size * seq_len) x d_model, and so is the result.
  template <class X>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, const LayerOptions& options = {}) const {
    static_assert(std::is_same_v<Scalar, typename X::Scalar>,
                  "x needs the scalar type of the layer: cast it");
    return detail::forward<Scalar>(view(x), projections(), num_heads_, options, nullptr);
  }

  /// The same, for no other option than a mask: forward(x, causal()).
  template <class X, std::same_as<Mask> M>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, const M& mask) const {
    LayerOptions options;
    options.mask = mask;
    return forward(x, options);
  }

  /// forward() with the weights of every head; out has the same bits. Memory: batch_size * num_heads *
  /// seq_len^2 more numbers.
  template <class X>
  MultiHeadAttentionResult<Scalar> forward_with_weights(const Eigen::DenseBase<X>& x,
                                                        const LayerOptions& options = {}) const {
    static_assert(std::is_same_v<Scalar, typename X::Scalar>,
                  "x needs the scalar type of the layer: cast it");
    MultiHeadAttentionResult<Scalar> result;
    result.out = detail::forward<Scalar>(view(x), projections(), num_heads_, options, &result);
    return result;
  }

 private:
  detail::ProjectionWeights<Scalar> projections() const {
    return {view(w_q), view(w_k), view(w_v), view(w_o)};
  }

  Index num_heads_;
};

}  // namespace heed
