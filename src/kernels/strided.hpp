#pragma once

// The matrices of the kernels: a pointer and two strides.

#include <cstddef>

namespace heed::kernels {

using Index = std::ptrdiff_t;

/// A read-only or writable matrix in memory: element (i, j) is data[i * row_stride + j * col_stride].
template <class T>
struct Strided {
  T* data = nullptr;
  Index row_stride = 0;
  Index col_stride = 0;

  T* row(Index i) const { return data + i * row_stride; }
};

}  // namespace heed::kernels
