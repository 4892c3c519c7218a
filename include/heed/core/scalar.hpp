#pragma once

// Which numbers Heed computes with. float and double run on the compiled kernels. Every other number that has
// + - * /, comparisons, exp, log, sqrt, tanh, sin and cos by argument-dependent lookup or as long double has
// them, and that can be made from a double, runs on the loops of reference.hpp and layers/reference.hpp:
// long double, and scalars that carry derivatives, such as Eigen's AutoDiffScalar. What keeps its state in
// compiled code (plans, caches, optimizers, Gpt) is for float and double alone.

#include "heed/core/config.hpp"

#include <type_traits>

namespace heed {

/// True for the scalars that the compiled engine has kernels for; others run on the loops of reference.hpp.
template <class Scalar>
inline constexpr bool has_kernels = std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>;

namespace detail {

// Asked of its members: C's own header makes a macro of the name "complex".
template <class Scalar>
inline constexpr bool is_complex = requires(const Scalar& x) {
  x.real();
  x.imag();
};

/// Returns a number as a scalar. A scalar that carries derivatives is made from a double, and has none.
template <class Scalar, class Number>
Scalar number(Number x) {
  if constexpr (std::is_floating_point_v<Scalar>) {
    return static_cast<Scalar>(x);
  } else {
    return Scalar(static_cast<double>(x));
  }
}

/// Refuses what no layer computes with; returns true, so that a class can ask in a static_assert of its own.
template <class Scalar>
constexpr bool require_number() {
  static_assert(
      !std::is_integral_v<Scalar>,
      "Heed computes with floating-point numbers: cast the matrix of integers, as with .cast<float>()");
  static_assert(!is_complex<Scalar>, "Heed computes with real numbers: std::complex is not one");
  return true;
}

/// Refuses scalars without kernels.
template <class Scalar>
constexpr bool require_kernels() {
  static_assert(has_kernels<Scalar>, "this part of Heed runs on compiled kernels, for float and double");
  return true;
}

}  // namespace detail

}  // namespace heed
