#pragma once

// What the library knows of an element type of the safetensors format.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io/safetensors.hpp"

namespace heed::io {

/// The element type with that name in a header, or nothing.
std::optional<Dtype> dtype_named(std::string_view name) noexcept;

/// How much a tensor holds.
struct Extent {
  std::size_t size = 0;   ///< Elements.
  std::size_t bytes = 0;  ///< Bytes in the file.
};

/// The extent of a tensor, or nothing if a dimension is negative, the result is no whole number of bytes
/// (possible with F4 and F6), or the product of the dimensions that are not zero, in bits, exceeds
/// std::size_t: then no partial product that a caller forms can overflow either.
std::optional<Extent> extent_of(Dtype dtype, const std::vector<std::ptrdiff_t>& shape) noexcept;

/// "(2, 3)" for error messages.
std::string shape_text(const std::vector<std::ptrdiff_t>& shape);

}  // namespace heed::io
