#pragma once

// Activations on Eigen matrices, element by element.
//
//   const heed::Matrix<float> y = heed::activate(heed::Activation::gelu, x);
//   const heed::Matrix<float> grad_x = heed::activate_backward(heed::Activation::gelu, x, grad_y);

#include "heed/core/config.hpp"

#include "heed/core/scalar.hpp"
#include "heed/layers/detail/engine.hpp"
#include "heed/layers/parameters.hpp"
#include "heed/layers/weights.hpp"

namespace heed {

/// Returns f(x) for each element. NaN stays NaN, infinities give the limits. Error: GELU within a few
/// roundings of x Phi(x). Threads: the caller's, or the executor's.
template <class X>
Matrix<typename X::Scalar> activate(Activation kind, const Eigen::DenseBase<X>& x,
                                    Executor* executor = nullptr) {
  static_assert(detail::require_number<typename X::Scalar>());
  Matrix<typename X::Scalar> out(x.rows(), x.cols());
  detail::Rows<typename X::Scalar>::activation(kind, view(x), mutable_view(out), executor);
  return out;
}

/// Returns grad_out f'(x): the gradient with respect to x. A row of grad_out that is 0 gives 0, whatever x
/// holds there. Throws ShapeError if the sizes differ.
template <class X, class G>
Matrix<typename X::Scalar> activate_backward(Activation kind, const Eigen::DenseBase<X>& x,
                                             const Eigen::DenseBase<G>& grad_out,
                                             Executor* executor = nullptr) {
  using Scalar = typename X::Scalar;
  static_assert(detail::require_number<Scalar>());
  detail::require_scalar<Scalar, G>();
  detail::require_matrix(view(grad_out), "grad_out", x.rows(), x.cols(), "x");
  Matrix<Scalar> grad_x(x.rows(), x.cols());
  detail::Rows<Scalar>::activation_backward(kind, view(x), view(grad_out), mutable_view(grad_x), executor);
  return grad_x;
}

/// Returns f(gate) up, element by element: a gated unit (Shazeer 2020), SwiGLU with Activation::silu. Throws
/// ShapeError if the sizes differ.
template <class A, class B>
Matrix<typename A::Scalar> gated(Activation kind, const Eigen::DenseBase<A>& gate,
                                 const Eigen::DenseBase<B>& up, Executor* executor = nullptr) {
  using Scalar = typename A::Scalar;
  static_assert(detail::require_number<Scalar>());
  detail::require_scalar<Scalar, B>();
  detail::require_matrix(view(up), "up", gate.rows(), gate.cols(), "gate");
  Matrix<Scalar> out(gate.rows(), gate.cols());
  detail::Rows<Scalar>::gated(kind, view(gate), view(up), mutable_view(out), executor);
  return out;
}

/// The gradients of a gated unit with respect to both of its factors.
template <class Scalar>
struct GatedGradients {
  Matrix<Scalar> gate;
  Matrix<Scalar> up;
};

/// Returns the gradients of gated(). A row of grad_out that is 0 gives 0, whatever gate and up hold there.
/// Throws ShapeError if the sizes differ.
template <class A, class B, class G>
GatedGradients<typename A::Scalar> gated_backward(Activation kind, const Eigen::DenseBase<A>& gate,
                                                  const Eigen::DenseBase<B>& up,
                                                  const Eigen::DenseBase<G>& grad_out,
                                                  Executor* executor = nullptr) {
  using Scalar = typename A::Scalar;
  static_assert(detail::require_number<Scalar>());
  detail::require_scalar<Scalar, B>();
  detail::require_scalar<Scalar, G>();
  detail::require_matrix(view(up), "up", gate.rows(), gate.cols(), "gate");
  detail::require_matrix(view(grad_out), "grad_out", gate.rows(), gate.cols(), "gate");
  GatedGradients<Scalar> grads{Matrix<Scalar>(gate.rows(), gate.cols()),
                               Matrix<Scalar>(gate.rows(), gate.cols())};
  detail::Rows<Scalar>::gated_backward(kind, view(gate), view(up), view(grad_out), mutable_view(grads.gate),
                                       mutable_view(grads.up), executor);
  return grads;
}

}  // namespace heed
