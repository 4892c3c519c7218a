#pragma once

// The feed-forward layer of a block, plain or gated, forward and backward.
//
//   heed::FeedForward<float> layer(64, 256, random, {.activation = heed::Activation::silu, .gated = true});
//   heed::FeedForward<float> gradients = heed::zeros_like(layer);
//   heed::FeedForward<float>::Tape tape;
//   const heed::Matrix<float> y = layer.forward(x, tape);
//   const heed::Matrix<float> grad_x = layer.backward(x, tape, grad_y, gradients);  // adds to gradients

#include "heed/core/config.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "heed/core/scalar.hpp"
#include "heed/layers/activation.hpp"
#include "heed/layers/linear.hpp"
#include "heed/layers/weights.hpp"

namespace heed {

/// The kind of a feed-forward layer.
struct FeedForwardOptions {
  Activation activation = Activation::gelu;
  bool gated = false;  ///< activation(x gate) * (x up): SwiGLU with Activation::silu (Shazeer 2020).
  bool bias = true;
};

/// Two products with an activation between them (Vaswani et al. 2017, section 3.3):
/// activation(x w_up + b_up) w_down + b_down, or gated (activation(x w_gate) * (x w_up)) w_down.
///
/// Const and stateless, as Linear: what the backward pass needs of the forward one is kept in a Tape object
/// of the caller's.
template <class Scalar>
class FeedForward : public ParameterWalk<FeedForward<Scalar>> {
  static_assert(detail::require_number<Scalar>());

 public:
  Linear<Scalar> up;                   ///< d_model x d_ff.
  std::optional<Linear<Scalar>> gate;  ///< d_model x d_ff, if it is gated.
  Linear<Scalar> down;                 ///< d_ff x d_model.
  Activation activation;

  /// What forward() leaves for backward().
  struct Tape {
    Matrix<Scalar> up;      ///< x w_up + b_up.
    Matrix<Scalar> gate;    ///< x w_gate + b_gate.
    Matrix<Scalar> hidden;  ///< What goes into w_down.
  };

  /// Draws weights as Linear does; biases are 0. Throws ShapeError if a size is below 1, ArgumentError for
  /// more bytes than the machine has.
  FeedForward(Index d_model, Index d_ff, Random& random, const FeedForwardOptions& options = {})
      : up((require_memory_for(d_model, d_ff, options.gated), d_model), d_ff, random, options.bias),
        gate(options.gated ? std::optional(Linear<Scalar>(d_model, d_ff, random, options.bias))
                           : std::nullopt),
        down(d_ff, d_model, random, options.bias),
        activation(options.activation) {}

  /// Takes the given products; forward() checks that they fit.
  FeedForward(Linear<Scalar> up_product, std::optional<Linear<Scalar>> gate_product,
              Linear<Scalar> down_product, Activation kind)
      : up(std::move(up_product)),
        gate(std::move(gate_product)),
        down(std::move(down_product)),
        activation(kind) {}

  /// Returns the layer's result for x; both are rows x d_model. Throws ShapeError if sizes do not fit.
  /// Memory: three matrices of rows x d_ff, two if it is not gated. Threads: the caller's, or the executor's.
  template <class X>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, Executor* executor = nullptr) const {
    Tape tape;
    return forward(x, tape, executor);
  }

  /// Returns the layer's result for x, and leaves in `tape` what backward() needs.
  template <class X>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, Tape& tape, Executor* executor = nullptr) const {
    tape.up = up.forward(x, executor);
    if (gate) {
      tape.gate = gate->forward(x, executor);
      tape.hidden = gated(activation, tape.gate, tape.up, executor);
    } else {
      tape.hidden = activate(activation, tape.up, executor);
    }
    return down.forward(tape.hidden, executor);
  }

  /// Returns the gradient with respect to x, and adds the gradients of the weights to `gradients`. `tape` is
  /// what forward() left for this x. A row whose grad_out is 0, such as padding (padding.hpp), has gradient 0
  /// and adds nothing, whatever x holds there. Throws ShapeError or std::bad_alloc before anything is
  /// written.
  template <class X, class G>
  Matrix<Scalar> backward(const Eigen::DenseBase<X>& x, const Tape& tape, const Eigen::DenseBase<G>& grad_out,
                          FeedForward& gradients, Executor* executor = nullptr) const {
    detail::require_scalar<Scalar, X>();
    detail::require_scalar<Scalar, G>();
    detail::require_matrix(view(tape.up), "tape.up", x.rows(), up.w.cols(), "x");
    detail::require_matrix(view(tape.hidden), "tape.hidden", x.rows(), up.w.cols(), "x");
    if (gate) detail::require_matrix(view(tape.gate), "tape.gate", x.rows(), up.w.cols(), "x");
    if (gate.has_value() != gradients.gate.has_value())
      throw_shape_error("gradients is of another kind of layer: one of both is gated");
    down.check_backward(view(tape.hidden), view(grad_out), gradients.down, "gradients.down.");
    up.check_backward(view(x), view(tape.up), gradients.up, "gradients.up.");
    if (gate) gate->check_backward(view(x), view(tape.gate), *gradients.gate, "gradients.gate.");
    const Matrix<Scalar> grad_hidden = down.input_gradient(grad_out, executor);
    GatedGradients<Scalar> grads;
    if (gate) {
      grads = gated_backward(activation, tape.gate, tape.up, grad_hidden, executor);
    } else {
      grads.up = activate_backward(activation, tape.up, grad_hidden, executor);
    }
    Matrix<Scalar> grad_x = up.input_gradient(grads.up, executor);
    if (gate) grad_x += gate->input_gradient(grads.gate, executor);
    const Workspace workspace((std::max)(down.weight_gradient_bytes(x.rows(), executor),
                                         up.weight_gradient_bytes(x.rows(), executor)));
    down.add_weight_gradients(view(tape.hidden), view(grad_out), gradients.down, workspace.data(), executor);
    up.add_weight_gradients(view(x), view(grads.up), gradients.up, workspace.data(), executor);
    if (gate)
      gate->add_weight_gradients(view(x), view(grads.gate), *gradients.gate, workspace.data(), executor);
    return grad_x;
  }

 private:
  friend class ParameterWalk<FeedForward<Scalar>>;

  /// Asks for the memory of all products together, before the first is made.
  static void require_memory_for(Index d_model, Index d_ff, bool gated) {
    const std::uint64_t product = detail::matrix_bytes(sizeof(Scalar), d_model, d_ff);
    detail::require_memory(detail::times_bytes(gated ? 3 : 2, product), [&] {
      return "a feed-forward layer of d_model " + std::to_string(d_model) + " and d_ff " +
             std::to_string(d_ff);
    });
  }

  template <class Self, class F, class Name>
  static void visit(Self& self, F& f, const Name& prefix) {
    self.up.for_each_parameter(f, prefix + "up.");
    if (self.gate) self.gate->for_each_parameter(f, prefix + "gate.");
    self.down.for_each_parameter(f, prefix + "down.");
  }
};

}  // namespace heed
