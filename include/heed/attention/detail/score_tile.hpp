#pragma once

// A caller's own functions inside the attention kernel, tile by tile: what flex_attention.hpp hands down.

#include "heed/core/config.hpp"

#include "heed/core/view.hpp"

namespace heed {

/// A tile of scores, or of visibility, of the heads that share one key/value head: row r belongs to head
/// head_of(r) at position position_of(r).
template <class T>
struct ScoreTile {
  Index sequence;
  Index first_head;      ///< The first of the heads that share the keys.
  Index heads;           ///< How many heads share the keys.
  Index first_row;       ///< Row 0 of the tile, counted over positions and heads.
  Index first_position;  ///< p(i) of row 0's first position in that count.
  Index rows;
  Index first_key;
  Index keys;
  T* scores;  ///< (r, j) at scores[r * score_step + j]; nullptr if visibility is asked for.
  Index score_step;
  bool* visible;  ///< (r, j) at visible[r * visible_step + j]; what is false must stay so.
  Index visible_step;

  Index head_of(Index r) const { return first_head + (first_row + r) % heads; }
  Index position_of(Index r) const { return first_position + (first_row + r) / heads; }
};

/// Functions of a tile; either may be null. They are called from the threads that compute, and must not
/// throw.
template <class T>
struct ScoreFunctions {
  /// Changes the scores, after scale, softcap, bias and slopes; -inf hides a key.
  void (*score)(const void* context, const ScoreTile<T>& tile) noexcept = nullptr;
  /// Sets visible to false where a key is hidden. A tile that no row sees costs nothing else.
  void (*hide)(const void* context, const ScoreTile<T>& tile) noexcept = nullptr;
  const void* context = nullptr;

  bool any() const noexcept { return score != nullptr || hide != nullptr; }
};

}  // namespace heed
