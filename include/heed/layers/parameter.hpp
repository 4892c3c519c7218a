#pragma once

#include "heed/core/config.hpp"

#include <string>

#include "heed/core/view.hpp"

namespace heed {

/// One matrix of weights and its gradient. The views are good as long as neither matrix is resized.
template <class Scalar>
struct Parameter {
  std::string name;
  MatrixView<Scalar> value;
  MatrixView<Scalar> grad;  // of the same size
  bool decays = true;       // a matrix; a bias and the weights of a norm do not decay
};

}  // namespace heed
