// scripts/bench: every cell is checked, then timed with its rivals turn about, then shown in one table.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cells.hpp"
#include "chart.hpp"
#include "command_line.hpp"
#include "guards.hpp"
#include "heed/plot/terminal.hpp"
#include "report.hpp"

namespace {

/// A file that is opened before anything is measured, so that a bad path does not cost a run.
class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    file_.open(path_);
    if (!file_) fail();
  }

  bool is_wanted() const { return !path_.empty(); }

  void write(const std::string& text) {
    file_ << text;
    file_.close();
    if (!file_) fail();
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error("cannot write " + path_); }

  std::string path_;
  std::ofstream file_;
};

/// What Google Benchmark shall select: the guards run whatever else does.
std::string selection(const std::string& filter, bool quick, bool with_peers) {
  if (filter == ".*") return with_peers ? "-^bpe/" : quick ? "-.*10MB.*" : filter;
  return filter.starts_with('-') ? filter : "^guard/|" + filter;
}

/// Refuses what is no regular expression before anything is measured.
heed::bench::Filter filter_of(const std::string& filter) {
  try {
    return heed::bench::Filter(filter);
  } catch (const std::regex_error& error) {
    throw heed::ArgumentError("--filter is " + filter + ", no regular expression: " + error.what());
  }
}

/// Runs what is registered and selected.
heed::bench::SampleMap measured(std::string program, const std::string& selected, int repetitions) {
  // Random interleaving: the samples of a cell and of its rivals are spread over the whole run, so that a
  // slow spell of a shared machine hits all alike.
  std::vector<std::string> arguments = {std::move(program), "--benchmark_enable_random_interleaving=true"};
  arguments.push_back("--benchmark_repetitions=" + std::to_string(repetitions));
  arguments.emplace_back("--benchmark_min_time=" HEED_BENCHMARK_MIN_TIME);
  arguments.push_back("--benchmark_filter=" + selected);
  std::vector<char*> pointers;
  pointers.reserve(arguments.size());
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());

  heed::bench::Collector collector;
  (void)benchmark::RunSpecifiedBenchmarks(&collector);
  if (isatty(STDERR_FILENO) == 1) std::cerr << "\r\x1b[K";
  if (collector.failed()) throw std::runtime_error("a benchmark failed");
  const auto is_guard = [](const auto& named) { return named.first.starts_with("guard/"); };
  if (std::all_of(collector.samples().begin(), collector.samples().end(), is_guard))
    throw std::runtime_error("no benchmark matches");
  return collector.samples();
}

int run(int argc, char** argv) {
  CLI::App app{
      "Heed's benchmarks: attention, products and layers against the naive loops, plain Eigen, the machine's "
      "peak, and other libraries. Exits with 1 if a result or a measurement is not to be trusted, and with 2 "
      "if "
      "an argument is wrong."};
  bool quick = false;
  bool with_peers = false;
  std::optional<int> threads;
  std::string json_path;
  std::string svg_path;
  std::string filter = ".*";
  std::optional<int> given_repetitions;
  app.add_flag("--quick", quick, "fewer cells and samples: under a minute");
  app.add_flag("--peers", with_peers,
               "beside other libraries, on problems that they solve too (if built with them)");
  demo::number(app, "--threads", threads, "with --peers: the threads that each of them may use (default: 1)",
               {.min = 1, .max = 1024});
  demo::path(app, "--json", json_path, "file", "also write the table as JSON, a list of objects");
  demo::path(app, "--svg", svg_path, "file", "also draw it: a bar for everyone in every cell");
  app.add_option("--filter", filter, "only benchmarks whose name matches this regular expression")
      ->type_name("REGEX")
      ->capture_default_str();
  demo::number(app, "--repetitions", given_repetitions,
               "samples of each benchmark (default: 11, with --quick 5)", {.min = 1, .max = 1000});
  if (const auto code = demo::parse(app, argc, argv)) return *code;
  if (threads && !with_peers)
    throw heed::ArgumentError("--threads is for --peers: Heed's own cells name their threads (t1, t2)");
  const heed::bench::Filter selected = filter_of(filter);
  const int repetitions = given_repetitions.value_or(quick ? 5 : 11);

  OutputFile json_file(json_path);
  OutputFile svg_file(svg_path);

  std::vector<heed::bench::Cell> cells;
  if (with_peers) {
    cells = heed::bench::register_peer_cells(
        {.quick = quick, .threads = threads.value_or(1), .filter = selected});
  } else {
    heed::bench::Grid grid;
    grid.quick = quick;
    grid.filter = selected;
    grid.max_threads = static_cast<int>(std::thread::hardware_concurrency());
    cells = heed::bench::register_cells(grid);
  }
  heed::bench::register_guards();

  const heed::bench::SampleMap samples = measured(argv[0], selection(filter, quick, with_peers), repetitions);
  // A file keeps the table as it is, whatever terminal it is read in.
  const heed::Terminal terminal = heed::query_terminal();
  const heed::Index width = terminal.interactive ? terminal.width : std::numeric_limits<heed::Index>::max();
  std::cout << heed::bench::table(cells, samples, width) << std::flush;
  const std::vector<std::string> broken = heed::bench::broken_guards(cells, samples);
  for (const std::string& sentence : broken) std::cerr << "heed_bench: " << sentence << '\n';
  if (!broken.empty()) throw std::runtime_error("the measurement is not to be trusted");
  if (json_file.is_wanted()) json_file.write(heed::bench::json(cells, samples));
  if (svg_file.is_wanted()) svg_file.write(heed::bench::chart(cells, samples));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("heed_bench", [&] { return run(argc, argv); });
}
