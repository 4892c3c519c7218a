#pragma once

// One parameter of a network, as optimizers and files see it.

#include "heed/core/config.hpp"

#include <string>

#include "heed/core/view.hpp"

namespace heed {

/// One matrix of weights and its gradient. The views are good as long as neither matrix is resized.
template <class Scalar>
struct Parameter {
  std::string name;
  MatrixView<Scalar> value;
  MatrixView<Scalar> grad;  ///< The gradient, of equal size.
  bool decays = true;       ///< True for a matrix; a bias and the weights of a norm do not decay.
};

}  // namespace heed
