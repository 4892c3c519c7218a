#pragma once

// Products of views on the engine's kernels, below matrix_product.hpp.

#include "heed/core/config.hpp"

#include <cstddef>

#include "heed/core/executor.hpp"
#include "heed/core/view.hpp"

namespace heed {

/// One right factor and where its product goes: out = a * b (+ bias in each row), with an a that several
/// share.
template <class T>
struct ProductTerm {
  MatrixView<const T> b;          ///< depth x cols.
  MatrixView<T> out;              ///< rows x cols.
  MatrixView<const T> bias = {};  ///< 1 x cols, or left empty: none.
  bool accumulate = false;        ///< out += a * b, without a bias.
};

/// Returns the bytes of scratch memory of run_product for a (rows x depth) times (depth x cols) product with
/// `threads` tasks under way at once, of which there are never more than the product has blocks. At most 0.5
/// MB for each of them. With one thread, fewer rows or a smaller depth never need more. cols is the sum over
/// all terms for run_products.
template <class T>
HEED_EXPORT std::size_t product_workspace_bytes(Index rows, Index depth, Index cols, Index threads = 1);

/// Computes out = a * b (+ bias) for each term, for float and double, in one pass over a and with the
/// engine's own kernel: an element's bits depend on its row of a and its column of b alone, not on how many
/// rows or terms there are, on strides or on threads. a is m x k, each b is k x n, its out is m x n and
/// overlaps nothing else (unchecked); workspace has product_workspace_bytes(m, k, sum of n, threads) bytes,
/// aligned to Workspace::alignment. At most kMaxProductTerms terms (unchecked too). At most `threads` tasks
/// are given to the executor; without one, the calling thread works alone. Allocates nothing and locks
/// nothing itself. Throws nothing but the ArgumentError of isa() for an unknown HEED_ISA, as
/// product_workspace_bytes() does.
template <class T>
HEED_EXPORT void run_products(MatrixView<const T> a, const ProductTerm<T>* terms, Index num_terms,
                              void* workspace, Index threads = 1, Executor* executor = nullptr);

inline constexpr Index kMaxProductTerms = 3;

/// Computes out = a * b (+ bias): run_products with one term.
template <class T>
void run_product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out, void* workspace,
                 Index threads = 1, Executor* executor = nullptr, MatrixView<const T> bias = {}) {
  const ProductTerm<T> term{b, out, bias};
  run_products<T>(a, &term, 1, workspace, threads, executor);
}

}  // namespace heed
