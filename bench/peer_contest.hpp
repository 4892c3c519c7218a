#pragma once

#include <vector>

#include "cells.hpp"
#include "peers/peer.hpp"

namespace heed::bench {

/// Lets the peers solve a cell that Heed has entered, compares their results with Heed's, and registers those
/// that are right, each in the fastest of its ways.
void enter_peers(Cell& cell, const std::vector<Peer>& peers);

}  // namespace heed::bench
