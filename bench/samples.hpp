#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace heed::bench {

/// The repetitions of one benchmark.
struct Samples {
  std::vector<double> milliseconds;
  std::vector<double> peak_gflops;
  std::vector<double> bytes_per_second;
};

/// By the name of the benchmark: "attention/float/d64/full/n4/t1/heed".
using SampleMap = std::map<std::string, Samples>;

inline double median(std::vector<double> x) {
  if (x.empty()) return 0;
  std::sort(x.begin(), x.end());
  const std::size_t middle = x.size() / 2;
  return x.size() % 2 == 1 ? x[middle] : (x[middle - 1] + x[middle]) / 2;
}

/// GFLOP/s of each sample of Heed on a problem of so many operations, over the peak measured beside it.
inline std::vector<double> peak_fractions(double flops, const Samples& samples) {
  std::vector<double> fractions;
  for (std::size_t i = 0; i < samples.milliseconds.size() && i < samples.peak_gflops.size(); ++i) {
    fractions.push_back(flops / samples.milliseconds[i] * 1e-6 / samples.peak_gflops[i]);
  }
  return fractions;
}

}  // namespace heed::bench
