#include "report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "heed/core/isa.hpp"
#include "machine.hpp"
#include "rows.hpp"

namespace heed::bench {

namespace {

// "attention/float/d64/full/n4/t1/heed/real_time" -> without what Google Benchmark appends.
std::string plain_name(const std::string& name) {
  for (const char* part : {"/real_time", "/repeats:", "/min_time:", "/iterations:"}) {
    const std::size_t at = name.find(part);
    if (at != std::string::npos) return plain_name(name.substr(0, at));
  }
  return name;
}

std::string times_text(double ratio) {
  return format(ratio < 10 ? "%.2fx" : "%.0fx", ratio);
}

/// Everyone that meets Heed in some cell, in order of appearance. Heed on column-major matrices has a column
/// of its own.
std::vector<Contestant> rivals_of(const std::vector<Cell>& cells) {
  std::vector<Contestant> all;
  for (const Cell& cell : cells) {
    for (const Contestant& c : cell.contestants) {
      const auto same = [&c](const Contestant& other) { return other.name == c.name; };
      if (c.name == name_of(Contender::heed) || c.name == name_of(Contender::col_major)) continue;
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(c);
    }
  }
  return all;
}

/// With enough digits to tell a small one from nothing.
std::string fraction_text(double fraction) {
  return format(fraction < 0.01 ? "%.3f" : "%.2f", fraction);
}

/// "0.42  1.51x": its fraction of the peak, and how much longer than Heed it takes.
std::string rival_text(const Cell& cell, const std::string& name, const SampleMap& samples) {
  const Figures f = figures(cell, name, samples);
  if (f.milliseconds > 0) {
    return fraction_text(f.peak_fraction) + pad(times_text(f.ratio), 7);
  }
  const auto at = std::find_if(cell.contestants.begin(), cell.contestants.end(),
                               [&name](const Contestant& c) { return c.name == name && !c.failure.empty(); });
  return at == cell.contestants.end() ? "-" : "(failed)";
}

nlohmann::ordered_json contestants_json(const Cell& cell, const SampleMap& samples) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Contestant& c : cell.contestants) {
    const Figures f = figures(cell, c.name, samples);
    if (f.milliseconds == 0 && c.failure.empty()) continue;
    const auto measured = [&f](double value) {
      return f.milliseconds == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
    };
    const auto or_null = [](double value) {
      return value == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
    };
    const auto text = [](const std::string& words) {
      return words.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(words);
    };
    list.push_back({{"name", c.name},
                    {"version", text(c.version)},
                    {"way", text(c.way)},
                    {"seconds", measured(f.milliseconds * 1e-3)},
                    {"spread", measured(f.spread)},
                    {"gflops", measured(f.gflops)},
                    {"peak_gflops", measured(f.peak_gflops)},
                    {"peak_fraction", measured(f.peak_fraction)},
                    {"gbytes_per_second", or_null(f.gbytes)},
                    {"read_gbytes_per_second", or_null(f.read_gbytes)},
                    {"ratio", measured(f.ratio)},
                    {"max_error", measured(c.max_error)},
                    {"failure", text(c.failure)}});
  }
  return list;
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
    if (const auto read = run.counters.find("read_gbytes"); read != run.counters.end())
      s.read_gbytes.push_back(read->second);
    if (const auto bytes = run.counters.find("bytes_per_second"); bytes != run.counters.end()) {
      s.bytes_per_second.push_back(bytes->second);
    }
    if (const auto items = run.counters.find("items_per_second"); items != run.counters.end())
      s.tokens_per_second.push_back(items->second);
  }
}

std::string table(const std::vector<Cell>& cells, const SampleMap& samples, Index width) {
  const std::vector<Contestant> rivals = rivals_of(cells);
  const bool with_col_major = std::any_of(
      cells.begin(), cells.end(), [&](const Cell& cell) { return col_major_ratio(cell, samples) > 0; });
  const Index page = std::min<Index>(width, 110);
  std::string about =
      "times are medians, +- is (largest - smallest) / median; peak: independent multiply-adds, measured "
      "beside "
      "each sample, for decode: reading memory, keys and values counted once; Heed's work is planned once "
      "and "
      "run many times; the others: their own fraction of the peak, and their time / Heed's time; - : not "
      "run; "
      "naive: the loops of reference.hpp; eigen: plain products, with the full score matrix, compiled for " +
      std::string(isa());
  for (const Contestant& rival : rivals) {
    if (!rival.version.empty()) about.append("; " + rival.name + " " + rival.version);
  }
  const auto is_call = [](const Contestant& rival) { return rival.name == name_of(Contender::heed_call); };
  std::string text = demo::wrapped("", processor() + ", " + compiler() + ", kernels: " + isa(), page) +
                     demo::wrapped("", about, page);
  if (std::any_of(rivals.begin(), rivals.end(), is_call)) {
    text += demo::wrapped(
        "", "heed call: the one-line call, which checks its arguments, plans and takes memory each time",
        page);
  }
  if (with_col_major) {
    text += demo::wrapped(
        "", "col-major: Heed's least processor time with column-major matrices over that with row-major ones",
        page);
  }

  std::vector<Row> rows;
  std::string failures;
  for (const Cell& cell : cells) {
    for (const Contestant& c : cell.contestants) {
      if (!c.failure.empty())
        failures += demo::wrapped("failed: ", c.name + " in " + cell.name + ": " + c.failure, page);
    }
    const Figures f = figures(cell, name_of(Contender::heed), samples);
    if (f.milliseconds == 0) continue;
    Row& row = rows.emplace_back(Row{cell.name,
                                     {{"ms", milliseconds_text(f.milliseconds), 10},
                                      {"+-", format("%.0f%%", 100 * f.spread), 6},
                                      {"GFLOP/s", format("%.2f", f.gflops), 9},
                                      {"of peak", fraction_text(f.peak_fraction), 9},
                                      {"max error", format("%.1e", cell.max_error), 11}}});
    const double col_major = col_major_ratio(cell, samples);
    if (with_col_major)
      row.fields.push_back({"col-major", col_major == 0 ? "-" : format("%.3fx", col_major), 11});
    for (const Contestant& rival : rivals)
      row.fields.push_back({rival.name, rival_text(cell, rival.name, samples), 15});
  }
  const auto add_rate = [&](const std::string& name, const Samples& s, const std::string& rate,
                            std::size_t columns) {
    rows.push_back({name,
                    {{"ms", milliseconds_text(median(s.milliseconds)), 10},
                     {"+-", format("%.0f%%", 100 * spread(s.milliseconds)), 6},
                     {"", rate, columns}}});
  };
  for (const auto& [name, s] : samples) {
    if (!s.bytes_per_second.empty())
      add_rate(name, s, format("%.1f MB/s", median(s.bytes_per_second) * 1e-6), 12);
  }
  for (const auto& [name, s] : samples) {
    if (!s.tokens_per_second.empty())
      add_rate(name, s, format("%.0f tokens/s", median(s.tokens_per_second)), 20);
  }
  return text + "\n" + rows_text("cell", rows, width) + failures;
}

std::string json(const std::vector<Cell>& cells, const SampleMap& samples) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Cell& cell : cells) {
    const Figures f = figures(cell, name_of(Contender::heed), samples);
    if (f.milliseconds == 0) continue;
    const auto or_null = [](double ratio) {
      return ratio == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(ratio);
    };
    const auto against = [&](Contender rival) {
      return or_null(figures(cell, name_of(rival), samples).ratio);
    };
    list.push_back({{"name", cell.name},
                    {"scalar", cell.scalar},
                    {"isa", isa()},
                    {"processor", processor()},
                    {"compiler", compiler()},
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
                    {"against_naive", against(Contender::naive)},
                    {"against_eigen", against(Contender::eigen)},
                    {"col_major", or_null(col_major_ratio(cell, samples))},
                    {"max_error", cell.max_error},
                    {"contestants", contestants_json(cell, samples)}});
  }
  for (const auto& [name, s] : samples) {
    if (s.bytes_per_second.empty()) continue;
    // The same keys as a cell of attention, so that a program can read all objects alike.
    nlohmann::ordered_json object = {{"name", name}};
    for (const char* key :
         {"scalar",        "isa",           "processor", "compiler",  "threads",     "batch",
          "heads",         "kv_heads",      "query_len", "kv_len",    "head_dim",    "value_dim",
          "causal",        "milliseconds",  "spread",    "gflops",    "peak_gflops", "peak_fraction",
          "against_naive", "against_eigen", "col_major", "max_error", "contestants"}) {
      object[key] = nullptr;
    }
    object["processor"] = processor();
    object["compiler"] = compiler();
    object["threads"] = 1;
    object["milliseconds"] = median(s.milliseconds);
    object["spread"] = spread(s.milliseconds);
    object["megabytes_per_second"] = median(s.bytes_per_second) * 1e-6;
    list.push_back(object);
  }
  return list.dump(1) + "\n";
}

}  // namespace heed::bench
