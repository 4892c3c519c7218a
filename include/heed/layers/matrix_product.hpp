#pragma once

// The product of the projections, y = x * w.

#include "heed/core/config.hpp"

#include <type_traits>

#include "heed/attention/reference.hpp"
#include "heed/core/eigen.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/workspace.hpp"
#include "heed/layers/product.hpp"

namespace heed {

/// Computes the product of term.b with a, on views that fit: a is m x k, term.b is k x n, term.out is m x n
/// and overlaps neither. Takes its scratch memory from a CallWorkspace.
template <class Scalar>
[[gnu::noinline]] void multiply(MatrixView<const Scalar> a, const ProductTerm<Scalar>& term,
                                Executor* executor = nullptr) {
  if constexpr (has_kernels<Scalar>) {
    const Index threads = detail::threads_of(executor);
    CallWorkspace workspace(product_workspace_bytes<Scalar>(a.rows, term.b.rows, term.b.cols, threads));
    run_products(a, &term, 1, workspace.data(), threads, executor);
  } else {
    for (Index i = 0; i < a.rows; ++i) {
      for (Index j = 0; j < term.b.cols; ++j) {
        Scalar sum = term.accumulate ? term.out(i, j) : term.bias.empty() ? Scalar(0) : term.bias(0, j);
        for (Index k = 0; k < a.cols; ++k) sum += a(i, k) * term.b(k, j);
        term.out(i, j) = sum;
      }
    }
  }
}

/// Computes out = a * b, on views that fit.
template <class Scalar>
void multiply(MatrixView<const Scalar> a, MatrixView<const Scalar> b, MatrixView<Scalar> out,
              Executor* executor = nullptr) {
  multiply<Scalar>(a, ProductTerm<Scalar>{b, out}, executor);
}

/// Returns a (m x k) times b (k x n), both any Eigen expression with memory. Unlike Eigen's own product, an
/// element's bits depend on its row of a and its column of b alone: a row gives the same result whether it
/// comes alone or with a thousand others. Throws ShapeError if the sizes do not fit. Works on the calling
/// thread, or on the executor's.
template <class A, class B>
Matrix<typename A::Scalar> matrix_product(const Eigen::DenseBase<A>& a, const Eigen::DenseBase<B>& b,
                                          Executor* executor = nullptr) {
  using Scalar = typename A::Scalar;
  static_assert(detail::require_number<Scalar>());
  static_assert(std::is_same_v<Scalar, typename B::Scalar>,
                "both matrices need the same scalar type: cast one of them");
  if (a.cols() != b.rows()) {
    throw_shape_error("the left matrix is " + size_text(view(a)) + ", the right one " + size_text(view(b)) +
                      ": as many columns as rows are needed");
  }
  Matrix<Scalar> out(a.rows(), b.cols());
  multiply<Scalar>(view(a), view(b), mutable_view(out), executor);
  return out;
}

}  // namespace heed
