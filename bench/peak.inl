// The limit that kernels are measured against: independent multiply-adds in registers, compiled once per instruction set. Fused
// where the instruction set has it; SSE2 has not, and its limit is a product and a sum.
#include <chrono>

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

}  // namespace heed::bench::HEED_BENCH_ISA
