// scripts/bench: every cell is checked, then timed with its rivals turn about, then shown in one table.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "cells.hpp"
#include "guards.hpp"
#include "report.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App app{
      "Heed's benchmarks: attention and layers against the naive loops, plain Eigen and the machine's peak."};
  bool quick = false;
  std::string json_path;
  std::string filter = ".*";
  int repetitions = 0;
  app.add_flag("--quick", quick, "Fewer cells and samples: under a minute");
  app.add_option("--json", json_path, "Also write the table as JSON, a list of objects");
  app.add_option("--filter", filter, "Only benchmarks whose name matches this regular expression");
  app.add_option("--repetitions", repetitions, "Samples of each benchmark (default: 11, with --quick 5)")
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  if (repetitions == 0) repetitions = quick ? 5 : 11;

  std::ofstream json_file;
  if (!json_path.empty()) {
    json_file.open(json_path);
    if (!json_file) throw std::runtime_error("cannot write " + json_path);
  }

  heed::bench::Grid grid;
  grid.quick = quick;
  grid.most_threads = static_cast<int>(std::thread::hardware_concurrency());
  const std::vector<heed::bench::Cell> cells = heed::bench::register_cells(grid);
  heed::bench::register_guards();

  // Random interleaving: the samples of a cell and of its rivals are spread over the whole run, so that a
  // slow spell of a shared machine hits all alike.
  // The guards run whatever is selected.
  const bool all_but = filter.rfind('-', 0) == 0;
  const std::string selected = quick && filter == ".*" ? "-.*10MB.*" : all_but ? filter : "^guard/|" + filter;
  std::vector<std::string> arguments = {argv[0], "--benchmark_enable_random_interleaving=true"};
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
  if (collector.failed()) throw std::runtime_error("a benchmark failed");
  const auto is_guard = [](const auto& named) { return named.first.rfind("guard/", 0) == 0; };
  if (std::all_of(collector.samples().begin(), collector.samples().end(), is_guard))
    throw std::runtime_error("no benchmark matches");
  if (isatty(STDERR_FILENO) == 1) std::cerr << "\r\x1b[K";
  std::cout << heed::bench::table(cells, collector.samples()) << std::flush;
  const std::vector<std::string> broken = heed::bench::broken_guards(cells, collector.samples());
  for (const std::string& sentence : broken) std::cerr << "heed_bench: " << sentence << '\n';
  if (!broken.empty()) throw std::runtime_error("the measurement is not to be trusted");
  if (json_file.is_open()) {
    json_file << heed::bench::json(cells, collector.samples());
    json_file.close();
    if (!json_file) throw std::runtime_error("cannot write " + json_path);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "heed_bench: " << error.what() << '\n';
    return 1;
  }
}
