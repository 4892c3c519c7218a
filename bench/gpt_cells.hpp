#pragma once

#include <vector>

#include "cells.hpp"
#include "peers/peer.hpp"

namespace heed::bench {

/// A GPT that trains and writes: checks Heed on these cells and registers them, as register_cells does. With
/// peers, those of them that train stand beside it.
std::vector<Cell> register_gpt_cells(const Grid& grid);
std::vector<Cell> register_gpt_peer_cells(const PeerGrid& grid, const std::vector<Peer>& peers);

}  // namespace heed::bench
