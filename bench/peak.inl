// The limits that kernels are measured against, compiled once per instruction set: independent multiply-adds in registers, fused
// where the instruction set has it (SSE2 has not, and its limit is a product and a sum), and sums over memory.
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace heed::bench::HEED_BENCH_ISA {

template <class T, int Lanes>
double peak_flops_per_second(long rounds) {
  typedef T Vector __attribute__((vector_size(Lanes * sizeof(T))));
  constexpr int chains = 12;  // enough to hide the latency, few enough for 16 registers
  Vector acc[chains];
  for (int i = 0; i < chains; ++i) acc[i] = Vector{} + T(i + 1);
  Vector factor = Vector{} + T(0.999999);
  Vector addend = Vector{} + T(1e-7);
  asm volatile("" : "+x"(factor), "+x"(addend));
  const auto start = std::chrono::steady_clock::now();
  for (long round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) acc[i] = acc[i] * factor + addend;
  }
  for (int i = 0; i < chains; ++i) asm volatile("" : : "x"(acc[i]));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return 2.0 * chains * Lanes * static_cast<double>(rounds) / seconds;
}

double peak_float(long rounds) { return peak_flops_per_second<float, HEED_BENCH_BYTES / 4>(rounds); }
double peak_double(long rounds) { return peak_flops_per_second<double, HEED_BENCH_BYTES / 8>(rounds); }

/// The sum of `count` words, a multiple of 32, in several sums at once, so that no chain of additions is waited for. Words are
/// asked for so many before they are needed; 0: they are not.
std::uint64_t sum_words(const std::uint64_t* words, std::size_t count, std::size_t ahead) {
  constexpr std::size_t lanes = HEED_BENCH_BYTES / 8;
  typedef std::uint64_t Vector __attribute__((vector_size(HEED_BENCH_BYTES), aligned(8)));
  constexpr std::size_t step = 32;
  Vector sums[step / lanes] = {};
  for (std::size_t i = 0; i < count; i += step) {
    for (std::size_t line = 0; ahead > 0 && line < step; line += 8) __builtin_prefetch(words + i + ahead + line);
#pragma GCC unroll 16
    for (std::size_t s = 0; s < step / lanes; ++s) sums[s] += *reinterpret_cast<const Vector*>(words + i + s * lanes);
  }
  std::uint64_t sum = 0;
  for (const Vector& lane : sums) {
    for (std::size_t i = 0; i < lanes; ++i) sum += lane[i];
  }
  return sum;
}

}  // namespace heed::bench::HEED_BENCH_ISA
