#pragma once

// Collects what Google Benchmark measured, and shows it: one table for people, one list of objects for
// programs.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "cells.hpp"
#include "figures.hpp"
#include "heed/core/view.hpp"

namespace heed::bench {

class Collector final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;

  const SampleMap& samples() const { return samples_; }
  bool failed() const { return failed_; }

 private:
  SampleMap samples_;
  bool failed_ = false;
};

/// In lines of at most `width` columns.
std::string table(const std::vector<Cell>& cells, const SampleMap& samples, Index width);
std::string json(const std::vector<Cell>& cells, const SampleMap& samples);

}  // namespace heed::bench
