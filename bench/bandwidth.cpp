#include "bandwidth.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "rivals.hpp"

namespace heed::bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kNumbers = std::size_t{256} << 17;  // 256 MB for each thread

/// The fastest of several loops: which loads a processor reads fastest with, and whether it should be asked
/// ahead, is not known before. One core of a Zen 5 read 41 GB/s in loads of 32 bytes and 22 in loads of 64.
double seconds_of_reading(const std::vector<std::uint64_t>& numbers) {
  constexpr std::size_t page_ahead =
      1024;  // words: beyond the end of a page, where hardware prefetchers stop
  double best = 1e9;
  for (const SumWords sum : sums_of_words()) {
    for (const std::size_t ahead : {std::size_t{0}, page_ahead}) {
      const auto start = Clock::now();
      benchmark::DoNotOptimize(sum(numbers.data(), numbers.size(), ahead));
      best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  return best;
}

}  // namespace

double read_gbytes(int threads) {
  static std::vector<std::vector<std::uint64_t>> memory;
  while (memory.size() < static_cast<std::size_t>(threads)) memory.emplace_back(kNumbers, memory.size() + 1);
  std::vector<double> rates(static_cast<std::size_t>(threads));
  const auto read = [&rates](std::size_t t) {
    rates[t] = static_cast<double>(kNumbers * sizeof(std::uint64_t)) / seconds_of_reading(memory[t]) * 1e-9;
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < rates.size(); ++t) others.emplace_back(read, t);
  read(0);
  for (std::thread& other : others) other.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

}  // namespace heed::bench
