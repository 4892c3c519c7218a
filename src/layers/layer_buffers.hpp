#pragma once

// Matrices between the steps of a layer, in a workspace.

#include <cstddef>

#include "attention/blocks.hpp"
#include "heed/core/view.hpp"

namespace heed::detail {

template <class T>
std::size_t matrix_bytes(Index rows, Index cols) {
  return round_to_line(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) * sizeof(T));
}

/// The next rows x cols numbers of the memory, each matrix on a cache line of its own.
template <class T>
MatrixView<T> take_matrix(std::byte*& next, Index rows, Index cols) {
  const MatrixView<T> matrix{reinterpret_cast<T*>(next), rows, cols, cols, 1};
  next += matrix_bytes<T>(rows, cols);
  return matrix;
}

}  // namespace heed::detail
