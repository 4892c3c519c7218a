#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "heed/isa.hpp"

namespace heed::bench {

namespace {

/// (largest - smallest) / median.
double spread(const std::vector<double>& x) {
  if (x.empty()) return 0;
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  return (*high - *low) / median(x);
}

const Samples* find(const SampleMap& samples, const std::string& name) {
  const auto at = samples.find(name);
  return at == samples.end() ? nullptr : &at->second;
}

// "attention/float/d64/full/n4/t1/heed/real_time" -> without what Google Benchmark appends.
std::string plain_name(const std::string& name) {
  for (const char* part : {"/real_time", "/repeats:", "/min_time:", "/iterations:"}) {
    const std::size_t at = name.find(part);
    if (at != std::string::npos) return plain_name(name.substr(0, at));
  }
  return name;
}

std::string format(const char* pattern, double value) {
  char text[64];
  (void)std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string pad(const std::string& text, std::size_t width, bool left = false) {
  const std::string blanks(text.size() < width ? width - text.size() : 0, ' ');
  return left ? text + blanks : blanks + text;
}

struct Figures {
  double milliseconds = 0;
  double spread = 0;
  double gflops = 0;
  double peak_gflops = 0;
  double peak_fraction = 0;
  double against_naive = 0;  // 0: not run
  double against_eigen = 0;
  double col_major = 0;
};

Figures figures(const Cell& cell, const SampleMap& samples) {
  Figures f;
  const Samples* heed = find(samples, cell.name + "/heed");
  if (heed == nullptr || heed->milliseconds.empty()) return f;
  f.milliseconds = median(heed->milliseconds);
  f.spread = spread(heed->milliseconds);
  f.gflops = cell.flops / f.milliseconds * 1e-6;
  f.peak_gflops = median(heed->peak_gflops);
  std::vector<double> fractions;
  for (std::size_t i = 0; i < heed->milliseconds.size() && i < heed->peak_gflops.size(); ++i) {
    fractions.push_back(cell.flops / heed->milliseconds[i] * 1e-6 / heed->peak_gflops[i]);
  }
  f.peak_fraction = median(fractions);
  const auto against = [&](Contender rival) {
    const Samples* other = find(samples, cell.name + "/" + name_of(rival));
    return other == nullptr || other->milliseconds.empty() ? 0 : median(other->milliseconds) / f.milliseconds;
  };
  f.against_naive = against(Contender::naive);
  f.against_eigen = against(Contender::eigen);
  // A few percent are of interest here, and other work on the machine shifts a median by more than that.
  if (const Samples* other = find(samples, cell.name + "/" + name_of(Contender::col_major)); other != nullptr)
    f.col_major = best(other->cpu_milliseconds) / best(heed->cpu_milliseconds);
  return f;
}

std::string milliseconds_text(double ms) {
  return format(ms < 0.1 ? "%.5f" : ms < 10 ? "%.3f" : "%.1f", ms);
}

std::string times_text(double ratio) {
  return ratio == 0 ? "-" : format(ratio < 10 ? "%.2fx" : "%.0fx", ratio);
}

}  // namespace

bool Collector::ReportContext(const Context&) {
  return true;
}

void Collector::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    if (run.run_type != Run::RT_Iteration) continue;
    if (run.iterations == 0) {
      failed_ = true;
      continue;
    }
    Samples& s = samples_[plain_name(run.benchmark_name())];
    s.milliseconds.push_back(run.real_accumulated_time / static_cast<double>(run.iterations) * 1e3);
    s.cpu_milliseconds.push_back(run.cpu_accumulated_time / static_cast<double>(run.iterations) * 1e3);
    if (const auto peak = run.counters.find("peak_gflops"); peak != run.counters.end())
      s.peak_gflops.push_back(peak->second);
    if (const auto bytes = run.counters.find("bytes_per_second"); bytes != run.counters.end()) {
      s.bytes_per_second.push_back(bytes->second);
    }
  }
}

std::string table(const std::vector<Cell>& cells, const SampleMap& samples) {
  std::ostringstream text;
  text << "kernels: " << isa()
       << "; times are medians, +- is (largest - smallest) / median; peak: independent multiply-adds, "
       << "measured beside each sample;\nnaive: the loops of reference.hpp; Eigen: plain products with the "
          "full score matrix, "
       << "compiled for " << isa()
       << "; col-major: Heed's least processor time\nwith column-major matrices over that with row-major "
          "ones; - : not "
          "run\n\n";
  text << pad("cell", 38, true) << pad("ms", 11) << pad("+-", 7) << pad("GFLOP/s", 10) << pad("of peak", 9)
       << pad("vs naive", 10) << pad("vs Eigen", 10) << pad("col-major", 11) << pad("max error", 11) << '\n';
  for (const Cell& cell : cells) {
    const Figures f = figures(cell, samples);
    if (f.milliseconds == 0) continue;
    text << pad(cell.name, 38, true) << pad(milliseconds_text(f.milliseconds), 11)
         << pad(format("%.0f%%", 100 * f.spread), 7) << pad(format("%.2f", f.gflops), 10)
         << pad(format("%.2f", f.peak_fraction), 9) << pad(times_text(f.against_naive), 10)
         << pad(times_text(f.against_eigen), 10)
         << pad(f.col_major == 0 ? "-" : format("%.3fx", f.col_major), 11)
         << pad(format("%.1e", cell.max_error), 11) << '\n';
  }
  for (const auto& [name, s] : samples) {
    if (s.bytes_per_second.empty()) continue;
    text << pad(name, 38, true) << pad(milliseconds_text(median(s.milliseconds)), 11)
         << pad(format("%.0f%%", 100 * spread(s.milliseconds)), 7)
         << pad(format("%.1f MB/s", median(s.bytes_per_second) * 1e-6), 12) << '\n';
  }
  return text.str();
}

std::string json(const std::vector<Cell>& cells, const SampleMap& samples) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto or_null = [](double value) {
    return value == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  for (const Cell& cell : cells) {
    const Figures f = figures(cell, samples);
    if (f.milliseconds == 0) continue;
    list.push_back({{"name", cell.name},
                    {"scalar", cell.scalar},
                    {"isa", isa()},
                    {"threads", cell.threads},
                    {"batch", cell.batch},
                    {"heads", cell.heads},
                    {"kv_heads", cell.kv_heads},
                    {"query_len", cell.query_len},
                    {"kv_len", cell.kv_len},
                    {"head_dim", cell.head_dim},
                    {"value_dim", cell.value_dim},
                    {"causal", cell.causal},
                    {"milliseconds", f.milliseconds},
                    {"spread", f.spread},
                    {"gflops", f.gflops},
                    {"peak_gflops", f.peak_gflops},
                    {"peak_fraction", f.peak_fraction},
                    {"against_naive", or_null(f.against_naive)},
                    {"against_eigen", or_null(f.against_eigen)},
                    {"col_major", or_null(f.col_major)},
                    {"max_error", cell.max_error}});
  }
  for (const auto& [name, s] : samples) {
    if (s.bytes_per_second.empty()) continue;
    // The same keys as a cell of attention, so that a program can read all objects alike.
    nlohmann::ordered_json object = {{"name", name}};
    for (const char* key : {"scalar",        "isa",           "threads",       "batch",     "heads",
                            "kv_heads",      "query_len",     "kv_len",        "head_dim",  "value_dim",
                            "causal",        "milliseconds",  "spread",        "gflops",    "peak_gflops",
                            "peak_fraction", "against_naive", "against_eigen", "col_major", "max_error"}) {
      object[key] = nullptr;
    }
    object["threads"] = 1;
    object["milliseconds"] = median(s.milliseconds);
    object["spread"] = spread(s.milliseconds);
    object["megabytes_per_second"] = median(s.bytes_per_second) * 1e-6;
    list.push_back(object);
  }
  return list.dump(1) + "\n";
}

}  // namespace heed::bench
