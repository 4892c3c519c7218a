#pragma once

// A matrix view: a matrix in memory that belongs to someone else, in any storage order and with any strides:
// what crosses the border between the Eigen-facing headers and the compiled engine.

#include "heed/core/config.hpp"

#include <cstddef>
#include <string>

#include "heed/core/index.hpp"

namespace heed {

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

  /// Returns rows [first_row, first_row + num_rows) and columns [first_col, first_col + num_cols); nothing is
  /// checked.
  MatrixView block(Index first_row, Index first_col, Index num_rows, Index num_cols) const {
    // An empty matrix may have no memory at all, so no address inside it is computed.
    T* start = num_rows == 0 || num_cols == 0 ? data : data + first_row * row_stride + first_col * col_stride;
    return {start, num_rows, num_cols, row_stride, col_stride};
  }

  MatrixView transposed() const { return {data, cols, rows, col_stride, row_stride}; }

  operator MatrixView<const T>() const { return {data, rows, cols, row_stride, col_stride}; }
};

/// A view whose element type is only a size: for checks that need no more.
struct UntypedView {
  const void* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index row_stride = 0;
  Index col_stride = 0;
  std::size_t element_size = 0;
};

template <class T>
UntypedView untyped(const MatrixView<T>& view) {
  return {view.data, view.rows, view.cols, view.row_stride, view.col_stride, sizeof(T)};
}

/// Returns "3 x 4", for messages.
inline std::string size_text(const UntypedView& view) {
  return std::to_string(view.rows) + " x " + std::to_string(view.cols);
}
template <class T>
std::string size_text(const MatrixView<T>& view) {
  return size_text(untyped(view));
}

/// Returns true if an element of `a` and an element of `b` may share memory. It is exact for views of one
/// matrix (equal strides, as column blocks have); for others the whole ranges of addresses are compared.
HEED_EXPORT bool overlap(const UntypedView& a, const UntypedView& b) noexcept;

template <class A, class B>
bool overlap(const MatrixView<A>& a, const MatrixView<B>& b) noexcept {
  return overlap(untyped(a), untyped(b));
}

}  // namespace heed
