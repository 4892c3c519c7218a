#pragma once

// Rows of any stride and length, a packet at a time: an element is computed the same way wherever it stands
// in its row and however the row lies in memory.

#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

inline float root(float x) {
  return __builtin_sqrtf(x);
}
inline double root(double x) {
  return __builtin_sqrt(x);
}

/// `count` elements, `step` apart; lanes from count on are 0.
template <class T>
inline Packet<T> load_lanes(const T* data, Index step, Index count) {
  if (step == 1 && count >= kLanes<T>) return load(data);
  alignas(64) T lane[kLanes<T>];
  for (Index i = 0; i < kLanes<T>; ++i) lane[i] = i < count ? data[i * step] : T(0);
  return load(lane);
}

template <class T>
inline void store_lanes(const Packet<T>& x, T* data, Index step, Index count) {
  if (step == 1 && count >= kLanes<T>) {
    store(data, x);
    return;
  }
  alignas(64) T lane[kLanes<T>];
  store(lane, x);
  for (Index i = 0; i < min_of(count, kLanes<T>); ++i) data[i * step] = lane[i];
}

/// Element `col` and those after it, of a row that has `cols`.
template <class T>
inline Packet<T> load_at(const T* row, Index step, Index col, Index cols) {
  return load_lanes(row + col * step, step, cols - col);
}
template <class T>
inline void store_at(const Packet<T>& x, T* row, Index step, Index col, Index cols) {
  store_lanes(x, row + col * step, step, cols - col);
}

/// x where the row has elements, 0 beyond its end.
template <class T>
inline Packet<T> inside(const Packet<T>& x, Index col, Index cols) {
  return cols - col >= kLanes<T> ? x : keep_first(x, cols - col, T(0));
}

/// out = f(x), element by element.
template <class T, class F>
inline void map_rows(Strided<const T> x, Strided<T> out, Index rows, Index cols, F f) {
  for (Index row = 0; row < rows; ++row) {
    for (Index col = 0; col < cols; col += kLanes<T>) {
      store_at<T>(f(load_at(x.row(row), x.col_stride, col, cols)), out.row(row), out.col_stride, col, cols);
    }
  }
}

/// out = f(x, y), element by element.
template <class T, class F>
inline void map_rows(Strided<const T> x, Strided<const T> y, Strided<T> out, Index rows, Index cols, F f) {
  for (Index row = 0; row < rows; ++row) {
    for (Index col = 0; col < cols; col += kLanes<T>) {
      const Packet<T> a = load_at(x.row(row), x.col_stride, col, cols);
      const Packet<T> b = load_at(y.row(row), y.col_stride, col, cols);
      store_at<T>(f(a, b), out.row(row), out.col_stride, col, cols);
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
