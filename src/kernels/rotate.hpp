#pragma once

// Rotary positions (Su et al. 2021, "RoFormer", equation 34): pairs of elements of a query or key are turned
// by an angle that grows with the position, on the way into the packed order.

#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// out (contiguous) = x (elements `step` apart) of head_dim elements, turned as position `row` of the table
/// says. Products and sums are rounded one by one, so a compiler may use vectors of any width.
template <class T>
inline void rotate_row(const Rotation<T>& rotation, Index row, const T* x, Index step, Index head_dim,
                       T* __restrict out) {
  const Index pairs = rotation.pairs;
  const T* __restrict cosines = rotation.table + (rotation.first + row) * 2 * pairs;
  const T* __restrict sines = cosines + pairs;
  if (rotation.neighbors) {
    for (Index i = 0; i < pairs; ++i) {
      const T a = x[2 * i * step];
      const T b = x[(2 * i + 1) * step];
      out[2 * i] = a * cosines[i] - b * sines[i];
      out[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
  } else if (step == 1) {
    for (Index i = 0; i < pairs; ++i) {
      const T a = x[i];
      const T b = x[i + pairs];
      out[i] = a * cosines[i] - b * sines[i];
      out[i + pairs] = b * cosines[i] + a * sines[i];
    }
  } else {
    for (Index i = 0; i < pairs; ++i) {
      const T a = x[i * step];
      const T b = x[(i + pairs) * step];
      out[i] = a * cosines[i] - b * sines[i];
      out[i + pairs] = b * cosines[i] + a * sines[i];
    }
  }
  for (Index i = 2 * pairs; i < head_dim; ++i) out[i] = x[i * step];
}

/// x = x turned back: the transpose of the same rotation, which is what takes gradients through it.
template <class T>
inline void turn_back(const Rotation<T>& rotation, Index row, T* x) {
  const Index pairs = rotation.pairs;
  const T* __restrict cosines = rotation.table + (rotation.first + row) * 2 * pairs;
  const T* __restrict sines = cosines + pairs;
  const Index step = rotation.neighbors ? 2 : 1;
  const Index second = rotation.neighbors ? 1 : pairs;
  for (Index i = 0; i < pairs; ++i) {
    const T a = x[i * step];
    const T b = x[i * step + second];
    x[i * step] = a * cosines[i] + b * sines[i];
    x[i * step + second] = b * cosines[i] - a * sines[i];
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
