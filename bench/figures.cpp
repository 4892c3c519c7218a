#include "figures.hpp"

#include <algorithm>
#include <cstdio>

namespace heed::bench {

double median(std::vector<double> x) {
  if (x.empty()) return 0;
  std::sort(x.begin(), x.end());
  const std::size_t middle = x.size() / 2;
  return x.size() % 2 == 1 ? x[middle] : (x[middle - 1] + x[middle]) / 2;
}

double spread(const std::vector<double>& x) {
  if (x.empty()) return 0;
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  return (*high - *low) / median(x);
}

namespace {

/// One peak for a cell, from beside the samples of everyone in it: a faster one has the larger fraction, and
/// one sample that the machine interrupted decides nothing.
double peak_of(const Cell& cell, const SampleMap& samples) {
  std::vector<double> peaks;
  for (const Contestant& c : cell.contestants) {
    const auto at = samples.find(cell.name + "/" + c.name);
    if (at != samples.end()) {
      peaks.insert(peaks.end(), at->second.peak_gflops.begin(), at->second.peak_gflops.end());
    }
  }
  return median(peaks);
}

}  // namespace

Figures figures(const Cell& cell, const std::string& contestant, const SampleMap& samples) {
  Figures f;
  const auto at = samples.find(cell.name + "/" + contestant);
  if (at == samples.end() || at->second.milliseconds.empty()) return f;
  const Samples& own = at->second;
  f.milliseconds = median(own.milliseconds);
  f.spread = spread(own.milliseconds);
  f.gflops = cell.flops / f.milliseconds * 1e-6;
  f.peak_gflops = peak_of(cell, samples);
  f.peak_fraction = f.gflops / f.peak_gflops;
  const auto heed = samples.find(cell.name + "/" + name_of(Contender::heed));
  if (heed != samples.end() && !heed->second.milliseconds.empty()) {
    f.ratio = f.milliseconds / median(heed->second.milliseconds);
  }
  return f;
}

std::string milliseconds_text(double ms) {
  return format(ms < 0.1 ? "%.5f" : ms < 10 ? "%.3f" : "%.1f", ms);
}

std::string format(const char* pattern, double value) {
  char text[64];
  (void)std::snprintf(text, sizeof text, pattern, value);
  return text;
}

}  // namespace heed::bench
