#pragma once

// The compiled part of pca(), on plain arrays.

#include "heed/core/config.hpp"

#include "heed/core/index.hpp"

namespace heed::pca_detail {

/// Finds the principal directions of n centered rows of d values, column-major: r = min(n, d) unit vectors as
/// the columns of axes (d x r), and r singular values. The axis of a singular value of 0 may be 0. It takes
/// pointers, not matrices: a program built for wider registers aligns its Eigen matrices otherwise.
HEED_EXPORT void principal_directions(const double* centered, Index n, Index d, double* axes,
                                      double* singular_values);
HEED_EXPORT void principal_directions(const long double* centered, Index n, Index d, long double* axes,
                                      long double* singular_values);

}  // namespace heed::pca_detail
