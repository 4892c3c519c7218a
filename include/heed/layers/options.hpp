#pragma once

// The choices that layers have, as plain values.

#include "heed/core/config.hpp"

#include <cstdint>

namespace heed {

/// What stands between the two products of a feed-forward layer.
enum class Activation {
  gelu,       ///< x Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016).
  gelu_tanh,  ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, GPT-2's approximation of it.
  silu,       ///< x / (1 + exp(-x)), also called swish (Elfwing et al. 2018).
  relu,       ///< max(x, 0).
};

/// (x - mean) / sqrt(variance + epsilon), mean and variance over a row; the variance is divided by the number
/// of columns.
struct NormOptions {
  bool centered = true;  ///< LayerNorm (Ba et al. 2016); false: RMSNorm (Zhang and Sennrich 2019), mean is 0.
  double epsilon = 1e-5;
};

/// Which elements of a matrix are dropped: a number for each, made from its place by counting (Philox4x32-10,
/// Salmon et al. 2011), is compared with the rate. It is alike on every thread, instruction set and machine.
struct DropoutOptions {
  double rate = 0;           ///< The part that is dropped, in [0, 1).
  std::uint64_t seed = 0;    ///< One seed for a whole training.
  std::uint64_t stream = 0;  ///< Another one for each step and each place in a model.
};

}  // namespace heed
