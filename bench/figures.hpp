#pragma once

// From samples to figures, for whoever shows them.

#include <string>

#include "cells.hpp"
#include "samples.hpp"

namespace heed::bench {

/// Of one contestant in one cell; all zero if it was not timed.
struct Figures {
  double milliseconds = 0;
  double spread = 0;
  double gflops = 0;
  double peak_gflops = 0;    // of the cell
  double gbytes = 0;         // read in a second, where one token is decoded
  double read_gbytes = 0;    // what the machine can read
  double peak_fraction = 0;  // of the multiply-adds or, where one token is decoded, of reading memory
  double ratio = 0;          // its time / Heed's time
};

Figures figures(const Cell& cell, const std::string& contestant, const SampleMap& samples);

/// Heed's least processor time with column-major matrices over that with row-major ones; 0 if not measured.
/// A few percent are of interest here, and other work on the machine shifts a median by more than that.
double col_major_ratio(const Cell& cell, const SampleMap& samples);

/// For people: the milliseconds with as many digits as they deserve.
std::string milliseconds_text(double ms);

std::string format(const char* pattern, double value);

}  // namespace heed::bench
