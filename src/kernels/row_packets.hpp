#pragma once

// Rows of any stride and length, a packet at a time: an element is computed the same way wherever it stands
// in its row and however the row lies in memory.

#include "kernels/packet.hpp"

// The compiler would stop at some of the many loops over rows, were it to choose what it inlines.
#define HEED_ROW_INLINE __attribute__((always_inline)) inline
#define HEED_ROW_INLINE_LAMBDA __attribute__((always_inline))

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

inline float root(float x) {
  return __builtin_sqrtf(x);
}
inline double root(double x) {
  return __builtin_sqrt(x);
}

template <class T>
__attribute__((noinline)) Packet<T> gather_lanes(const T* data, Index step, Index count) {
  alignas(64) T lane[kLanes<T>];
  for (Index i = 0; i < kLanes<T>; ++i) lane[i] = i < count ? data[i * step] : T(0);
  return load(lane);
}

template <class T>
__attribute__((noinline)) void scatter_lanes(const Packet<T>& x, T* data, Index step, Index count) {
  alignas(64) T lane[kLanes<T>];
  store(lane, x);
  for (Index i = 0; i < min_of(count, kLanes<T>); ++i) data[i * step] = lane[i];
}

/// `count` elements, `step` apart; lanes from count on are 0.
template <class T>
HEED_ROW_INLINE Packet<T> load_lanes(const T* data, Index step, Index count) {
  if (step == 1 && count >= kLanes<T>) return load(data);
  return gather_lanes(data, step, count);
}

template <class T>
HEED_ROW_INLINE void store_lanes(const Packet<T>& x, T* data, Index step, Index count) {
  if (step == 1 && count >= kLanes<T>) {
    store(data, x);
    return;
  }
  scatter_lanes(x, data, step, count);
}

/// Element `col` and those after it, of a row that has `cols`.
template <class T>
HEED_ROW_INLINE Packet<T> load_at(const T* row, Index step, Index col, Index cols) {
  return load_lanes(row + col * step, step, cols - col);
}
template <class T>
HEED_ROW_INLINE void store_at(const Packet<T>& x, T* row, Index step, Index col, Index cols) {
  store_lanes(x, row + col * step, step, cols - col);
}

/// How a loop over a row reaches a packet of it: whole, one element after another in memory, or otherwise.
struct Whole {
  template <class T>
  static HEED_ROW_INLINE Packet<T> load_at(const T* row, Index, Index col, Index) {
    return load(row + col);
  }
  template <class T>
  static HEED_ROW_INLINE void store_at(const Packet<T>& x, T* row, Index, Index col, Index) {
    store(row + col, x);
  }
};
struct Part {
  template <class T>
  static HEED_ROW_INLINE Packet<T> load_at(const T* row, Index step, Index col, Index cols) {
    return load_lanes(row + col * step, step, cols - col);
  }
  template <class T>
  static HEED_ROW_INLINE void store_at(const Packet<T>& x, T* row, Index step, Index col, Index cols) {
    store_lanes(x, row + col * step, step, cols - col);
  }
};

/// Calls body(access, col) for each packet of a row of `cols` elements. Where all of the rows that the body
/// reads and writes are contiguous, packets are whole but for the last, and nothing is asked in the loop.
template <class T, class Body>
HEED_ROW_INLINE void over_packets(bool contiguous, Index cols, const Body& body) {
  Index col = 0;
  if (contiguous) {
    for (; col + kLanes<T> <= cols; col += kLanes<T>) body(Whole(), col);
  }
  for (; col < cols; col += kLanes<T>) body(Part(), col);
}

/// x where the row has elements, 0 beyond its end.
template <class T>
inline Packet<T> inside(const Packet<T>& x, Index col, Index cols) {
  return cols - col >= kLanes<T> ? x : keep_first(x, cols - col, T(0));
}

template <class T>
inline Strided<T> rows_from(const Strided<T>& rows, Index first) {
  return {rows.row(first), rows.row_stride, rows.col_stride};
}

/// True if a row is 0 throughout. An ordinary row says so with its first element.
template <class T>
inline bool is_zero_row(const T* row, Index step, Index cols) {
  for (Index col = 0; col < cols; ++col) {
    if (!(row[col * step] == T(0))) return false;
  }
  return true;
}

template <class T>
inline void clear_row(const Strided<T>& rows, Index row, Index cols) {
  for (Index col = 0; col < cols; ++col) rows.row(row)[col * rows.col_stride] = T(0);
}

/// Calls work(first, count) for runs of rows on which something depends, and clear(row) for the others, whose
/// grad_out is 0: 0 times the slope at a NaN is no gradient. A run is looked for before it is worked on,
/// since the work may write to grad_out.
template <class T, class Work, class Clear>
inline void over_rows_with_gradient(Strided<const T> grad_out, Index rows, Index cols, const Work& work,
                                    const Clear& clear) {
  Index first = 0;
  while (first < rows) {
    Index last = first;
    while (last < rows && !is_zero_row(grad_out.row(last), grad_out.col_stride, cols)) ++last;
    if (last > first) work(first, last - first);
    if (last < rows) clear(last);
    first = last + 1;
  }
}

/// out = f(x), element by element.
template <class T, class F>
inline void map_rows(Strided<const T> x, Strided<T> out, Index rows, Index cols, F f) {
  const bool contiguous = x.col_stride == 1 && out.col_stride == 1;
  for (Index row = 0; row < rows; ++row) {
    const T* const from = x.row(row);
    T* const to = out.row(row);
    over_packets<T>(contiguous, cols, [=](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
      access.store_at(f(access.load_at(from, x.col_stride, col, cols)), to, out.col_stride, col, cols);
    });
  }
}

/// out = f(x, y), element by element.
template <class T, class F>
inline void map_rows(Strided<const T> x, Strided<const T> y, Strided<T> out, Index rows, Index cols, F f) {
  const bool contiguous = x.col_stride == 1 && y.col_stride == 1 && out.col_stride == 1;
  for (Index row = 0; row < rows; ++row) {
    const T* const from = x.row(row);
    const T* const other = y.row(row);
    T* const to = out.row(row);
    over_packets<T>(contiguous, cols, [=](auto access, Index col) HEED_ROW_INLINE_LAMBDA {
      const Packet<T> a = access.load_at(from, x.col_stride, col, cols);
      const Packet<T> b = access.load_at(other, y.col_stride, col, cols);
      access.store_at(f(a, b), to, out.col_stride, col, cols);
    });
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
