#pragma once

// Between the kernel's hooks, which know rows of a block, and the public interfaces, which know sequences,
// heads and positions.

#include <algorithm>

#include "heed/attention/plan.hpp"
#include "kernels/kernels.hpp"

namespace heed::detail {

/// A caller's functions as the kernel calls them.
template <class T>
class CallerFunctions {
 public:
  CallerFunctions(const ScoreFunctions<T>& functions, Index sequence, Index head)
      : functions_(functions),
        sequence_(sequence),
        head_(head),
        hook_{functions.hide != nullptr ? &hide : nullptr, functions.score != nullptr ? &score : nullptr,
              this} {}
  CallerFunctions(const CallerFunctions&) = delete;
  CallerFunctions& operator=(const CallerFunctions&) = delete;

  bool any() const { return functions_.any(); }
  const kernels::ScoreHook<T>* hook() const { return &hook_; }

 private:
  ScoreTile<T> tile_of(const kernels::AttentionBlock<T>& block, const kernels::ScoreTile<T>& tile) const {
    return {sequence_,
            head_,
            block.heads,
            block.first_head + tile.first_row,
            block.first_position,
            tile.rows,
            tile.first_key,
            tile.keys,
            tile.scores,
            tile.row_step,
            tile.visible,
            tile.visible_step};
  }
  static void hide(const void* context, const kernels::AttentionBlock<T>& block,
                   const kernels::ScoreTile<T>& tile) noexcept {
    const auto& self = *static_cast<const CallerFunctions*>(context);
    self.functions_.hide(self.functions_.context, self.tile_of(block, tile));
  }
  static void score(const void* context, const kernels::AttentionBlock<T>& block,
                    const kernels::ScoreTile<T>& tile) noexcept {
    const auto& self = *static_cast<const CallerFunctions*>(context);
    self.functions_.score(self.functions_.context, self.tile_of(block, tile));
  }

  const ScoreFunctions<T>& functions_;
  Index sequence_;
  Index head_;
  kernels::ScoreHook<T> hook_;
};

/// Hands the weights of a block to the observers that want them.
template <class T>
class BlockObservation {
 public:
  BlockObservation(const kernels::AttentionBlock<T>& block, const AttentionTensors<T>& tensors,
                   const AttentionShape& shape, Index sequence, Index head, Index query)
      : block_(block), tensors_(tensors), shape_(shape), sequence_(sequence), head_(head), query_(query) {}

  void run(const kernels::Kernels<T>& kernels) {
    if (tensors_.weights.empty() && tensors_.num_observers == 0) return;
    if (!any_observer_wants(0, block_.num_rows)) return;
    kernels.weights(block_, {&wanted, &take, this});
    // A sequence without keys in a ragged batch: there is no tile, but the rows of weights exist.
    if (block_.kv_len == 0) take(this, 0, block_.num_rows, 0, 0, nullptr, 0);
  }

 private:
  /// The rows of one head among [first_row, first_row + rows).
  struct HeadRun {
    Index head;
    Index query;
    Index first;  ///< Of the rows, counted from first_row.
    Index count;
  };
  template <class F>
  void for_each_head(Index first_row, Index rows, F f) const {
    const Index heads = block_.heads;
    for (Index r = 0; r < std::min(rows, heads); ++r) {
      const Index at = block_.first_head + first_row + r;
      f(HeadRun{head_ + at % heads, query_ + at / heads, r, (rows - r + heads - 1) / heads});
    }
  }

  bool any_observer_wants(Index first_row, Index rows) const {
    if (!tensors_.weights.empty()) return true;
    bool any = false;
    for_each_head(first_row, rows, [&](const HeadRun& run) {
      for (Index i = 0; !any && i < tensors_.num_observers; ++i)
        any = tensors_.observers[i]->wants(sequence_, run.head, run.query, run.count);
    });
    return any;
  }

  static bool wanted(void* context, Index first_row, Index rows) noexcept {
    return static_cast<const BlockObservation*>(context)->any_observer_wants(first_row, rows);
  }

  static void take(void* context, Index first_row, Index rows, Index first_key, Index keys, const T* weights,
                   Index row_step) noexcept {
    const auto& self = *static_cast<const BlockObservation*>(context);
    self.for_each_head(first_row, rows, [&](const HeadRun& run) {
      MatrixView<const T> view{nullptr, run.count, keys, self.block_.heads * row_step, 1};
      if (weights != nullptr) view.data = weights + run.first * row_step;
      if (!self.tensors_.weights.empty()) self.write(run, first_key, view);
      for (Index i = 0; i < self.tensors_.num_observers; ++i) {
        WeightsObserver<T>& observer = *self.tensors_.observers[i];
        if (weights == nullptr && !observer.wants_zeros()) continue;
        if (!observer.wants(self.sequence_, run.head, run.query, run.count)) continue;
        observer.take({self.sequence_, run.head, run.query, first_key, view});
      }
    });
  }

  /// The whole matrix of weights, for who asked for it.
  void write(const HeadRun& run, Index first_key, const MatrixView<const T>& tile) const {
    const Index first_row = shape_.stacked_row(sequence_, run.head, run.query);
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j)
        tensors_.weights(first_row + i, first_key + j) = tile.data != nullptr ? tile(i, j) : T(0);
      // Columns beyond the keys of a short sequence in a ragged batch.
      const Index own_keys = shape_.kv_len_of(sequence_);
      for (Index j = own_keys; first_key + tile.cols == own_keys && j < shape_.kv_len; ++j)
        tensors_.weights(first_row + i, j) = T(0);
    }
  }

  const kernels::AttentionBlock<T>& block_;
  const AttentionTensors<T>& tensors_;
  const AttentionShape& shape_;
  Index sequence_;
  Index head_;
  Index query_;
};

}  // namespace heed::detail
