#pragma once

// Divides each row by its sum of weights and writes it to the caller's matrix.

#include "kernels/pack.hpp"
#include "kernels/packet.hpp"
#include "kernels/query_rows.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// Writes one finished row, which may be acc itself: acc / row_sum. Every zero becomes +0 and every NaN the
/// same NaN, so that neither the sign of an empty sum nor the operand order of an instruction shows in the
/// bits.
template <class T, class Divide>
inline void write_divided(const T* acc, Index value_dim, T* out, Divide divide) {
  constexpr int lanes = kLanes<T>;
  for (Index col = 0; col < value_dim; col += lanes) {
    Packet<T> x = packet::padd(divide(load(acc + col)), broadcast<T>(T(0)));
    x = packet::pselect(packet::pcmp_eq(x, x), x, broadcast<T>(FloatTraits<T>::quiet_nan));
    const Index count = min_of(lanes, value_dim - col);
    if (count == lanes) {
      store(out + col, x);
    } else {
      alignas(64) T lane[lanes];
      store(lane, x);
      for (Index i = 0; i < count; ++i) out[col + i] = lane[i];
    }
  }
}

template <class T>
inline void write_row(const T* acc, T row_sum, Index value_dim, T* out) {
  const Packet<T> divisor = broadcast<T>(row_sum);
#if defined(__FMA__) || defined(__aarch64__)
  // A division takes the time of eight multiply-adds and more. One of them and the exact remainder give the
  // same quotient (Markstein 1990), as long as nothing is infinite or NaN or about to underflow.
  if (all_finite(acc, 1, 0, round_up(value_dim, kLanes<T>))) {
    const Packet<T> reciprocal = packet::pdiv(broadcast<T>(T(1)), divisor);
    const Packet<T> minus_divisor = packet::pnegate(divisor);
    write_divided<T>(acc, value_dim, out, [&](const Packet<T>& x) {
      const Packet<T> quotient = packet::pmul(x, reciprocal);
      const Packet<T> remainder = packet::pmadd(minus_divisor, quotient, x);
      return packet::pmadd(remainder, reciprocal, quotient);
    });
    return;
  }
#endif
  write_divided<T>(acc, value_dim, out, [&](const Packet<T>& x) { return packet::pdiv(x, divisor); });
}

/// Writes all rows of a block. Where the elements of a row of out lie apart, each in a cache line of its own,
/// rows are finished in the workspace and then copied together.
template <class T>
inline void finish_rows(const AttentionBlock<T>& block, T* block_acc, Index value_cols) {
  const bool apart = block.out.col_stride != 1;
  for (Index row = 0; row < block.num_rows; ++row) {
    T* const acc = block_acc + row * value_cols;
    T* const out = apart ? acc : block.out.at(position_of(block, row), head_of(block, row));
    if (block.row_sees[row]) {
      write_row<T>(acc, block.row_sum[row], block.value_dim, out);
    } else {
      for (Index col = 0; col < block.value_dim; ++col) out[col] = T(0);
    }
  }
  if (!apart) return;
  if (rows_lie_evenly(block)) {
    unpack_rows<T>(block_acc, value_cols, block.num_rows, block.value_dim, even_rows(block, block.out, 0));
    return;
  }
  for (Index row = 0; row < block.num_rows; ++row) {
    T* const out = block.out.at(position_of(block, row), head_of(block, row));
    for (Index col = 0; col < block.value_dim; ++col)
      out[col * block.out.col_stride] = block_acc[row * value_cols + col];
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
