#pragma once

// A product with a bias, forward and backward: the layer that others are made of.
//
//   heed::Linear<float> linear(64, 256, random);
//   const heed::Matrix<float> y = linear.forward(x);
//   heed::Linear<float> gradients = heed::zeros_like(linear);
//   const heed::Matrix<float> grad_x = linear.backward(x, grad_y, gradients);  // adds to gradients

#include "heed/core/config.hpp"

#include <cmath>
#include <string>
#include <type_traits>

#include "heed/core/float_bits.hpp"
#include "heed/core/random.hpp"
#include "heed/core/scalar.hpp"
#include "heed/layers/detail/engine.hpp"
#include "heed/layers/matrix_product.hpp"
#include "heed/layers/parameters.hpp"
#include "heed/layers/weights.hpp"

namespace heed {

/// y = x w + b, on rows.
///
///   const Eigen::MatrixXd y = linear.forward(x);
///   const Eigen::MatrixXd grad_x = linear.backward(x, grad_y, gradients);
///
/// forward() and backward() are const and keep nothing, so that one layer serves several threads at once, and
/// a backward pass belongs to the x it is handed. Elements are summed up as run_product() does: a row's bits
/// depend on that row alone.
template <class Scalar>
class Linear : public ParameterWalk<Linear<Scalar>> {
  static_assert(detail::require_number<Scalar>());

 public:
  Matrix<Scalar> w;     ///< in x out.
  RowVector<Scalar> b;  ///< 1 x out, or empty: none.

  /// Draws w uniformly from (-bound, bound), bound by default sqrt(3 / in), which keeps the variance; b is 0.
  /// Throws ShapeError if a size is below 1, ArgumentError for a bound that is not finite.
  Linear(Index in, Index out, Random& random, bool bias = true, double bound = -1) {
    detail::require_sizes_at_least_one(in, "in", out, "out");
    if (!detail::is_finite(bound))
      throw_argument_error("bound is " + detail::number_text(bound) + ", it must be finite");
    w = detail::uniform_matrix<Scalar>(in, out, random,
                                       bound < 0 ? std::sqrt(3.0 / static_cast<double>(in)) : bound);
    if (bias) b.setZero(out);
  }

  explicit Linear(Matrix<Scalar> weights, RowVector<Scalar> bias = {})
      : w(std::move(weights)), b(std::move(bias)) {}

  /// Returns x w + b: x is rows x in, the result rows x out. Throws ShapeError if sizes do not fit.
  template <class X>
  Matrix<Scalar> forward(const Eigen::DenseBase<X>& x, Executor* executor = nullptr) const {
    detail::require_scalar<Scalar, X>();
    check_input(view(x));
    Matrix<Scalar> out(x.rows(), w.cols());
    multiply<Scalar>(view(x), {view(w), mutable_view(out), detail::view_unless_empty(b)}, executor);
    return out;
  }

  /// Returns the gradient with respect to x, grad_out w^T, and adds the gradients of the weights, x^T
  /// grad_out and the sum of the rows of grad_out, to `gradients`, a layer of equal sizes. A row whose
  /// grad_out is 0, such as padding (padding.hpp), adds nothing, whatever x holds there. Throws ShapeError or
  /// std::bad_alloc before anything is written.
  template <class X, class G>
  Matrix<Scalar> backward(const Eigen::DenseBase<X>& x, const Eigen::DenseBase<G>& grad_out,
                          Linear& gradients, Executor* executor = nullptr) const {
    detail::require_scalar<Scalar, X>();
    detail::require_scalar<Scalar, G>();
    check_backward(view(x), view(grad_out), gradients, "gradients.");
    Matrix<Scalar> grad_x = input_gradient(grad_out, executor);
    const Workspace workspace(weight_gradient_bytes(x.rows(), executor));
    add_weight_gradients(view(x), view(grad_out), gradients, workspace.data(), executor);
    return grad_x;
  }

  /// Returns the gradient with respect to the input: the first step of backward(), for layers made of this
  /// one, which take all memory before they write. Nothing is checked.
  template <class G>
  Matrix<Scalar> input_gradient(const Eigen::DenseBase<G>& grad_out, Executor* executor) const {
    Matrix<Scalar> grad_x(grad_out.rows(), w.rows());
    multiply<Scalar>(view(grad_out), {view(w).transposed(), mutable_view(grad_x)}, executor);
    return grad_x;
  }
  /// Returns the bytes of scratch memory of add_weight_gradients().
  std::size_t weight_gradient_bytes(Index rows, Executor* executor) const {
    if constexpr (has_kernels<Scalar>) {
      return product_workspace_bytes<Scalar>(w.rows(), rows, w.cols(), detail::threads_of(executor));
    } else {
      return 0;
    }
  }
  void add_weight_gradients(const MatrixView<const Scalar>& x, const MatrixView<const Scalar>& grad_out,
                            Linear& gradients, void* workspace, Executor* executor) const {
    detail::add_weight_gradient<Scalar>(
        x, grad_out, mutable_view(gradients.w), [&](const auto& turned, const auto& term) {
          if constexpr (has_kernels<Scalar>) {
            run_products<Scalar>(turned, &term, 1, workspace, detail::threads_of(executor), executor);
          } else {
            multiply<Scalar>(turned, term);
          }
        });
    if (b.size() > 0) detail::Rows<Scalar>::column_sums(grad_out, mutable_view(gradients.b));
  }

  /// Throws ShapeError unless these fit backward(). name: of the gradients' matrices, what is in front of
  /// "w".
  void check_backward(const MatrixView<const Scalar>& x, const MatrixView<const Scalar>& grad_out,
                      const Linear& gradients, const std::string& name) const {
    detail::require_other(this, &gradients);
    check_input(x);
    detail::require_matrix(
        grad_out, "grad_out", x.rows, w.cols(),
        "a layer of " + std::to_string(w.cols()) + " columns on " + std::to_string(x.rows) + " rows");
    detail::require_matrix(view(gradients.w), (name + "w").c_str(), w.rows(), w.cols(), "w");
    detail::require_matrix(view(gradients.b), (name + "b").c_str(), b.rows(), b.cols(), "b");
  }

 private:
  friend class ParameterWalk<Linear<Scalar>>;

  void check_input(const MatrixView<const Scalar>& x) const {
    if (x.cols != w.rows()) {
      throw_shape_error("x is " + size_text(x) + ", w is " + size_text(view(w)) +
                        ": as many columns as rows are needed");
    }
    if (b.size() > 0 && b.cols() != w.cols())
      throw_shape_error("b is " + size_text(view(b)) + ", w is " + size_text(view(w)));
  }

  template <class Self, class F, class Name>
  static void visit(Self& self, F& f, const Name& prefix) {
    f(prefix + "w", self.w);
    if (self.b.size() > 0) f(prefix + "b", self.b);
  }
};

}  // namespace heed
