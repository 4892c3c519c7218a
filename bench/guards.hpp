#pragma once

// Is it the work that is measured? A compiler may drop a loop whose result nobody looks at, a kernel may skip
// what it should do, a clock may be read at the wrong place: the table would look splendid. So what must be
// true of any honest measurement is measured beside the cells, in the same loop and the same interleaved run.

#include <string>
#include <vector>

#include "cells.hpp"
#include "samples.hpp"

namespace heed::bench {

/// The benchmarks behind the guards: the timed loop around nothing, and attention at a length and at twice
/// that length.
inline constexpr const char* kEmptyGuard = "guard/empty";
inline constexpr long kGuardLength = 1024;
std::string length_guard(bool causal, long length);  // "guard/full/n1024"

/// In guard_cells.cpp.
void register_guards();

/// What is wrong, a sentence each; nothing if all is well:
/// - twice the length must take about four times as long;
/// - Heed's shortest cell must take far longer than the loop around nothing;
/// - no cell may do more operations than the processor's peak allows.
/// The best samples are compared, and in time of the processor where one thread works: whatever else a
/// machine has to do makes a sample longer, never shorter.
std::vector<std::string> broken_guards(const std::vector<Cell>& cells, const SampleMap& samples);

}  // namespace heed::bench
