#pragma once

// What the layer classes are made of: kernels for float and double, loops for other scalars.

#include "heed/config.hpp"

#include <type_traits>

#include "heed/matrix_product.hpp"
#include "heed/reference_layers.hpp"
#include "heed/row_functions.hpp"

namespace heed::detail {

template <class Scalar>
using Rows = std::conditional_t<has_kernels<Scalar>, RowFunctions<Scalar>, reference::RowFunctions<Scalar>>;

template <class Scalar, class X>
void require_scalar() {
  static_assert(std::is_same_v<Scalar, typename X::Scalar>,
                "the matrix needs the layer's scalar type: cast it");
}

}  // namespace heed::detail
