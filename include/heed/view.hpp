#pragma once

// A matrix in somebody's memory, in any storage order and with any strides: what crosses the border between
// the Eigen-facing headers and the compiled engine.

#include <cstddef>
#include <string>

namespace heed {

using Index = std::ptrdiff_t;

/// Element (i, j) is data[i * row_stride + j * col_stride]; strides count elements and may be negative. Owns
/// nothing.
template <class T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index row_stride = 0;
  Index col_stride = 0;

  T& operator()(Index row, Index col) const { return data[row * row_stride + col * col_stride]; }

  bool empty() const { return rows == 0 || cols == 0; }

  /// Rows [first_row, first_row + num_rows) and columns [first_col, first_col + num_cols); nothing is
  /// checked.
  MatrixView block(Index first_row, Index first_col, Index num_rows, Index num_cols) const {
    // An empty matrix may have no memory at all, so no address inside it is computed.
    T* start = num_rows == 0 || num_cols == 0 ? data : data + first_row * row_stride + first_col * col_stride;
    return {start, num_rows, num_cols, row_stride, col_stride};
  }

  operator MatrixView<const T>() const { return {data, rows, cols, row_stride, col_stride}; }
};

/// "3 x 4", for messages.
template <class T>
std::string size_of(const MatrixView<T>& view) {
  return std::to_string(view.rows) + " x " + std::to_string(view.cols);
}

/// True if an element of `a` and an element of `b` may share memory. Exact for views of one matrix (equal
/// strides, as column blocks have); for others the whole ranges of addresses are compared.
bool views_overlap(const void* a, Index a_rows, Index a_cols, Index a_row_stride, Index a_col_stride,
                   const void* b, Index b_rows, Index b_cols, Index b_row_stride, Index b_col_stride,
                   std::size_t element_size) noexcept;

template <class A, class B>
bool overlap(const MatrixView<A>& a, const MatrixView<B>& b) noexcept {
  static_assert(sizeof(A) == sizeof(B), "views of one element type");
  return views_overlap(a.data, a.rows, a.cols, a.row_stride, a.col_stride, b.data, b.rows, b.cols,
                       b.row_stride, b.col_stride, sizeof(A));
}

}  // namespace heed
