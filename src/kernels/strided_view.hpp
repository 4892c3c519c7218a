#pragma once

// From the engine's views to the kernels' matrices.

#include "heed/core/view.hpp"
#include "kernels/kernels.hpp"

namespace heed {

template <class T>
kernels::Strided<T> strided(const MatrixView<T>& view) {
  return {view.data, view.row_stride, view.col_stride};
}

}  // namespace heed
