#pragma once

// Checking a cell, and handing it to Google Benchmark.

#include <string>
#include <vector>

#include "cells.hpp"

namespace heed::bench {

/// The cell with everything that follows from its sizes: its name, its scalar, its operations.
template <class T>
Cell completed(Cell cell);

/// Hands one contender of a completed cell to Google Benchmark, under this name.
template <class T>
void register_timing(const std::string& name, const Cell& cell, Contender contender);

/// Whether the filter selects Heed or one of its rivals in a cell.
bool selects(const Filter& filter, const Cell& cell, const std::vector<Contender>& rivals);

/// Checks Heed and its rivals on a completed cell and registers them. Throws if one is wrong.
template <class T>
void enter(Cell& cell, const std::vector<Contender>& rivals);

/// Shows a person that watches what is being done.
void show_progress(const std::string& doing);

}  // namespace heed::bench
