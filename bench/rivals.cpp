#include "rivals.hpp"

#include <string_view>
#include <thread>
#include <vector>

#include "heed/core/isa.hpp"

namespace heed::bench {

#define HEED_DECLARE(isa)                                                                                \
  namespace isa {                                                                                        \
  double peak_float(long rounds);                                                                        \
  double peak_double(long rounds);                                                                       \
  std::uint64_t sum_words(const std::uint64_t* words, std::size_t count, std::size_t ahead);             \
  template <class T>                                                                                     \
  void plain_attention(long, long, long, long, bool, const T*, long, const T*, long, const T*, long, T*, \
                       long, T*);                                                                        \
  template <class T>                                                                                     \
  void plain_product(long, long, long, const T*, const T*, T*);                                          \
  }
HEED_DECLARE(baseline)
#if defined(HEED_BENCH_X86)
HEED_DECLARE(avx2)
HEED_DECLARE(avx512)
#endif
#undef HEED_DECLARE

namespace {

template <class T>
struct Rivals {
  double (*peak)(long rounds);
  PlainAttention<T> attention;
  PlainProduct<T> product;
};

#define HEED_RIVALS(isa)                                                                 \
  Rivals<T> {                                                                            \
    sizeof(T) == 4 ? &isa::peak_float : &isa::peak_double, {&isa::plain_attention<T>}, { \
      &isa::plain_product<T>                                                             \
    }                                                                                    \
  }

template <class T>
Rivals<T> rivals() {
#if defined(HEED_BENCH_X86)
  if (std::string_view(isa()) == "avx512") return HEED_RIVALS(avx512);
  if (std::string_view(isa()) == "avx2") return HEED_RIVALS(avx2);
#endif
  return HEED_RIVALS(baseline);
}

#undef HEED_RIVALS

}  // namespace

template <class T>
double peak_gflops(int threads) {
  constexpr long rounds = 250000;
  std::vector<double> flops(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < flops.size(); ++t)
    others.emplace_back([&flops, t] { flops[t] = rivals<T>().peak(rounds); });
  flops[0] = rivals<T>().peak(rounds);
  for (std::thread& other : others) other.join();
  double sum = 0;
  for (const double f : flops) sum += f;
  return sum * 1e-9;
}

std::vector<SumWords> sums_of_words() {
  std::vector<SumWords> sums{&baseline::sum_words};
#if defined(HEED_BENCH_X86)
  const std::string_view own = isa();
  if (own != "baseline") sums.push_back(&avx2::sum_words);
  if (own == "avx512") sums.push_back(&avx512::sum_words);
#endif
  return sums;
}

template <class T>
PlainAttention<T> plain_attention() {
  return rivals<T>().attention;
}
template <class T>
PlainProduct<T> plain_product() {
  return rivals<T>().product;
}

template double peak_gflops<float>(int);
template double peak_gflops<double>(int);
template PlainAttention<float> plain_attention<float>();
template PlainAttention<double> plain_attention<double>();
template PlainProduct<float> plain_product<float>();
template PlainProduct<double> plain_product<double>();

}  // namespace heed::bench
