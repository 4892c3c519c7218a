#include "guards.hpp"

#include <algorithm>
#include <cstdio>

namespace heed::bench {

namespace {

// About four: other work on the machine shifts even the best of a few samples.
constexpr double kLeastGrowth = 3.0;
constexpr double kMostGrowth = 5.5;
constexpr double kLeastTimesEmpty = 10;
// The peak is measured after the sample, perhaps in a slower moment.
constexpr double kMostOfPeak = 1.25;

std::string number(double value) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

double best(const SampleMap& samples, const std::string& name) {
  const auto at = samples.find(name);
  if (at == samples.end() || at->second.milliseconds.empty()) return 0;
  return *std::min_element(at->second.milliseconds.begin(), at->second.milliseconds.end());
}

}  // namespace

std::string length_guard(bool causal, long length) {
  return std::string(causal ? "guard/causal/n" : "guard/full/n") + std::to_string(length);
}

std::vector<std::string> broken_guards(const std::vector<Cell>& cells, const SampleMap& samples) {
  std::vector<std::string> broken;
  for (const bool causal : {false, true}) {
    const double once = best(samples, length_guard(causal, kGuardLength));
    const double twice = best(samples, length_guard(causal, 2 * kGuardLength));
    if (!(once > 0 && twice > kLeastGrowth * once && twice < kMostGrowth * once)) {
      broken.push_back(length_guard(causal, kGuardLength) + " takes " + number(once) +
                       " ms and twice the length " + number(twice) + " ms: not about four times as long");
    }
  }
  const double empty = best(samples, kEmptyGuard);
  if (!(empty > 0)) broken.push_back("the loop around nothing was not measured");
  for (const Cell& cell : cells) {
    const auto at = samples.find(cell.name + "/" + name_of(Contender::heed));
    if (at == samples.end()) continue;
    const double time = best(samples, at->first);
    if (!(time > kLeastTimesEmpty * empty)) {
      broken.push_back(cell.name + " takes " + number(time) + " ms, a loop around nothing " + number(empty) +
                       " ms: the work is not measured");
    }
    const double fraction = median(peak_fractions(cell.flops, at->second));
    if (!(fraction < kMostOfPeak)) {
      broken.push_back(cell.name + " runs at " + number(fraction) +
                       " of the processor's peak: it cannot have done all its operations");
    }
  }
  return broken;
}

}  // namespace heed::bench
