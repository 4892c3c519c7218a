#pragma once

// From samples to figures, for whoever shows them.

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

/// By benchmark name, "<cell>/<contestant>".
using SampleMap = std::map<std::string, Samples>;

double median(std::vector<double> x);

/// (largest - smallest) / median.
double spread(const std::vector<double>& x);

/// Of one contestant in one cell; all zero if it was not timed.
struct Figures {
  double milliseconds = 0;
  double spread = 0;
  double gflops = 0;
  double peak_gflops = 0;  // of the cell
  double peak_fraction = 0;
  double ratio = 0;  // its time / Heed's time
};

Figures figures(const Cell& cell, const std::string& contestant, const SampleMap& samples);

/// For people: the milliseconds with as many digits as they deserve.
std::string milliseconds_text(double ms);

std::string format(const char* pattern, double value);

}  // namespace heed::bench
