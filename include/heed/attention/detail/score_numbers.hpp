#pragma once

// The options of scores as numbers of the scalar that a plan works in.

#include "heed/core/config.hpp"

#include <optional>
#include <vector>

#include "heed/attention/mask.hpp"
#include "heed/attention/rotary.hpp"

namespace heed {

struct AttentionShape;
struct ScoreOptions;

namespace detail {

template <class T>
struct HEED_EXPORT ScoreNumbers {
  T scale;
  T softcap;
  std::vector<T> sinks;
  std::vector<T> slopes;
  std::optional<Rotary> rotary;
  const T* rotary_table = nullptr;  ///< The row of position 0.
  Index first_offset;
  std::vector<Index> query_offsets;  ///< One for each sequence, or empty: all have the first's.

  /// Throws as check_attention does, and ArgumentError if a number is beyond T.
  ScoreNumbers(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
               bool with_functions = false);

  Index query_offset(Index sequence) const noexcept {
    return query_offsets.empty() ? first_offset : query_offsets[static_cast<std::size_t>(sequence)];
  }
};

extern template struct ScoreNumbers<float>;
extern template struct ScoreNumbers<double>;

}  // namespace detail

}  // namespace heed
