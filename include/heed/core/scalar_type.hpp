#pragma once

// The name of a scalar type as a value: what typeid would give, in programs that are built with -fno-rtti
// too.

#include "heed/core/config.hpp"

#include <concepts>
#include <string_view>

namespace heed {

/// The scalar type of a matrix whose elements are not known by their type.
struct ScalarType {
  std::string_view name = {};  ///< The type's name; empty for none.

  friend bool operator==(const ScalarType&, const ScalarType&) = default;
};

/// Gives the same value in every part of a program, whatever flags each is compiled with.
template <class T>
constexpr ScalarType scalar_type() noexcept {
  if constexpr (std::same_as<T, float>) {
    return {"float"};
  } else if constexpr (std::same_as<T, double>) {
    return {"double"};
  } else if constexpr (std::same_as<T, bool>) {
    return {"bool"};
  } else {
    return {__PRETTY_FUNCTION__};  // compilers spell it differently, and the compiled library names only
                                   // those above
  }
}

}  // namespace heed
