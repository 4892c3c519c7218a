#pragma once

#include <string>
#include <vector>

#include "cells.hpp"
#include "figures.hpp"

namespace heed::bench {

/// The run as an SVG picture: a group for each cell, a bar for each contestant, as long as its share of the
/// machine's peak. Needs no other file, and follows the light or dark of the page it stands in.
std::string chart(const std::vector<Cell>& cells, const SampleMap& samples);

}  // namespace heed::bench
