#pragma once

// Attention weights without the query_len x kv_len matrix: an observer is handed the finished weights tile by
// tile, in a second pass that computes them from the rows' logsumexp (as Dao et al. 2022 do for gradients).
// out is the same to the bit whether it is observed or not.

#include "heed/core/config.hpp"

#include "heed/core/scalar.hpp"
#include "heed/core/view.hpp"

namespace heed {

struct AttentionShape;

/// A tile of finished weights of one head.
template <class T>
struct WeightsTile {
  Index sequence;
  Index head;
  Index first_query;  ///< The tile's first query, counted within the sequence.
  Index first_key;
  MatrixView<const T> weights;  ///< queries x keys; data == nullptr: all of them are 0.
};

/// What wants to see weights. take() is called from the threads that compute, so from several at once for
/// different heads, and for different rows of one head unless in_order().
template <class T>
class WeightsObserver {
  static_assert(detail::require_number<T>());

 public:
  virtual ~WeightsObserver() = default;

  /// Checks the sizes and makes room; called before a run. May throw.
  virtual void prepare(const AttentionShape& shape) = 0;

  /// Returns false where no tile of these queries is wanted: their weights are then not computed.
  virtual bool wants(Index /*sequence*/, Index /*head*/, Index /*first_query*/,
                     Index /*num_queries*/) const noexcept {
    return true;
  }

  /// Returns true if tiles that are 0 throughout are wanted too, with data == nullptr.
  virtual bool wants_zeros() const noexcept { return false; }

  /// Returns true if all rows of a head must come in ascending order, on one thread: for sums over rows.
  virtual bool in_order() const noexcept { return false; }

  /// Takes one tile. For each query, keys come in ascending order.
  virtual void take(const WeightsTile<T>& tile) noexcept = 0;

  /// Throws what take() could not.
  virtual void rethrow() {}
};

}  // namespace heed
