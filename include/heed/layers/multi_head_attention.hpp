#pragma once

// Multi-head attention with its projections (Vaswani et al. 2017, section 3.2.2).
//
//   heed::Random random(1);
//   const heed::MultiHeadAttention<float> layer(64, 4, random);  // d_model, num_heads
//   const heed::Matrix<float> out = layer.forward(x, heed::causal());

#include "heed/core/config.hpp"

#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/attention/scaled_dot_product_attention.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/core/random.hpp"
#include "heed/core/scalar.hpp"
#include "heed/layers/multi_head_attention_decode_plan.hpp"
#include "heed/layers/multi_head_attention_forward.hpp"
#include "heed/layers/parameters.hpp"
#include "heed/layers/weights.hpp"

namespace heed {

/// The sizes of a layer's weights; each defaults to what the paper has.
struct MultiHeadAttentionConfig {
  Index d_model = 0;
  Index num_heads = 1;
  std::optional<Index> num_kv_heads =
      std::nullopt;  ///< Fewer than num_heads: grouped heads (Ainslie et al. 2023).
  std::optional<Index> head_dim = std::nullopt;   ///< Default: d_model / num_heads.
  std::optional<Index> value_dim = std::nullopt;  ///< Default: head_dim.
  std::optional<Index> key_input_dim =
      std::nullopt;  ///< Columns of what keys are made from; default: d_model.
  std::optional<Index> value_input_dim =
      std::nullopt;   ///< Columns of what values are made from; default: d_model.
  bool bias = false;  ///< Whether the projections add a vector.
};

/// Returns the concatenation over heads of softmax(q_h * k_h^T / sqrt(head_dim)) * v_h, times w_o, where q =
/// x * w_q, k = x * w_k, v = x * w_v.
///
/// x is (batch_size * seq_len) x d_model; w_q, w_k and w_v have d_model rows, and each num_heads blocks of
/// columns (w_k and w_v num_kv_heads); w_o has num_heads * value_dim rows. All are Eigen expressions with
/// memory, of one scalar type. Throws ShapeError, before any work, if sizes do not fit or d_model is no
/// multiple of num_heads. Memory: the four projections. Threads: the caller's, or the executor's.
template <class X, class Q, class K, class V, class O>
Matrix<typename X::Scalar> multi_head_attention(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<Q>& w_q,
                                                const Eigen::DenseBase<K>& w_k,
                                                const Eigen::DenseBase<V>& w_v,
                                                const Eigen::DenseBase<O>& w_o, Index num_heads,
                                                const LayerOptions& options = {}) {
  using Scalar = typename X::Scalar;
  static_assert(detail::require_number<Scalar>());
  static_assert(std::is_same_v<Scalar, typename Q::Scalar> && std::is_same_v<Scalar, typename K::Scalar> &&
                    std::is_same_v<Scalar, typename V::Scalar> && std::is_same_v<Scalar, typename O::Scalar>,
                "x and the weights need the same scalar type: cast them");
  return detail::forward<Scalar>({view(x)}, {view(w_q), view(w_k), view(w_v), view(w_o)}, num_heads, options,
                                 nullptr);
}

/// Returns multi-head attention under a mask: multi_head_attention(x, w_q, w_k, w_v, w_o, 2, causal()).
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

/// Returns multi-head attention under a mask matrix of 0 and -inf, such as causal_mask(n). Throws
/// ArgumentError if it holds anything else.
template <class X, class Q, class K, class V, class O, class M>
Matrix<typename X::Scalar> multi_head_attention(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<Q>& w_q,
                                                const Eigen::DenseBase<K>& w_k,
                                                const Eigen::DenseBase<V>& w_v,
                                                const Eigen::DenseBase<O>& w_o, Index num_heads,
                                                const Eigen::DenseBase<M>& mask) {
  return multi_head_attention(x, w_q, w_k, w_v, w_o, num_heads, additive_mask(mask));
}

/// A layer of multi-head attention that owns its projections.
///
///   heed::Random random(0xBEEF);
///   heed::MultiHeadAttention<double> attention(16, 2, random, 0.3);
///   Eigen::MatrixXd out = attention.forward(x, {.mask = heed::causal()});
///
/// The weights are plain Eigen matrices to read and to set; forward() checks them. forward() is const and
/// keeps nothing, so one layer serves several threads at once.
template <class Scalar>
class MultiHeadAttention : public ParameterWalk<MultiHeadAttention<Scalar>> {
  static_assert(detail::require_number<Scalar>());

 public:
  using RowVector = heed::RowVector<Scalar>;

  Matrix<Scalar> w_q;  ///< d_model x (num_heads * head_dim).
  Matrix<Scalar> w_k;  ///< key_input_dim x (num_kv_heads * head_dim).
  Matrix<Scalar> w_v;  ///< value_input_dim x (num_kv_heads * value_dim).
  Matrix<Scalar> w_o;  ///< (num_heads * value_dim) x d_model.
  RowVector b_q;       ///< Added to each row of x * w_q, unless empty; b_k, b_v and b_o to their products.
  RowVector b_k;
  RowVector b_v;
  RowVector b_o;

  /// Fills the weights row by row with uniform(-bound, bound), w_q, w_k, w_v and w_o in that order; biases
  /// are
  /// 0. bound defaults to sqrt(3 / rows), which gives projections the variance of their input. Throws
  /// ShapeError unless sizes are positive, d_model is a multiple of num_heads where no head_dim is given, and
  /// num_heads a multiple of num_kv_heads, ArgumentError for more bytes than the machine has.
  MultiHeadAttention(const MultiHeadAttentionConfig& sizes, Random& random, double bound = -1)
      : num_heads_(sizes.num_heads), num_kv_heads_(sizes.num_kv_heads.value_or(sizes.num_heads)) {
    require_heads();
    if (sizes.d_model < 1 || (!sizes.head_dim && sizes.d_model % num_heads_ != 0)) {
      throw_shape_error("d_model is " + std::to_string(sizes.d_model) +
                        ", it must be a positive multiple of num_heads, which is " +
                        std::to_string(num_heads_));
    }
    if (!detail::is_finite(bound))
      throw_argument_error("bound is " + detail::number_text(bound) + ", it must be finite");
    const Index head_dim = sizes.head_dim.value_or(sizes.d_model / num_heads_);
    const Index value_dim = sizes.value_dim.value_or(head_dim);
    const Index key_input_dim = sizes.key_input_dim.value_or(sizes.d_model);
    const Index value_input_dim = sizes.value_input_dim.value_or(sizes.d_model);
    for (const auto& [size, name] : {std::pair{head_dim, "head_dim"},
                                     {value_dim, "value_dim"},
                                     {key_input_dim, "key_input_dim"},
                                     {value_input_dim, "value_input_dim"}}) {
      if (size < 1)
        throw_shape_error(std::string(name) + " is " + std::to_string(size) + ", it must be at least 1");
    }
    require_memory_for(sizes.d_model, key_input_dim, value_input_dim, head_dim, value_dim);
    const auto drawn = [&](Index rows, Index cols) {
      const double limit = bound < 0 ? std::sqrt(3.0 / static_cast<double>(rows)) : bound;
      return detail::uniform_matrix<Scalar>(rows, cols, random, limit);
    };
    w_q = drawn(sizes.d_model, num_heads_ * head_dim);
    w_k = drawn(key_input_dim, num_kv_heads_ * head_dim);
    w_v = drawn(value_input_dim, num_kv_heads_ * value_dim);
    w_o = drawn(num_heads_ * value_dim, sizes.d_model);
    if (sizes.bias) {
      b_q.setZero(w_q.cols());
      b_k.setZero(w_k.cols());
      b_v.setZero(w_v.cols());
      b_o.setZero(w_o.cols());
    }
  }

  /// Makes a layer of square weights, drawn as for a MultiHeadAttentionConfig, without biases.
  MultiHeadAttention(Index d_model, Index num_heads, Random& random, double bound = -1)
      : MultiHeadAttention(MultiHeadAttentionConfig{.d_model = d_model, .num_heads = num_heads}, random,
                           bound) {}

  /// Takes the given weights; forward() checks that they fit each other and x.
  MultiHeadAttention(Matrix<Scalar> q, Matrix<Scalar> k, Matrix<Scalar> v, Matrix<Scalar> o, Index num_heads,
                     std::optional<Index> num_kv_heads = std::nullopt)
      : w_q(std::move(q)),
        w_k(std::move(k)),
        w_v(std::move(v)),
        w_o(std::move(o)),
        num_heads_(num_heads),
        num_kv_heads_(num_kv_heads.value_or(num_heads)) {
    require_heads();
  }

  /// Returns the weights as views; b_... are empty where there are none.
  detail::ProjectionWeights<Scalar> projections() const {
    using detail::view_unless_empty;
    return {view(w_q),
            view(w_k),
            view(w_v),
            view(w_o),
            view_unless_empty(b_q),
            view_unless_empty(b_k),
            view_unless_empty(b_v),
            view_unless_empty(b_o)};
  }

  Index num_heads() const noexcept { return num_heads_; }
  Index num_kv_heads() const noexcept { return num_kv_heads_; }
  Index d_model() const noexcept { return w_q.rows(); }
  Index head_dim() const noexcept { return w_q.cols() / num_heads_; }
  Index value_dim() const noexcept { return w_v.cols() / num_kv_heads_; }

  /// Returns the layer's result for x, as multi_head_attention() does; both are (batch_size * seq_len) x
  /// d_model.
  template <class X>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, const LayerOptions& options = {}) const {
    require_scalar<X>();
    return detail::forward<Scalar>({view(x)}, projections(), num_heads_, own(options), nullptr);
  }

  /// Returns the layer's result under a mask, without other options: forward(x, causal()).
  template <class X, std::same_as<Mask> M>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, const M& mask) const {
    LayerOptions options;
    options.mask = mask;
    return forward(x, options);
  }

  /// Lets x attend to other sequences: cross-attention. context is (batch_size * kv_len) x key_input_dim,
  /// which value_input_dim must equal.
  template <class X, class C>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<C>& context,
                         const LayerOptions& options = {}) const {
    return forward(x, context, context, options);
  }

  /// Lets x attend to keys and values made from two matrices, each of kv_len rows for each sequence:
  /// cross-attention.
  template <class X, class K, class V>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<K>& key_input,
                         const Eigen::DenseBase<V>& value_input, const LayerOptions& options = {}) const {
    require_scalar<X>();
    require_scalar<K>();
    require_scalar<V>();
    return detail::forward<Scalar>({view(x), view(key_input), view(value_input)}, projections(), num_heads_,
                                   own(options), nullptr);
  }

  /// Returns the result of forward() with the weights of every head; out has the bits of forward(). Memory:
  /// batch_size * num_heads * seq_len^2 more numbers.
  template <class X>
  MultiHeadAttentionResult<Scalar> forward_with_weights(const Eigen::DenseBase<X>& x,
                                                        const LayerOptions& options = {}) const {
    require_scalar<X>();
    MultiHeadAttentionResult<Scalar> result;
    result.out = detail::forward<Scalar>({view(x)}, projections(), num_heads_, own(options), &result);
    return result;
  }

  /// Returns the result of cross-attention with the weights of every head.
  template <class X, class C>
  MultiHeadAttentionResult<Scalar> forward_with_weights(const Eigen::DenseBase<X>& x,
                                                        const Eigen::DenseBase<C>& context,
                                                        const LayerOptions& options = {}) const {
    require_scalar<X>();
    require_scalar<C>();
    MultiHeadAttentionResult<Scalar> result;
    result.out = detail::forward<Scalar>({view(x), view(context), view(context)}, projections(), num_heads_,
                                         own(options), &result);
    return result;
  }

  /// Makes a cache that fits this layer. Scalar is float or double.
  KvCache<Scalar> make_cache(Index capacity, Index batch_size = 1, KvStorage storage = KvStorage::same,
                             bool ring = false) const {
    return KvCache<Scalar>({.batch_size = batch_size,
                            .num_kv_heads = num_kv_heads_,
                            .head_dim = head_dim(),
                            .value_dim = value_dim(),
                            .capacity = capacity,
                            .storage = storage,
                            .ring = ring});
  }

  /// Reads the first tokens of the cache's sequences, or more of them: x is (batch_size * n) x d_model. Their
  /// keys and values are appended, and they attend to all tokens so far, themselves included, as the mask
  /// lets them: pass causal(). Each row has the bits that forward() gives it in one full pass. The batch is
  /// the cache's. Throws before the cache changes if something does not fit or the cache would overflow.
  template <class X>
  Matrix<Scalar> prefill(const Eigen::DenseBase<X>& x, KvCache<Scalar>& cache,
                         const LayerOptions& options = {}) const {
    require_scalar<X>();
    return detail::forward_cached<Scalar>(view(x), projections(), num_heads_, cache, options);
  }

  /// Reads one new token of each sequence, as prefill() does: x is batch_size x d_model.
  template <class X>
  Matrix<Scalar> step(const Eigen::DenseBase<X>& x, KvCache<Scalar>& cache,
                      const LayerOptions& options = {}) const {
    if (x.rows() != cache.shape().batch_size) {
      throw_shape_error("x has " + std::to_string(x.rows()) + " rows, a step of a cache of " +
                        std::to_string(cache.shape().batch_size) + " sequences needs one for each");
    }
    return prefill(x, cache, options);
  }

  /// Makes a plan for decode_into(): up to max_new_tokens tokens of each sequence at a time, against caches
  /// as make_cache() makes them. Of the options it takes mask, score and the executor's number of threads.
  /// Throws as the plan's constructor does, ArgumentError if query_starts is given.
  MultiHeadAttentionDecodePlan<Scalar> decode_plan(const KvCacheOptions& cache, Index max_new_tokens = 1,
                                                   const LayerOptions& options = {}) const {
    if (!options.query_starts.empty())
      throw_argument_error("query_starts is given: with a cache, every sequence gets as many new tokens");
    return MultiHeadAttentionDecodePlan<Scalar>({.cache = cache,
                                                 .num_heads = num_heads_,
                                                 .d_in = w_q.rows(),
                                                 .d_out = w_o.cols(),
                                                 .max_new_tokens = max_new_tokens},
                                                options.mask, options.score,
                                                detail::threads_of(options.executor));
  }

  /// Reads tokens as prefill() and step() do, with a plan of decode_plan(), and writes their bits to `out`
  /// (rows of x x d_model) without an allocation, as a thread needs that must be in time. workspace has
  /// plan.workspace_bytes() bytes, aligned to Workspace::alignment. Throws before the cache changes if
  /// something does not fit.
  template <class X, class O>
  void decode_into(const Eigen::DenseBase<X>& x, KvCache<Scalar>& cache, Eigen::DenseBase<O>& out,
                   const MultiHeadAttentionDecodePlan<Scalar>& plan, void* workspace,
                   Executor* executor = nullptr) const {
    require_scalar<X>();
    require_scalar<O>();
    const MultiHeadAttentionTensors<Scalar> tensors =
        detail::layer_tensors(view(x), projections(), mutable_view(out));
    plan.check_tensors(tensors, cache);
    plan.run(tensors, cache, workspace, executor);
  }

  /// Reads tokens into a part of a matrix: m.row(i) as out.
  template <class X, class O>
  void decode_into(const Eigen::DenseBase<X>& x, KvCache<Scalar>& cache, Eigen::DenseBase<O>&& out,
                   const MultiHeadAttentionDecodePlan<Scalar>& plan, void* workspace,
                   Executor* executor = nullptr) const {
    decode_into(x, cache, out, plan, workspace, executor);
  }

 private:
  friend class ParameterWalk<MultiHeadAttention<Scalar>>;

  template <class X>
  static void require_scalar() {
    static_assert(std::is_same_v<Scalar, typename X::Scalar>,
                  "x needs the scalar type of the layer: cast it");
  }

  void require_heads() const {
    if (num_heads_ < 1)
      throw_shape_error("num_heads is " + std::to_string(num_heads_) + ", it must be at least 1");
    if (num_kv_heads_ < 1 || num_heads_ % num_kv_heads_ != 0) {
      throw_shape_error("num_heads is " + std::to_string(num_heads_) +
                        ", it must be a positive multiple of num_kv_heads, which is " +
                        std::to_string(num_kv_heads_));
    }
  }

  /// Asks for the memory of all projections together, before the first is made.
  void require_memory_for(Index d_model, Index key_input_dim, Index value_input_dim, Index head_dim,
                          Index value_dim) const {
    const auto heads = [](Index count, Index rows, Index cols) {
      return detail::times_bytes(static_cast<std::uint64_t>(count),
                                 detail::matrix_bytes(sizeof(Scalar), rows, cols));
    };
    std::uint64_t bytes = heads(num_heads_, d_model, head_dim);
    bytes = detail::plus_bytes(bytes, heads(num_kv_heads_, key_input_dim, head_dim));
    bytes = detail::plus_bytes(bytes, heads(num_kv_heads_, value_input_dim, value_dim));
    bytes = detail::plus_bytes(bytes, heads(num_heads_, value_dim, d_model));
    detail::require_memory(bytes, [&] {
      return "multi-head attention of d_model " + std::to_string(d_model) + ", num_heads " +
             std::to_string(num_heads_) + ", head_dim " + std::to_string(head_dim) + " and value_dim " +
             std::to_string(value_dim);
    });
  }

  LayerOptions own(const LayerOptions& options) const {
    LayerOptions result = options;
    if (!result.num_kv_heads) result.num_kv_heads = num_kv_heads_;
    return result;
  }

  template <class Self, class F, class Name>
  static void visit(Self& self, F& f, const Name& prefix) {
    f(prefix + "w_q", self.w_q);
    f(prefix + "w_k", self.w_k);
    f(prefix + "w_v", self.w_v);
    f(prefix + "w_o", self.w_o);
    if (self.b_q.size() > 0) f(prefix + "b_q", self.b_q);
    if (self.b_k.size() > 0) f(prefix + "b_k", self.b_k);
    if (self.b_v.size() > 0) f(prefix + "b_v", self.b_v);
    if (self.b_o.size() > 0) f(prefix + "b_o", self.b_o);
  }

  Index num_heads_;
  Index num_kv_heads_;
};

}  // namespace heed
