#pragma once

// The door to inspect/: looks into attention, layers and models from outside. Link heed::heed.
//
//   verify               verify_causal(), rows_sum_to_one(): properties measured on your model
//   attention_heat_map   the heat map of one head at any length, without its full matrix of weights
//   pca                  the main directions of a set of points: an embedding on two axes

#include "heed/core/config.hpp"

#include "heed/inspect/attention_heat_map.hpp"
#include "heed/inspect/pca.hpp"
#include "heed/inspect/verify.hpp"
