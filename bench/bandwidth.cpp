#include "bandwidth.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace heed::bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kNumbers = std::size_t{256} << 17;  // 256 MB for each thread

/// Several sums at once, so that no chain of additions is waited for, and a word to the memory in time where
/// a hardware prefetcher would stop, at the end of a page.
std::uint64_t sum_of(const std::vector<std::uint64_t>& numbers) {
  constexpr std::size_t lanes = 32;
  constexpr std::size_t ahead = 1024;
  std::uint64_t sums[lanes] = {};
  const std::uint64_t* const data = numbers.data();
  for (std::size_t i = 0; i + lanes <= numbers.size(); i += lanes) {
    for (std::size_t line = 0; line < lanes; line += 8) __builtin_prefetch(data + i + ahead + line);
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += data[i + lane];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t s : sums) sum += s;
  return sum;
}

double seconds_of_reading(const std::vector<std::uint64_t>& numbers) {
  double best = 1e9;
  for (int i = 0; i < 2; ++i) {
    const auto start = Clock::now();
    benchmark::DoNotOptimize(sum_of(numbers));
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
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
