#pragma once

// Collects what Google Benchmark measured, and shows it: one table for people, one list of objects for
// programs.

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <vector>

#include "cells.hpp"

namespace heed::bench {

/// The repetitions of one benchmark.
struct Samples {
  std::vector<double> milliseconds;
  std::vector<double> peak_gflops;
  std::vector<double> bytes_per_second;
};

class Collector final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;

  const std::map<std::string, Samples>& samples() const { return samples_; }
  bool failed() const { return failed_; }

 private:
  std::map<std::string, Samples> samples_;
  bool failed_ = false;
};

std::string table(const std::vector<Cell>& cells, const std::map<std::string, Samples>& samples);
std::string json(const std::vector<Cell>& cells, const std::map<std::string, Samples>& samples);

}  // namespace heed::bench
