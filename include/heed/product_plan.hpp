#pragma once

#include <cstddef>

#include "heed/executor.hpp"
#include "heed/view.hpp"

namespace heed {

/// Scratch memory of run_product for a (rows x depth) times (depth x cols) product with `threads` tasks under
/// way at once, of which there are never more than the product has blocks. At most 0.6 MB for each of them.
template <class T>
std::size_t product_workspace_bytes(Index rows, Index depth, Index cols, Index threads = 1);

/// out = a * b, for float and double, with the engine's own kernel: an element's bits depend on its row of a
/// and its column of b alone, not on how many rows there are, on strides or on threads. a is m x k, b is k x
/// n, out is m x n and overlaps neither (unchecked); workspace has product_workspace_bytes(a.rows, b.rows,
/// b.cols, threads) bytes, aligned to Workspace::alignment. At most `threads` tasks are given to the
/// executor; without one, the calling thread works alone. Allocates nothing and locks nothing itself.
template <class T>
void run_product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out, void* workspace,
                 Index threads = 1, Executor* executor = nullptr) noexcept;

}  // namespace heed
