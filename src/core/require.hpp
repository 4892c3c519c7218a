#pragma once

// Checks of sizes. The words of a message are made only for an error.

#include <limits>
#include <string>

#include "heed/core/error.hpp"
#include "heed/core/view.hpp"

namespace heed::detail {

inline std::string count_of(Index n, const char* singular) {
  return std::to_string(n) + " " + singular + (n == 1 ? "" : "s");
}

inline void require_not_negative(Index value, const char* name) {
  if (value < 0) {
    throw_shape_error(std::string(name) + " is " + std::to_string(value) + ", it must not be negative");
  }
}

inline void require_positive(Index value, const char* name) {
  if (value < 1)
    throw_shape_error(std::string(name) + " is " + std::to_string(value) + ", it must be at least 1");
}

/// Throws if a size is beyond any memory. Below this bound, sums and small multiples of sizes cannot
/// overflow.
inline void require_possible(Index value, const char* name) {
  constexpr Index most = Index{1} << 40;
  if (value > most)
    throw_shape_error(std::string(name) + " is " + std::to_string(value) + ", no memory holds as much");
}

/// Throws if a * b, both not negative, is no Index.
inline void require_product(Index a, Index b, const char* what) {
  if (a != 0 && b > std::numeric_limits<Index>::max() / a) {
    throw_shape_error(std::string(what) + " overflows: " + std::to_string(a) + " times " + std::to_string(b));
  }
}

/// Throws unless the view is rows x cols and has memory. `because` makes the reason: "2 sequences of 3 keys".
template <class Because>
void require_size(const UntypedView& view, const char* name, Index rows, Index cols, Because because) {
  if (view.rows != rows || view.cols != cols) {
    throw_shape_error(std::string(name) + " is " + size_text(view) + ", " + because() + " need " +
                      std::to_string(rows) + " x " + std::to_string(cols));
  }
  if (view.data == nullptr && rows != 0 && cols != 0) {
    throw_argument_error(std::string(name) + " (" + size_text(view) + ") has no memory: its pointer is null");
  }
}

inline void require_apart(const UntypedView& written, const char* written_name, const UntypedView& other,
                          const char* other_name) {
  if (written.rows == 0 || other.rows == 0) return;  // most often: not asked for, and not worth a call
  if (overlap(written, other)) {
    throw_argument_error(std::string(written_name) + " (" + size_text(written) + ") overlaps " + other_name +
                         " (" + size_text(other) + ") in memory");
  }
}

/// An optional result that was asked for; asked for with no rows or no columns, it is still checked.
inline bool wanted(const UntypedView& view) {
  return view.rows != 0 || view.cols != 0;
}

}  // namespace heed::detail
