#pragma once

// The heat map of one head at any length, without its query_len x kv_len weights:
//
//   heed::HeatMapObserver<float> map(0);
//   heed::observe_attention(q, k, v, {.mask = heed::causal()}, {&map});
//   std::cout << map.text();

#include "heed/core/config.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "heed/attention/observe_attention.hpp"
#include "heed/plot/heat_map.hpp"

namespace heed {

/// Reduces the weights of one head of one sequence to the cells of a picture as they pass. Memory: the cells
/// drawn. The picture is the one that heat_map() draws of the whole matrix.
template <class T>
class HeatMapObserver final : public WeightsObserver<T> {
 public:
  explicit HeatMapObserver(Index head, HeatMapOptions options = {}, Index sequence = 0)
      : head_(head), sequence_(sequence), options_(std::move(options)) {}

  /// Throws RangeError if there is no such head or sequence, else as plan_heat_map() does.
  void prepare(const AttentionShape& shape) override {
    if (head_ < 0 || head_ >= shape.num_heads || sequence_ < 0 || sequence_ >= shape.batch_size) {
      throw_range_error("head " + std::to_string(head_) + " of sequence " + std::to_string(sequence_) +
                        " is wanted, there are " + std::to_string(shape.num_heads) + " heads and " +
                        std::to_string(shape.batch_size) + " sequences");
    }
    plan_ = plan_heat_map(shape.query_len_of(sequence_), shape.kv_len_of(sequence_), options_);
    cells_.assign(static_cast<std::size_t>(plan_.shown_rows * plan_.shown_cols),
                  BlockReducer(options_.reduction));
  }
  bool wants(Index sequence, Index head, Index, Index) const noexcept override {
    return sequence == sequence_ && head == head_;
  }
  bool wants_zeros() const noexcept override { return true; }
  bool in_order() const noexcept override { return true; }  // blocks of queries may share a cell

  void take(const WeightsTile<T>& tile) noexcept override {
    for (Index i = 0; i < tile.weights.rows; ++i) {
      const Index first_cell = (tile.first_query + i) / plan_.block_rows * plan_.shown_cols;
      for (Index j = 0; j < tile.weights.cols; ++j) {
        const Index cell = first_cell + (tile.first_key + j) / plan_.block_cols;
        cells_[static_cast<std::size_t>(cell)].add(
            tile.weights.data != nullptr ? static_cast<double>(tile.weights(i, j)) : 0.0);
      }
    }
  }

  /// Returns the picture, after a run.
  std::string text() const {
    std::vector<double> values;
    values.reserve(cells_.size());
    for (const BlockReducer& cell : cells_) values.push_back(cell.value());
    return draw_heat_map(plan_, values, options_);
  }

 private:
  Index head_;
  Index sequence_;
  HeatMapOptions options_;
  HeatMapPlan plan_{};
  std::vector<BlockReducer> cells_;
};

}  // namespace heed
