#include "guards.hpp"

#include <algorithm>

#include "figures.hpp"

namespace heed::bench {

namespace {

// About four: caches and clock rates shift even the best of a few samples.
constexpr double kMinGrowth = 3.0;
constexpr double kMaxGrowth = 5.5;
constexpr double kMinTimesEmpty = 10;
constexpr double kMaxPeakFraction = 1.25;

std::string number(double value) {
  return format("%.3g", value);
}

const Samples& find(const SampleMap& samples, const std::string& name) {
  static const Samples none;
  const auto at = samples.find(name);
  return at == samples.end() ? none : at->second;
}

double cpu_time(const SampleMap& samples, const std::string& name) {
  return best(find(samples, name).cpu_milliseconds);
}

std::string heed_of(const Cell& cell) {
  return cell.name + "/" + name_of(Contender::heed);
}

/// The highest peak that was measured beside any cell of this scalar type and number of threads.
double peak_of(const Cell& cell, const std::vector<Cell>& cells, const SampleMap& samples) {
  double peak = 0;
  for (const Cell& other : cells) {
    if (other.scalar != cell.scalar || other.threads != cell.threads) continue;
    for (const double gflops : find(samples, heed_of(other)).peak_gflops) peak = std::max(peak, gflops);
  }
  return peak;
}

}  // namespace

std::string length_guard(bool causal, long length) {
  return std::string(causal ? "guard/causal/n" : "guard/full/n") + std::to_string(length);
}

std::vector<std::string> broken_guards(const std::vector<Cell>& cells, const SampleMap& samples) {
  std::vector<std::string> broken;
  for (const bool causal : {false, true}) {
    const double once = cpu_time(samples, length_guard(causal, kGuardLength));
    const double twice = cpu_time(samples, length_guard(causal, 2 * kGuardLength));
    if (!(once > 0 && twice > kMinGrowth * once && twice < kMaxGrowth * once)) {
      broken.push_back(length_guard(causal, kGuardLength) + " takes " + number(once) +
                       " ms and twice the length " + number(twice) + " ms: not about four times as long");
    }
  }
  const double empty = cpu_time(samples, kEmptyGuard);
  if (!(empty > 0)) broken.emplace_back("the loop around nothing was not measured");
  for (const Cell& cell : cells) {
    const double time = best(find(samples, heed_of(cell)).milliseconds);
    if (time == 0) continue;  // not selected
    if (!(time > kMinTimesEmpty * empty)) {
      broken.push_back(cell.name + " takes " + number(time) + " ms, a loop around nothing " + number(empty) +
                       " ms: the work is not measured");
    }
    const double fraction = cell.flops / time * 1e-6 / peak_of(cell, cells, samples);
    if (!(fraction < kMaxPeakFraction)) {
      broken.push_back(cell.name + " runs at " + number(fraction) +
                       " of the processor's peak: it cannot have done all its operations");
    }
  }
  return broken;
}

}  // namespace heed::bench
