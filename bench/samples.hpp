#pragma once

// What was measured, before anything is concluded from it.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace heed::bench {

/// The repetitions of one benchmark.
struct Samples {
  std::vector<double> milliseconds;
  std::vector<double> cpu_milliseconds;  // of the calling thread
  std::vector<double> peak_gflops;
  std::vector<double> read_gbytes;  // of the machine, beside each sample
  std::vector<double> bytes_per_second;
  std::vector<double> tokens_per_second;
};

/// By the name of the benchmark, "<cell>/<contestant>".
using SampleMap = std::map<std::string, Samples>;

inline double median(std::vector<double> x) {
  if (x.empty()) return 0;
  std::sort(x.begin(), x.end());
  const std::size_t middle = x.size() / 2;
  return x.size() % 2 == 1 ? x[middle] : (x[middle - 1] + x[middle]) / 2;
}

/// (largest - smallest) / median.
inline double spread(const std::vector<double>& x) {
  if (x.empty()) return 0;
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  return (*high - *low) / median(x);
}

/// The least, which whatever else the machine had to do disturbed least; 0 if there is none.
inline double best(const std::vector<double>& x) {
  return x.empty() ? 0 : *std::min_element(x.begin(), x.end());
}

}  // namespace heed::bench
