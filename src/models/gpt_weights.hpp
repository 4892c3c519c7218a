#pragma once

// The matrices of a Gpt, known from its configuration alone: before one is made.

#include <string>
#include <vector>

#include "heed/models/gpt_config.hpp"

namespace heed::detail {

/// A matrix by the name that Gpt::for_each_parameter() gives it.
struct WeightShape {
  std::string name;
  Index rows;
  Index cols;
};

/// Lists the matrices of one block, without "blocks.0." before their names. The configuration is a good one.
std::vector<WeightShape> block_weights(const GptConfig& config);

/// Lists the matrices outside the blocks.
std::vector<WeightShape> other_weights(const GptConfig& config);

}  // namespace heed::detail
