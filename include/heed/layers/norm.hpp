#pragma once

// LayerNorm and RMSNorm, forward and backward.
//
//   const heed::Norm<float> norm = heed::rms_norm<float>(64);
//   heed::Norm<float> gradients = heed::zeros_like(norm);
//   const heed::Matrix<float> y = norm.forward(x);
//   const heed::Matrix<float> grad_x = norm.backward(x, grad_y, gradients);  // adds to gradients

#include "heed/core/config.hpp"

#include <limits>
#include <string>
#include <utility>

#include "heed/core/float_bits.hpp"
#include "heed/core/scalar.hpp"
#include "heed/layers/detail/engine.hpp"
#include "heed/layers/parameters.hpp"
#include "heed/layers/weights.hpp"

namespace heed {

/// out = (x - mean) / sqrt(variance + epsilon) * weight + bias, over each row of x: LayerNorm (Ba et al.
/// 2016); without the mean RMSNorm (Zhang and Sennrich 2019). The variance is divided by the number of
/// columns, epsilon stands under the root.
///
/// It is const and stateless, as Linear. Threads: the caller's, or the executor's; bits do not depend on
/// their number.
template <class Scalar>
class Norm : public ParameterWalk<Norm<Scalar>> {
  static_assert(detail::require_number<Scalar>());

 public:
  RowVector<Scalar> weight;  ///< 1 x cols.
  RowVector<Scalar> bias;    ///< 1 x cols, or empty: none.
  NormOptions options;

  /// Makes a norm whose weights are 1 and biases 0. Throws ShapeError if cols < 1, ArgumentError unless
  /// epsilon is positive and finite.
  explicit Norm(Index cols, bool with_bias = true, const NormOptions& norm_options = {})
      : options(norm_options) {
    if (cols < 1) throw_shape_error("a norm of " + std::to_string(cols) + " columns, it needs at least 1");
    // As a Scalar: 1e-46 is 0 in float.
    const Scalar epsilon = static_cast<Scalar>(options.epsilon);
    if (!detail::is_finite(epsilon) || epsilon <= Scalar(0)) {
      throw_argument_error("epsilon is " + detail::number_text(options.epsilon) +
                           ", it must be positive and finite");
    }
    detail::require_matrix_memory<Scalar>(1, cols);
    weight.setOnes(cols);
    if (with_bias) bias.setZero(cols);
  }

  /// Returns the normalized rows of x; both are rows x cols. Throws ShapeError if sizes do not fit.
  template <class X>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, Executor* executor = nullptr) const {
    detail::require_scalar<Scalar, X>();
    check_input(view(x));
    Matrix<Scalar> out(x.rows(), x.cols());
    detail::Rows<Scalar>::norm(view(x), view(weight), detail::view_unless_empty(bias), options,
                               mutable_view(out), executor);
    return out;
  }

  /// Returns the gradient with respect to x, and adds the gradients of weight and bias to `gradients`. A row
  /// whose grad_out is 0, such as padding (padding.hpp), has gradient 0 and adds nothing, whatever x holds
  /// there. Throws ShapeError before anything is written.
  template <class X, class G>
  Matrix<Scalar> backward(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<G>& grad_out, Norm& gradients,
                          Executor* executor = nullptr) const {
    detail::require_scalar<Scalar, X>();
    detail::require_scalar<Scalar, G>();
    detail::require_other(this, &gradients);
    check_input(view(x));
    detail::require_matrix(view(grad_out), "grad_out", x.rows(), x.cols(), "x");
    detail::require_matrix(view(gradients.weight), "gradients.weight", 1, weight.cols(), "weight");
    detail::require_matrix(view(gradients.bias), "gradients.bias", bias.rows(), bias.cols(), "bias");
    Matrix<Scalar> grad_x(x.rows(), x.cols());
    detail::Rows<Scalar>::norm_weight_gradient(view(x), options, view(grad_out),
                                               mutable_view(gradients.weight),
                                               detail::mutable_view_unless_empty(gradients.bias));
    detail::Rows<Scalar>::norm_backward(view(x), view(weight), options, view(grad_out), {},
                                        mutable_view(grad_x), executor);
    return grad_x;
  }

 private:
  friend class ParameterWalk<Norm<Scalar>>;

  void check_input(const MatrixView<const Scalar>& x) const {
    if (x.cols != weight.cols() || (bias.size() > 0 && bias.cols() != weight.cols())) {
      throw_shape_error("x is " + size_text(x) + ", weight is " + size_text(view(weight)) + ", bias is " +
                        size_text(view(bias)) + ": as many columns are needed");
    }
  }

  template <class Self, class F, class Name>
  static void visit(Self& self, F& f, const Name& prefix) {
    f(prefix + "weight", self.weight);
    if (self.bias.size() > 0) f(prefix + "bias", self.bias);
  }
};

/// Makes a norm with the mean taken off.
template <class Scalar>
Norm<Scalar> layer_norm(Index cols, bool with_bias = true, double epsilon = 1e-5) {
  return Norm<Scalar>(cols, with_bias, {true, epsilon});
}

/// Makes a norm by the root mean square alone, without bias.
template <class Scalar>
Norm<Scalar> rms_norm(Index cols, double epsilon = 1e-5) {
  return Norm<Scalar>(cols, false, {false, epsilon});
}

}  // namespace heed
