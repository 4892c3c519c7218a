#include "figures.hpp"

#include <charconv>
#include <string_view>

#include "heed/core/error.hpp"

namespace heed::bench {

namespace {

const Samples* find(const Cell& cell, const std::string& contestant, const SampleMap& samples) {
  const auto at = samples.find(cell.name + "/" + contestant);
  return at == samples.end() || at->second.milliseconds.empty() ? nullptr : &at->second;
}

/// One peak for a cell, from beside the samples of everyone in it: a faster one has the larger fraction, and
/// one sample that the machine interrupted decides nothing.
double peak_of(const Cell& cell, const SampleMap& samples, std::vector<double> Samples::*which) {
  std::vector<double> peaks;
  for (const Contestant& c : cell.contestants) {
    if (const Samples* own = find(cell, c.name, samples); own != nullptr)
      peaks.insert(peaks.end(), (own->*which).begin(), (own->*which).end());
  }
  return median(peaks);
}

}  // namespace

Figures figures(const Cell& cell, const std::string& contestant, const SampleMap& samples) {
  Figures f;
  const Samples* own = find(cell, contestant, samples);
  if (own == nullptr) return f;
  f.milliseconds = median(own->milliseconds);
  f.spread = spread(own->milliseconds);
  f.gflops = cell.flops / f.milliseconds * 1e-6;
  f.peak_gflops = peak_of(cell, samples, &Samples::peak_gflops);
  f.peak_fraction = f.gflops / f.peak_gflops;
  if (cell.bytes > 0) {
    const double bytes = contestant == name_of(Contender::bfloat16) ? cell.bytes / 2 : cell.bytes;
    f.gbytes = bytes / f.milliseconds * 1e-6;
    f.read_gbytes = peak_of(cell, samples, &Samples::read_gbytes);
    f.peak_fraction = f.gbytes / f.read_gbytes;
  }
  if (const Samples* heed = find(cell, name_of(Contender::heed), samples); heed != nullptr)
    f.ratio = f.milliseconds / median(heed->milliseconds);
  return f;
}

double col_major_ratio(const Cell& cell, const SampleMap& samples) {
  const Samples* row_major = find(cell, name_of(Contender::heed), samples);
  const Samples* col_major = find(cell, name_of(Contender::col_major), samples);
  if (row_major == nullptr || col_major == nullptr) return 0;
  return best(col_major->cpu_milliseconds) / best(row_major->cpu_milliseconds);
}

std::string milliseconds_text(double ms) {
  return format(ms < 0.1 ? "%.5f" : ms < 10 ? "%.3f" : "%.1f", ms);
}

/// A pattern of printf's with one number (%f, %e or %g), which printf itself would write by the locale's
/// rules.
std::string format(const char* pattern, double value) {
  const std::string_view whole = pattern;
  const std::size_t start = whole.find('%');
  const std::size_t letter = whole.find_first_of("feg", start);
  const std::size_t point = whole.find('.', start);
  int precision = 6;
  if (point < letter) std::from_chars(pattern + point + 1, pattern + letter, precision);
  const std::chars_format form = whole[letter] == 'f'   ? std::chars_format::fixed
                                 : whole[letter] == 'e' ? std::chars_format::scientific
                                                        : std::chars_format::general;
  std::string text(whole.substr(0, start));
  text.append(detail::number_text(value, form, precision)).append(whole.substr(letter + 1));
  const std::size_t percent = text.find("%%");
  return percent == std::string::npos ? text : text.erase(percent, 1);
}

}  // namespace heed::bench
