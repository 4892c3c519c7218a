#pragma once

// Training a layer of multi-head attention.
//
//   heed::MultiHeadAttentionTape<float> tape(layer, x.rows(), {.mask = heed::causal()});
//   heed::MultiHeadAttention<float> gradients = heed::zeros_like(layer);
//   out = tape.forward(layer, x);  // step after step, no allocation
//   const auto& grad_x = tape.backward(layer, x, grad_out, gradients);
//
// docs/training.md derives the gradients.

#include "heed/core/config.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/attention/backward.hpp"
#include "heed/core/memory.hpp"
#include "heed/core/scalar.hpp"
#include "heed/layers/detail/engine.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "heed/layers/parameters.hpp"
#include "heed/layers/weights.hpp"

namespace heed {

/// What one forward pass leaves for the backward pass (query, key, value, heads and their logsumexp), the
/// gradients, and the memory of both: made once for a layer's sizes and a number of rows, and used for one
/// step after another. After the constructor nothing is allocated, for float and double; other scalars run on
/// the loops of reference.hpp.
///
/// Options are given to the constructor; matrices in their mask are looked at by each pass and must live as
/// long. The layer is handed in each time, so that its weights may change in between; its sizes may not.
/// Threads: the executor's of the options; bits do not depend on their number. One pass serves one step at a
/// time.
template <class Scalar>
class MultiHeadAttentionTape {
  static_assert(detail::require_number<Scalar>());

 public:
  /// Makes room for x of `rows` rows; cross-attention also says how many rows keys and values are made from.
  /// Throws as MultiHeadAttention::forward does for what does not fit.
  MultiHeadAttentionTape(const MultiHeadAttention<Scalar>& layer, Index rows,
                         const LayerOptions& options = {}, std::optional<Index> kv_rows = std::nullopt)
      : options_(with_kv_heads(options, layer)),
        shape_(shape_of(layer, rows, kv_rows)),
        attention_(attention_shape_of(shape_)),
        threads_(detail::threads_of(options.executor)),
        plans_(plans()) {
    check_attention(attention_, options_.mask, options_.score, scalar_type<Scalar>());
    const Index key_rows = kv_rows.value_or(rows);
    const Index columns = 2 * (layer.w_q.cols() + layer.w_o.rows()) + layer.w_q.rows() + layer.w_o.cols();
    const Index key_columns =
        2 * (layer.w_k.cols() + layer.w_v.cols()) + (kv_rows ? layer.w_k.rows() + layer.w_v.rows() : 0);
    detail::require_memory(
        detail::plus_bytes(detail::matrix_bytes(sizeof(Scalar), rows, columns + layer.num_heads()),
                           detail::matrix_bytes(sizeof(Scalar), key_rows, key_columns)),
        [&] {
          return "a tape of " + std::to_string(rows) + " rows and " + std::to_string(key_rows) + " of keys";
        });
    for (Matrix<Scalar>* m : {&query_, &grad_query_}) m->setZero(rows, layer.w_q.cols());
    for (Matrix<Scalar>* m : {&key_, &grad_key_}) m->setZero(key_rows, layer.w_k.cols());
    for (Matrix<Scalar>* m : {&value_, &grad_value_}) m->setZero(key_rows, layer.w_v.cols());
    for (Matrix<Scalar>* m : {&heads_, &grad_heads_}) m->setZero(rows, layer.w_o.rows());
    logsumexp_.setZero(rows, layer.num_heads());
    out_.setZero(rows, layer.w_o.cols());
    grad_x_.setZero(rows, layer.w_q.rows());
    if (kv_rows) {
      grad_key_input_.setZero(key_rows, layer.w_k.rows());
      grad_value_input_.setZero(key_rows, layer.w_v.rows());
    }
    for (const MaskMatrix& matrix : options_.mask.matrices()) {
      if (matrix.kind == MaskMatrix::Kind::bias)
        grad_biases_.push_back(Matrix<Scalar>::Zero(matrix.entries.rows, matrix.entries.cols));
    }
    for (Matrix<Scalar>& bias : grad_biases_) grad_bias_views_.push_back(mutable_view(bias));
    if (!options_.score.sinks.empty()) grad_sinks_.setZero(1, layer.num_heads());
    reserve_workspace(layer, rows, key_rows);
  }
  MultiHeadAttentionTape(const MultiHeadAttentionTape&) = delete;
  MultiHeadAttentionTape& operator=(const MultiHeadAttentionTape&) = delete;

  /// Returns layer.forward(x), to the bit. Throws ShapeError, before anything is written, if x or the layer
  /// has other sizes than the constructor was given.
  template <class X>
  const Matrix<Scalar>& forward(const MultiHeadAttention<Scalar>& layer, const Eigen::DenseBase<X>& x) {
    require_self();
    return run_forward(layer, view_of(x), view_of(x), view_of(x));
  }

  /// Returns layer.forward(x, key_input, value_input), to the bit: cross-attention.
  template <class X, class K, class V>
  const Matrix<Scalar>& forward(const MultiHeadAttention<Scalar>& layer, const Eigen::DenseBase<X>& x,
                                const Eigen::DenseBase<K>& key_input,
                                const Eigen::DenseBase<V>& value_input) {
    require_cross();
    return run_forward(layer, view_of(x), view_of(key_input), view_of(value_input));
  }

  /// Returns the gradient with respect to x, from the gradient with respect to the out of the last forward(),
  /// which had this layer and x. Gradients of the weights are added to `gradients`; gradients of sinks and of
  /// biases in the mask are in grad_sinks() and grad_biases(). A row whose grad_out is 0, such as padding
  /// (padding.hpp), adds nothing, whatever x holds there; nor do rows of keys that kv_lengths hides. Throws
  /// ShapeError before anything is written.
  template <class X, class G>
  const Matrix<Scalar>& backward(const MultiHeadAttention<Scalar>& layer, const Eigen::DenseBase<X>& x,
                                 const Eigen::DenseBase<G>& grad_out, MultiHeadAttention<Scalar>& gradients) {
    require_self();
    return run_backward(layer, view_of(x), view_of(x), view_of(x), view_of(grad_out), gradients);
  }

  /// Returns the gradient with respect to x in cross-attention; grad_key_input() and grad_value_input() have
  /// the gradients with respect to the other inputs.
  template <class X, class K, class V, class G>
  const Matrix<Scalar>& backward(const MultiHeadAttention<Scalar>& layer, const Eigen::DenseBase<X>& x,
                                 const Eigen::DenseBase<K>& key_input, const Eigen::DenseBase<V>& value_input,
                                 const Eigen::DenseBase<G>& grad_out, MultiHeadAttention<Scalar>& gradients) {
    require_cross();
    return run_backward(layer, view_of(x), view_of(key_input), view_of(value_input), view_of(grad_out),
                        gradients);
  }

  const Matrix<Scalar>& out() const noexcept { return out_; }
  const Matrix<Scalar>& grad_x() const noexcept { return grad_x_; }
  const Matrix<Scalar>& grad_key_input() const noexcept { return grad_key_input_; }
  const Matrix<Scalar>& grad_value_input() const noexcept { return grad_value_input_; }
  const Matrix<Scalar>& grad_sinks() const noexcept { return grad_sinks_; }  // 1 x num_heads, or empty
  const std::vector<Matrix<Scalar>>& grad_biases() const noexcept { return grad_biases_; }

 private:
  using ConstView = MatrixView<const Scalar>;
  using View = MatrixView<Scalar>;
  template <class T>
  struct Plans {
    AttentionPlan<T> forward;
    AttentionBackwardPlan<T> backward;
  };
  struct NoPlans {};
  using OwnPlans = typename decltype([] {
    if constexpr (has_kernels<Scalar>) {
      return std::type_identity<Plans<Scalar>>();
    } else {
      return std::type_identity<NoPlans>();
    }
  }())::type;

  template <class X>
  static ConstView view_of(const Eigen::DenseBase<X>& x) {
    detail::require_scalar<Scalar, X>();
    return view(x);
  }

  static LayerOptions with_kv_heads(const LayerOptions& options, const MultiHeadAttention<Scalar>& layer) {
    LayerOptions own = options;
    if (!own.num_kv_heads) own.num_kv_heads = layer.num_kv_heads();
    return own;
  }

  MultiHeadAttentionShape shape_of(const MultiHeadAttention<Scalar>& layer, Index rows,
                                   std::optional<Index> kv_rows) const {
    if (rows < 0 || kv_rows.value_or(0) < 0)
      throw_shape_error("a tape for " + std::to_string((std::min)(rows, kv_rows.value_or(0))) + " rows");
    // Sizes alone: nothing is read.
    const auto sized = [](Index r, Index cols) { return ConstView{nullptr, r, cols, cols, 1}; };
    detail::LayerInputs<Scalar> in{sized(rows, layer.w_q.rows())};
    if (kv_rows) {
      in.key_input = sized(*kv_rows, layer.w_k.rows());
      in.value_input = sized(*kv_rows, layer.w_v.rows());
    }
    return detail::layer_shape<Scalar>(in, layer.projections(), layer.num_heads(), options_);
  }

  OwnPlans plans() const {
    if constexpr (has_kernels<Scalar>) {
      return {AttentionPlan<Scalar>(attention_, options_.mask, options_.score, threads_),
              AttentionBackwardPlan<Scalar>(attention_, options_.mask, options_.score, threads_)};
    } else {
      return {};
    }
  }

  void reserve_workspace(const MultiHeadAttention<Scalar>& layer, Index rows, Index key_rows) {
    if constexpr (has_kernels<Scalar>) {
      std::size_t bytes = (std::max)(plans_.forward.workspace_bytes(), plans_.backward.workspace_bytes());
      const auto product = [&](Index height, Index depth, Index cols) {
        bytes = (std::max)(bytes, product_workspace_bytes<Scalar>(height, depth, cols, threads_));
      };
      product(rows, layer.w_q.rows(), layer.w_q.cols() + layer.w_k.cols() + layer.w_v.cols());
      for (const auto& [w, height] : {std::pair{&layer.w_q, rows},
                                      {&layer.w_k, key_rows},
                                      {&layer.w_v, key_rows},
                                      {&layer.w_o, rows}}) {
        product(height, w->rows(), w->cols());  // forward
        product(height, w->cols(), w->rows());  // grad_out w^T
        product(w->rows(), height, w->cols());  // x^T grad_out
      }
      workspace_.reserve(bytes);
    }
  }

  void require_self() const {
    if (shape_.is_cross())
      throw_argument_error("the tape is for cross-attention: it needs key_input and value_input");
  }
  void require_cross() const {
    if (!shape_.is_cross()) {
      throw_argument_error(
          "the tape is for self-attention: make it with the rows of key_input to use another");
    }
  }

  void check_inputs(const MultiHeadAttention<Scalar>& layer, const ConstView& x, const ConstView& key_input,
                    const ConstView& value_input) {
    const detail::ProjectionWeights<Scalar> w = layer.projections();
    MultiHeadAttentionTensors<Scalar> tensors{x,  w.w_q, w.w_k, w.w_v, w.w_o, mutable_view(out_),
                                              {}, {},    w.b_q, w.b_k, w.b_v, w.b_o};
    if (shape_.is_cross()) {
      tensors.key_input = key_input;
      tensors.value_input = value_input;
    }
    check_layer_tensors(shape_, options_.mask, tensors);
  }

  /// Refuses results as inputs: backward() writes its results while it still reads what it is given.
  void require_apart(const ConstView& given, const char* name) const {
    for (const Matrix<Scalar>* own : {&grad_x_, &grad_key_input_, &grad_value_input_}) {
      if (!overlap(given, view(*own))) continue;
      throw_argument_error(std::string(name) +
                           " is a result of this tape, which backward() overwrites: copy it");
    }
  }

  void products(const ConstView& a, std::span<const ProductTerm<Scalar>> terms) {
    if constexpr (has_kernels<Scalar>) {
      run_products<Scalar>(a, terms.data(), std::ssize(terms), workspace_.data(), threads_,
                           options_.executor);
    } else {
      for (const ProductTerm<Scalar>& term : terms) multiply<Scalar>(a, term);
    }
  }
  void product(const ConstView& a, const ProductTerm<Scalar>& term) { products(a, std::span(&term, 1)); }

  const Matrix<Scalar>& run_forward(const MultiHeadAttention<Scalar>& layer, const ConstView& x,
                                    const ConstView& key_input, const ConstView& value_input) {
    check_inputs(layer, x, key_input, value_input);
    forward_done_ = true;
    const detail::ProjectionWeights<Scalar> w = layer.projections();
    const ProductTerm<Scalar> terms[] = {{w.w_q, mutable_view(query_), w.b_q},
                                         {w.w_k, mutable_view(key_), w.b_k},
                                         {w.w_v, mutable_view(value_), w.b_v}};
    if (shape_.is_cross()) {
      product(x, terms[0]);
      product(key_input, terms[1]);
      product(value_input, terms[2]);
    } else {
      products(x, terms);
    }
    AttentionTensors<Scalar> tensors;
    tensors.query = view(query_);
    tensors.key = view(key_);
    tensors.value = view(value_);
    tensors.out = mutable_view(heads_);
    tensors.logsumexp = mutable_view(logsumexp_);
    if constexpr (has_kernels<Scalar>) {
      plans_.forward.run(tensors, workspace_.data(), options_.executor);
    } else {
      reference::attention(attention_, options_.mask, options_.score, tensors);
    }
    product(view(heads_), {w.w_o, mutable_view(out_), w.b_o});
    return out_;
  }

  /// Adds the gradients of w and b, and writes the gradient of the input of x w + b, added or not.
  void projection_backward(const ConstView& input, const Matrix<Scalar>& w, const ConstView& grad_out,
                           Matrix<Scalar>& grad_w, RowVector<Scalar>& grad_b, const View& grad_input,
                           bool accumulate) {
    detail::add_weight_gradient<Scalar>(input, grad_out, mutable_view(grad_w),
                                        [&](const auto& turned, const auto& term) { product(turned, term); });
    if (grad_b.size() > 0) detail::Rows<Scalar>::column_sums(grad_out, mutable_view(grad_b));
    product(grad_out, {view(w).transposed(), grad_input, {}, accumulate});
  }

  const Matrix<Scalar>& run_backward(const MultiHeadAttention<Scalar>& layer, const ConstView& x,
                                     const ConstView& key_input, const ConstView& value_input,
                                     const ConstView& grad_out, MultiHeadAttention<Scalar>& gradients) {
    detail::require_other(&layer, &gradients);
    if (!forward_done_) throw_argument_error("backward() is called before any forward()");
    check_inputs(layer, x, key_input, value_input);
    require_apart(x, "x");
    require_apart(key_input, "key_input");
    require_apart(value_input, "value_input");
    require_apart(grad_out, "grad_out");
    detail::require_matrix(grad_out, "grad_out", out_.rows(), out_.cols(), "the layer's result");
    for (const auto& [own, other, name] : {std::tuple{view(layer.w_q), view(gradients.w_q), "w_q"},
                                           {view(layer.w_k), view(gradients.w_k), "w_k"},
                                           {view(layer.w_v), view(gradients.w_v), "w_v"},
                                           {view(layer.w_o), view(gradients.w_o), "w_o"},
                                           {view(layer.b_q), view(gradients.b_q), "b_q"},
                                           {view(layer.b_k), view(gradients.b_k), "b_k"},
                                           {view(layer.b_v), view(gradients.b_v), "b_v"},
                                           {view(layer.b_o), view(gradients.b_o), "b_o"}}) {
      if (own.rows == other.rows && own.cols == other.cols) continue;
      throw_shape_error(std::string("gradients.") + name + " is " + size_text(other) + ", the layer's is " +
                        size_text(own));
    }
    // 1. Through w_o to the heads.
    projection_backward(view(heads_), layer.w_o, grad_out, gradients.w_o, gradients.b_o,
                        mutable_view(grad_heads_), false);
    // 2. Through the attention of each head.
    AttentionBackwardTensors<Scalar> tensors;
    tensors.query = view(query_);
    tensors.key = view(key_);
    tensors.value = view(value_);
    tensors.out = view(heads_);
    tensors.logsumexp = view(logsumexp_);
    tensors.grad_out = view(grad_heads_);
    tensors.grad_query = mutable_view(grad_query_);
    tensors.grad_key = mutable_view(grad_key_);
    tensors.grad_value = mutable_view(grad_value_);
    tensors.grad_biases = grad_bias_views_.data();
    tensors.num_grad_biases = static_cast<Index>(grad_bias_views_.size());
    if (grad_sinks_.size() > 0) tensors.grad_sinks = mutable_view(grad_sinks_);
    if constexpr (has_kernels<Scalar>) {
      plans_.backward.run(tensors, workspace_.data(), options_.executor);
    } else {
      reference::attention_backward(attention_, options_.mask, options_.score, tensors);
    }
    // 3. Through the projections: in self-attention all three come from x, and their gradients add up.
    const bool cross = shape_.is_cross();
    projection_backward(x, layer.w_q, view(grad_query_), gradients.w_q, gradients.b_q, mutable_view(grad_x_),
                        false);
    projection_backward(key_input, layer.w_k, view(grad_key_), gradients.w_k, gradients.b_k,
                        mutable_view(cross ? grad_key_input_ : grad_x_), !cross);
    projection_backward(value_input, layer.w_v, view(grad_value_), gradients.w_v, gradients.b_v,
                        mutable_view(cross ? grad_value_input_ : grad_x_), !cross);
    return grad_x_;
  }

  bool forward_done_ = false;
  LayerOptions options_;
  MultiHeadAttentionShape shape_;
  AttentionShape attention_;
  Index threads_;
  OwnPlans plans_;
  Workspace workspace_;
  Matrix<Scalar> query_, key_, value_, heads_, logsumexp_, out_;
  Matrix<Scalar> grad_query_, grad_key_, grad_value_, grad_heads_;
  Matrix<Scalar> grad_x_, grad_key_input_, grad_value_input_, grad_sinks_;
  std::vector<Matrix<Scalar>> grad_biases_;
  std::vector<View> grad_bias_views_;
};

}  // namespace heed
