#pragma once

// What the layer classes are made of: kernels for float and double, loops for other scalars.

#include "heed/core/config.hpp"

#include <type_traits>

#include "heed/layers/matrix_product.hpp"
#include "heed/layers/reference.hpp"
#include "heed/layers/rows.hpp"

namespace heed::detail {

template <class Scalar>
using Rows = std::conditional_t<has_kernels<Scalar>, RowFunctions<Scalar>, reference::RowFunctions<Scalar>>;

/// Calls work(first, rows) for the runs of rows that add something to x^T grad_out: all of them, but for rows
/// of which x holds NaN or infinity and on which nothing depends, their grad_out being 0. A sum that is
/// continued run by run has the bits of one product.
template <class Scalar, class Work>
void over_rows_that_count(const MatrixView<const Scalar>& x, const MatrixView<const Scalar>& grad_out,
                          const Work& work) {
  Index first = 0;
  for (Index row = 0; row < x.rows; ++row) {
    if (!Rows<Scalar>::adds_nothing(x, grad_out, row)) continue;
    if (row > first) work(first, row - first);
    first = row + 1;
  }
  if (x.rows > first) work(first, x.rows - first);
}

/// Adds x^T grad_out to grad_w, by product(a, term): the one way to the gradient of a weight. Rows on which
/// nothing depends add nothing, whatever x holds there.
template <class Scalar, class Product>
void add_weight_gradient(const MatrixView<const Scalar>& x, const MatrixView<const Scalar>& grad_out,
                         const MatrixView<Scalar>& grad_w, const Product& product) {
  over_rows_that_count(x, grad_out, [&](Index first, Index rows) {
    const ProductTerm<Scalar> term{grad_out.block(first, 0, rows, grad_out.cols), grad_w, {}, true};
    product(x.block(first, 0, rows, x.cols).transposed(), term);
  });
}

template <class Scalar, class X>
void require_scalar() {
  static_assert(std::is_same_v<Scalar, typename X::Scalar>,
                "the matrix needs the layer's scalar type: cast it");
}

}  // namespace heed::detail
