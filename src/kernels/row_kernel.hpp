#pragma once

// What remains of the loops over rows: sums, softmax for the loss, and dropout.

#include "kernels/exp.hpp"
#include "kernels/layer_kernels.hpp"
#include "kernels/row_packets.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

template <class T>
void softmax_row(Strided<const T> x, Index cols, Strided<T> grad, T factor, T& max, T& sum) noexcept {
  Packet<T> largest = broadcast<T>(-FloatTraits<T>::infinity);
  for (Index col = 0; col < cols; col += kLanes<T>) {
    const Packet<T> a = load_at(x.data, x.col_stride, col, cols);
    largest = packet::pmax(cols - col >= kLanes<T> ? a : keep_first(a, cols - col, -FloatTraits<T>::infinity),
                           largest);
  }
  max = packet::predux_max(largest);
  const auto exp_at = [&](Index col) {
    return exp_nonpositive<T>(packet::psub(load_at(x.data, x.col_stride, col, cols), broadcast<T>(max)));
  };
  Packet<T> total = broadcast<T>(T(0));
  for (Index col = 0; col < cols; col += kLanes<T>)
    total = packet::padd(total, inside<T>(exp_at(col), col, cols));
  sum = packet::predux(total);
  if (grad.data == nullptr) return;
  const Packet<T> scale = broadcast<T>(factor / sum);
  for (Index col = 0; col < cols; col += kLanes<T>)
    store_at<T>(packet::pmul(exp_at(col), scale), grad.data, grad.col_stride, col, cols);
}

template <class T>
void add(Strided<const T> a, Strided<const T> b, Strided<T> out, Index rows, Index cols) noexcept {
  map_rows<T>(a, b, out, rows, cols,
              [](const Packet<T>& x, const Packet<T>& y) { return packet::padd(x, y); });
}

template <class T>
void scale(Strided<const T> x, T factor, Strided<T> out, Index rows, Index cols) noexcept {
  map_rows<T>(x, out, rows, cols, [&](const Packet<T>& a) { return packet::pmul(a, broadcast<T>(factor)); });
}

template <class T>
void column_sums(Strided<const T> x, Index rows, Index cols, Strided<T> sums) noexcept {
  for (Index col = 0; col < cols; col += kLanes<T>) {
    T* const at = sums.data + col * sums.col_stride;
    Packet<T> sum = load_lanes<T>(at, sums.col_stride, cols - col);
    for (Index row = 0; row < rows; ++row)
      sum = packet::padd(sum, load_at(x.row(row), x.col_stride, col, cols));
    store_lanes<T>(sum, at, sums.col_stride, cols - col);
  }
}

template <class T>
double sum_of_squares(Strided<const T> x, Index rows, Index cols) noexcept {
  double total = 0;
  for (Index row = 0; row < rows; ++row) {
    // A packet's sum is one of few terms, so that float is enough for it; the total is not.
    constexpr Index chunk = 64 * kLanes<T>;
    for (Index first = 0; first < cols; first += chunk) {
      Packet<T> sum = broadcast<T>(T(0));
      for (Index col = first; col < min_of(cols, first + chunk); col += kLanes<T>) {
        const Packet<T> a = load_at(x.row(row), x.col_stride, col, cols);
        sum = packet::pmadd(a, a, sum);
      }
      total += static_cast<double>(packet::predux(sum));
    }
  }
  return total;
}

// Random bits by counting: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
// A number depends on its place alone, so any thread can make any of them.
inline constexpr Index kRandomBlock = 64;  // numbers made at once, four for each count

inline void random_block(const DropoutStream& stream, std::uint64_t block, std::uint32_t* words) {
  constexpr Index counts = kRandomBlock / 4;
  std::uint32_t x[4][counts];
  for (Index i = 0; i < counts; ++i) {
    const std::uint64_t count = block * counts + static_cast<std::uint64_t>(i);
    x[0][i] = static_cast<std::uint32_t>(count);
    x[1][i] = static_cast<std::uint32_t>(count >> 32);
    x[2][i] = stream.stream[0];
    x[3][i] = stream.stream[1];
  }
  std::uint32_t key0 = stream.key[0];
  std::uint32_t key1 = stream.key[1];
  for (int round = 0; round < 10; ++round) {
    for (Index i = 0; i < counts; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * x[0][i];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57} * x[2][i];
      x[0][i] = static_cast<std::uint32_t>(b >> 32) ^ x[1][i] ^ key0;
      x[1][i] = static_cast<std::uint32_t>(b);
      x[2][i] = static_cast<std::uint32_t>(a >> 32) ^ x[3][i] ^ key1;
      x[3][i] = static_cast<std::uint32_t>(a);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (Index i = 0; i < counts; ++i) {
    for (Index j = 0; j < 4; ++j) words[4 * i + j] = x[j][i];
  }
}

template <class T>
void dropout(const DropoutStream& stream, T factor, Strided<const T> x, Strided<T> out, Index first_row,
             Index rows, Index cols) noexcept {
  std::uint32_t words[kRandomBlock];
  std::uint64_t made = ~std::uint64_t{0};
  for (Index row = 0; row < rows; ++row) {
    const std::uint64_t first = static_cast<std::uint64_t>((first_row + row) * cols);
    Index col = 0;
    while (col < cols) {
      const std::uint64_t number = first + static_cast<std::uint64_t>(col);
      if (number / kRandomBlock != made) {
        made = number / kRandomBlock;
        random_block(stream, made, words);
      }
      const Index offset = static_cast<Index>(number % kRandomBlock);
      const Index count = min_of(kRandomBlock - offset, cols - col);
      const T* from = x.row(row) + col * x.col_stride;
      T* const to = out.row(row) + col * out.col_stride;
      for (Index i = 0; i < count; ++i) {
        const bool kept = words[offset + i] >= stream.threshold;
        to[i * out.col_stride] = kept ? from[i * x.col_stride] * factor : T(0);
      }
      col += count;
    }
  }
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
