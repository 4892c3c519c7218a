#pragma once

// The options of a layer of multi-head attention, and how it runs: under multi_head_attention.hpp, which has
// the functions to call.

#include "heed/core/config.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention/cached_attention.hpp"
#include "heed/attention/scaled_dot_product_attention.hpp"
#include "heed/layers/matrix_product.hpp"
#include "heed/layers/multi_head_attention_plan.hpp"
#include "heed/layers/product.hpp"

namespace heed {

/// What a layer of multi-head attention is asked for beside its input.
struct LayerOptions {
  Mask mask = {};           ///< Which position may see which; default: every position sees every position.
  ScoreOptions score = {};  ///< Scale, softcap, sinks, rotary.
  Index batch_size = 1;     ///< Sequences of equal length, stacked in the rows of x.
  std::vector<Index> query_starts = {};  ///< Where each sequence starts, if their lengths differ.
  std::vector<Index> kv_starts = {};     ///< Where each of the other sequences of cross-attention starts.
  std::optional<Index> num_kv_heads = std::nullopt;  ///< Default: num_heads, or the layer's own.
  Executor* executor = nullptr;                      ///< Default: the calling thread alone.
};

/// The result of a layer with the weights of its heads.
template <class Scalar>
struct MultiHeadAttentionResult {
  Matrix<Scalar> out;                ///< As forward() returns it.
  AttentionWeights<Scalar> weights;  ///< The weights of every head.
  Matrix<Scalar> heads;              ///< The heads' outputs side by side, before the output projection.
};

namespace detail {

template <class Scalar>
struct ProjectionWeights {
  MatrixView<const Scalar> w_q;  ///< d_in x (num_heads * head_dim).
  MatrixView<const Scalar> w_k;  ///< d_in or d_key x (num_kv_heads * head_dim).
  MatrixView<const Scalar> w_v;  ///< d_in or d_value x (num_kv_heads * value_dim).
  MatrixView<const Scalar> w_o;  ///< (num_heads * value_dim) x d_out.
  MatrixView<const Scalar> b_q = {};
  MatrixView<const Scalar> b_k = {};
  MatrixView<const Scalar> b_v = {};
  MatrixView<const Scalar> b_o = {};
};

/// Returns the views of what self-attention reads and writes.
template <class Scalar>
MultiHeadAttentionTensors<Scalar> layer_tensors(const MatrixView<const Scalar>& x,
                                                const ProjectionWeights<Scalar>& w,
                                                const MatrixView<Scalar>& out) {
  return {x, w.w_q, w.w_k, w.w_v, w.w_o, out, {}, {}, w.b_q, w.b_k, w.b_v, w.b_o};
}

/// What a layer reads: x alone, or the sequences that x attends to.
template <class Scalar>
struct LayerInputs {
  MatrixView<const Scalar> x;
  std::optional<MatrixView<const Scalar>> key_input = std::nullopt;
  std::optional<MatrixView<const Scalar>> value_input = std::nullopt;
};

/// Returns the sizes of the layer. Throws ShapeError if the weights do not fit each other and the inputs, or
/// cannot be split into heads.
template <class Scalar>
MultiHeadAttentionShape layer_shape(const LayerInputs<Scalar>& in, const ProjectionWeights<Scalar>& w,
                                    Index num_heads, const LayerOptions& options) {
  const auto require_one = [](Index heads, const char* name) {
    if (heads < 1)
      throw_shape_error(std::string(name) + " is " + std::to_string(heads) + ", it must be at least 1");
  };
  require_one(num_heads, "num_heads");
  const Index num_kv_heads = options.num_kv_heads.value_or(num_heads);
  require_one(num_kv_heads, "num_kv_heads");
  const auto require_rows = [](const MatrixView<const Scalar>& matrix, const char* name, const auto& other,
                               const char* other_name) {
    if (matrix.rows != other.cols) {
      throw_shape_error(std::string(other_name) + " is " + size_text(other) + ", " + name + " is " +
                        size_text(matrix) + ": as many columns as rows are needed");
    }
  };
  const bool cross = in.key_input.has_value();
  require_rows(w.w_q, "w_q", in.x, "x");
  require_rows(w.w_k, "w_k", cross ? *in.key_input : in.x, cross ? "key_input" : "x");
  require_rows(w.w_v, "w_v", cross ? *in.value_input : in.x, cross ? "value_input" : "x");
  const auto require_heads = [&](const MatrixView<const Scalar>& matrix, const char* name, Index heads,
                                 const char* heads_name) {
    if (matrix.cols == 0 || matrix.cols % heads != 0) {
      throw_shape_error(std::string(name) + " is " + size_text(matrix) + ": d_model " +
                        std::to_string(matrix.cols) + " is not a positive multiple of " + heads_name + " " +
                        std::to_string(heads));
    }
  };
  if (num_kv_heads == num_heads && w.w_q.cols != w.w_k.cols)
    throw_shape_error("w_q is " + size_text(w.w_q) + ", w_k is " + size_text(w.w_k));
  require_heads(w.w_q, "w_q", num_heads, "num_heads");
  require_heads(w.w_k, "w_k", num_kv_heads, "num_kv_heads");
  require_heads(w.w_v, "w_v", num_kv_heads, "num_kv_heads");
  if (w.w_q.cols / num_heads != w.w_k.cols / num_kv_heads) {
    throw_shape_error("w_q is " + size_text(w.w_q) + " for " + std::to_string(num_heads) + " heads, w_k is " +
                      size_text(w.w_k) + " for " + std::to_string(num_kv_heads) +
                      ": their heads differ in size");
  }
  const Index value_dim = w.w_v.cols / num_kv_heads;
  if (w.w_o.rows != num_heads * value_dim) {
    throw_shape_error("w_v is " + size_text(w.w_v) + ", w_o is " + size_text(w.w_o) + ": as many rows as " +
                      std::to_string(num_heads) + " heads of " + std::to_string(value_dim) +
                      " have columns are needed");
  }
  if (cross && in.key_input->rows != in.value_input->rows) {
    throw_shape_error("key_input has " + std::to_string(in.key_input->rows) + " rows, value_input has " +
                      std::to_string(in.value_input->rows));
  }
  AttentionOptions batch;
  batch.batch_size = options.batch_size;
  batch.query_starts = options.query_starts;
  batch.kv_starts = options.kv_starts;
  if (!cross && !options.kv_starts.empty())
    throw_argument_error("kv_starts is given, but keys and values come from x: query_starts says all");
  MultiHeadAttentionShape shape;
  shape.batch_size = batch_size_of(batch);
  shape.seq_len = query_length(in.x.rows, options.query_starts, shape.batch_size, "x");
  shape.query_starts = options.query_starts;
  shape.d_in = in.x.cols;
  shape.d_out = w.w_o.cols;
  shape.num_heads = num_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = w.w_q.cols / num_heads;
  shape.value_dim = value_dim;
  if (cross) {
    shape.kv_len = query_length(in.key_input->rows, options.kv_starts, shape.batch_size, "key_input");
    shape.kv_starts = options.kv_starts;
    shape.d_key = in.key_input->cols;
    shape.d_value = in.value_input->cols;
  }
  return shape;
}

/// Runs the steps of a layer on the loops of reference.hpp, for scalars without kernels.
template <class Scalar>
void run_layer_on_loops(const MultiHeadAttentionShape& shape, const LayerOptions& options,
                        const MultiHeadAttentionTensors<Scalar>& tensors) {
  const AttentionShape attention = attention_shape_of(shape);
  check_attention(attention, options.mask, options.score, scalar_type<Scalar>());
  check_layer_tensors(shape, options.mask, tensors);
  const auto& key_input = shape.is_cross() ? tensors.key_input : tensors.x;
  const auto& value_input = shape.is_cross() ? tensors.value_input : tensors.x;
  Matrix<Scalar> query(tensors.x.rows, tensors.w_q.cols);
  Matrix<Scalar> key(key_input.rows, tensors.w_k.cols);
  Matrix<Scalar> value(value_input.rows, tensors.w_v.cols);
  Matrix<Scalar> heads(tensors.x.rows, tensors.w_o.rows);
  multiply<Scalar>(tensors.x, {tensors.w_q, mutable_view(query), tensors.b_q});
  multiply<Scalar>(key_input, {tensors.w_k, mutable_view(key), tensors.b_k});
  multiply<Scalar>(value_input, {tensors.w_v, mutable_view(value), tensors.b_v});
  AttentionTensors<Scalar> parts;
  parts.query = view(query);
  parts.key = view(key);
  parts.value = view(value);
  parts.out = tensors.heads.data != nullptr ? tensors.heads : mutable_view(heads);
  parts.weights = tensors.weights;
  reference::attention(attention, options.mask, options.score, parts);
  multiply<Scalar>(parts.out, {tensors.w_o, tensors.out, tensors.b_o});
}

template <class Scalar>
[[gnu::noinline]] Matrix<Scalar> forward(const LayerInputs<Scalar>& in, const ProjectionWeights<Scalar>& w,
                                         Index num_heads, const LayerOptions& options,
                                         MultiHeadAttentionResult<Scalar>* result) {
  const MultiHeadAttentionShape shape = layer_shape(in, w, num_heads, options);
  Matrix<Scalar> out(in.x.rows, w.w_o.cols);
  MultiHeadAttentionTensors<Scalar> tensors = layer_tensors(in.x, w, mutable_view(out));
  if (in.key_input) {
    tensors.key_input = *in.key_input;
    tensors.value_input = *in.value_input;
  }
  if (result != nullptr) {
    const AttentionShape attention = attention_shape_of(shape);
    check_attention(attention, options.mask, options.score, scalar_type<Scalar>());
    result->weights.resize(attention);
    result->heads.resize(in.x.rows, w.w_o.rows);
    tensors.weights = mutable_view(result->weights.stacked);
    tensors.heads = mutable_view(result->heads);
  }
  if constexpr (has_kernels<Scalar>) {
    const MultiHeadAttentionPlan<Scalar> plan(shape, options.mask, options.score,
                                              threads_of(options.executor));
    plan.check_tensors(tensors);
    CallWorkspace workspace(plan.workspace_bytes());
    plan.run(tensors, workspace.data(), options.executor);
  } else {
    run_layer_on_loops(shape, options, tensors);
  }
  return out;
}

/// Appends the keys and values of new tokens to a cache, then lets the tokens attend to all. Everything is
/// checked before the cache changes.
template <class Scalar>
[[gnu::noinline]] Matrix<Scalar> forward_cached(const MatrixView<const Scalar>& x,
                                                const ProjectionWeights<Scalar>& w, Index num_heads,
                                                KvCache<Scalar>& cache, const LayerOptions& options) {
  LayerOptions own = options;
  own.batch_size = cache.shape().batch_size;
  own.num_kv_heads = cache.shape().num_kv_heads;
  if (!options.query_starts.empty())
    throw_argument_error("query_starts is given: with a cache, every sequence gets as many new tokens");
  const MultiHeadAttentionShape shape = layer_shape<Scalar>({x}, w, num_heads, own);
  Matrix<Scalar> out(x.rows, w.w_o.cols);
  check_layer_tensors(shape, Mask(), layer_tensors(x, w, mutable_view(out)));
  Matrix<Scalar> query(x.rows, w.w_q.cols);
  Matrix<Scalar> key(x.rows, w.w_k.cols);
  Matrix<Scalar> value(x.rows, w.w_v.cols);
  Matrix<Scalar> heads(x.rows, w.w_o.rows);
  AttentionOptions attention;
  attention.mask = options.mask;
  attention.num_heads = num_heads;
  const AttentionShape cached = cached_shape<Scalar>(view(query), cache, shape.seq_len, attention);
  const Index threads = threads_of(options.executor);
  const AttentionPlan<Scalar> plan(cached, attention.mask, options.score, threads);
  const std::size_t in_bytes =
      product_workspace_bytes<Scalar>(x.rows, x.cols, w.w_q.cols + w.w_k.cols + w.w_v.cols, threads);
  const std::size_t out_bytes = product_workspace_bytes<Scalar>(x.rows, w.w_o.rows, w.w_o.cols, threads);
  CallWorkspace workspace((std::max)({in_bytes, out_bytes, plan.workspace_bytes()}));

  const ProductTerm<Scalar> projections[] = {{w.w_q, mutable_view(query), w.b_q},
                                             {w.w_k, mutable_view(key), w.b_k},
                                             {w.w_v, mutable_view(value), w.b_v}};
  run_products<Scalar>(x, projections, 3, workspace.data(), threads, options.executor);
  cache.append(view(key), view(value), options.score.rotary);
  const CacheView tiles = cache.cache_view();
  AttentionTensors<Scalar> tensors;
  tensors.query = view(query);
  tensors.out = mutable_view(heads);
  tensors.cache = &tiles;
  plan.run(tensors, workspace.data(), options.executor);
  run_product<Scalar>(view(heads), w.w_o, mutable_view(out), workspace.data(), threads, options.executor,
                      w.b_o);
  return out;
}

}  // namespace detail

}  // namespace heed
