#pragma once

// How much memory things take, counted before any of it is taken.

#include "heed/core/config.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "heed/core/view.hpp"

namespace heed {

/// Returns how many bytes of memory this machine has, and the largest number where the system does not say.
HEED_EXPORT std::uint64_t physical_memory() noexcept;

namespace detail {

/// Stands for more bytes than a number can count.
inline constexpr std::uint64_t kUncountableBytes = (std::numeric_limits<std::uint64_t>::max)();

/// Returns a * b, or kUncountableBytes where that is no number.
constexpr std::uint64_t times_bytes(std::uint64_t a, std::uint64_t b) noexcept {
  return a != 0 && b > kUncountableBytes / a ? kUncountableBytes : a * b;
}

/// Returns a + b, or kUncountableBytes where that is no number.
constexpr std::uint64_t plus_bytes(std::uint64_t a, std::uint64_t b) noexcept {
  return b > kUncountableBytes - a ? kUncountableBytes : a + b;
}

/// Returns the bytes of rows x cols elements of a size; a negative number of them is none.
constexpr std::uint64_t matrix_bytes(std::size_t element_size, Index rows, Index cols) noexcept {
  if (rows <= 0 || cols <= 0) return 0;
  return times_bytes(times_bytes(element_size, static_cast<std::uint64_t>(rows)),
                     static_cast<std::uint64_t>(cols));
}

/// Throws the ArgumentError of require_memory().
[[noreturn]] HEED_EXPORT void throw_no_memory(std::uint64_t bytes, const std::string& what);

/// Throws ArgumentError, with both numbers of bytes, if the machine has less memory than that. what() says
/// for what it is wanted: "a matrix of 3 x 4".
template <class What>
void require_memory(std::uint64_t bytes, const What& what) {
  constexpr std::uint64_t everywhere = std::uint64_t{1} << 26;  // the system is not asked for so little
  if (bytes > everywhere && bytes > physical_memory()) throw_no_memory(bytes, what());
}

/// Throws ArgumentError if the machine has no memory for a matrix of rows x cols.
template <class Scalar>
void require_matrix_memory(Index rows, Index cols) {
  require_memory(matrix_bytes(sizeof(Scalar), rows, cols),
                 [&] { return "a matrix of " + std::to_string(rows) + " x " + std::to_string(cols); });
}

}  // namespace detail

}  // namespace heed
