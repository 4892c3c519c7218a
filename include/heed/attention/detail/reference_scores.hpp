#pragma once

// The reference for scores: who sees whom, and what the scores of a row are, in the contract's order. See
// reference.hpp.

#include "heed/core/config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "heed/attention/plan.hpp"
#include "heed/core/float_bits.hpp"

namespace heed::reference {

/// Returns entry (i, j) of a mask's matrix for one head of one sequence.
template <class E>
const E& mask_entry(const MaskMatrix& matrix, const MaskSizes& sizes, Index sequence, Index head, Index i,
                    Index j) {
  const Index block_rows = matrix.block_rows(sizes);
  const Index row = matrix.block_of(sizes, sequence, head) * block_rows + (block_rows > 1 ? i : 0);
  return static_cast<const E*>(
      matrix.entries.data)[row * matrix.entries.row_stride + j * matrix.entries.col_stride];
}

/// Returns element k of a query or key (k counted within its head, the matrix begins at `col`), turned by its
/// position (Su et al. 2021, equation 34).
template <class T>
T turned_element(const MatrixView<const T>& x, Index row, Index col, Index k, const Rotary& rotary,
                 Index position) {
  using std::cos;
  using std::sin;
  if (k >= rotary.rotary_dim()) return x(row, col + k);
  const Index pairs = rotary.rotary_dim() / 2;
  const bool half_split = rotary.layout() == RotaryLayout::half_split;
  const Index pair = half_split ? k % pairs : k / 2;
  const bool second = half_split ? k >= pairs : k % 2 == 1;
  const T angle = T(rotary.angle(position, pair));
  const T a = x(row, col + (half_split ? pair : 2 * pair));
  const T b = x(row, col + (half_split ? pair + pairs : 2 * pair + 1));
  return second ? T(b * cos(angle) + a * sin(angle)) : T(a * cos(angle) - b * sin(angle));
}

/// Returns queries or keys, heads of head_dim side by side, each row turned by the position that belongs to
/// it.
template <class T>
std::vector<T> turned(const MatrixView<const T>& x, Index head_dim, const Rotary& rotary,
                      const std::vector<Index>& positions) {
  std::vector<T> result;
  result.reserve(static_cast<std::size_t>(x.rows * x.cols));
  for (Index row = 0; row < x.rows; ++row) {
    for (Index col = 0; col < x.cols; ++col) {
      const Index k = col % head_dim;
      result.push_back(turned_element(x, row, col - k, k, rotary, positions[static_cast<std::size_t>(row)]));
    }
  }
  return result;
}

/// The scores of one row of one head at a time. Memory: that row, and with a rotary the turned queries and
/// keys.
template <class T>
class RowScores {
 public:
  RowScores(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
            MatrixView<const T> query, MatrixView<const T> key, const ScoreFunctions<T>& functions = {})
      : shape_(shape),
        mask_(mask),
        functions_(functions),
        query_(query),
        key_(key),
        sizes_(shape.mask_sizes()),
        scores_(static_cast<std::size_t>(shape.kv_len)),
        capped_(static_cast<std::size_t>(shape.kv_len)),
        visible_(std::make_unique<bool[]>(static_cast<std::size_t>(shape.kv_len))) {
    using std::sqrt;
    scale_ = options.scale ? T(*options.scale) : T(1) / sqrt(T(static_cast<double>(shape.head_dim)));
    softcap_ = T(options.softcap);
    asking_ = detail::asking_for_positions(options, functions.any());
    if (!options.rotary) return;
    std::vector<Index> query_positions;
    std::vector<Index> key_positions;
    for (Index batch = 0; batch < shape.batch_size; ++batch) {
      const Index query_len = shape.query_len_of(batch);
      const Index kv_len = shape.kv_len_of(batch);
      for (Index i = 0; i < query_len; ++i) query_positions.push_back(i + query_offset(batch));
      for (Index j = 0; j < kv_len; ++j) key_positions.push_back(j);
    }
    turned_query_ = turned(query, shape.head_dim, *options.rotary, query_positions);
    turned_key_ = turned(key, shape.head_dim, *options.rotary, key_positions);
    query_ = {turned_query_.data(), query.rows, query.cols, query.cols, 1};
    key_ = {turned_key_.data(), key.rows, key.cols, key.cols, 1};
  }

  /// Computes the scores of query i.
  void compute(Index batch, Index head, Index i) {
    using std::tanh;
    const Index kv_len = shape_.kv_len_of(batch);
    const Index kv_length = mask_.kv_length(batch, kv_len);
    const Index key_start = shape_.kv_start(batch);
    const Index kv_head = head / (shape_.num_heads / shape_.num_kv_heads);
    const Index query_row = shape_.query_start(batch) + i;
    const Index offset = query_offset(batch);
    // Slopes, rotaries and functions have offsets within the bound: for them nothing is clamped.
    const Index position = i + std::clamp(offset, -Mask::kMaxOffset, Mask::kMaxOffset);

    // Which keys the row sees.
    const Mask::Reach reach = mask_.reach(offset, i);
    for (Index j = 0; j < kv_len; ++j) {
      bool sees = j < kv_length && j >= reach.first && j <= reach.last;
      for (const MaskMatrix& matrix : mask_.matrices()) {
        if (matrix.kind == MaskMatrix::Kind::bias) {
          sees = sees && !detail::is_minus_infinity(mask_entry<T>(matrix, sizes_, batch, head, i, j));
        } else {
          sees = sees && mask_entry<bool>(matrix, sizes_, batch, head, i, j) ==
                             (matrix.kind == MaskMatrix::Kind::keep);
        }
      }
      visible(j) = sees;
    }
    ScoreTile<T> row{batch, head, 1, 0, position, 1, 0, kv_len, nullptr, 0, visible_.get(), 0};
    if (functions_.hide != nullptr && kv_len > 0) functions_.hide(functions_.context, row);

    // Their scores, in the contract's order.
    for (Index j = 0; j < kv_len; ++j) {
      T& score = scores_[static_cast<std::size_t>(j)];
      score = T(0);
      if (!visible(j)) continue;
      T dot = T(0);
      for (Index k = 0; k < shape_.head_dim; ++k) {
        dot += query_(query_row, head * shape_.head_dim + k) *
               key_(key_start + j, kv_head * shape_.head_dim + k);
      }
      score = scale_ * dot;
      if (softcap_ > T(0)) score = softcap_ * tanh(score / softcap_);
      capped_[static_cast<std::size_t>(j)] = score;
      T added = T(0);
      bool biased = false;
      for (const MaskMatrix& matrix : mask_.matrices()) {
        if (matrix.kind != MaskMatrix::Kind::bias) continue;
        const T& entry = mask_entry<T>(matrix, sizes_, batch, head, i, j);
        added = biased ? T(added + entry) : entry;
        biased = true;
      }
      if (biased) score += added;
      if (!mask_.alibi_slopes().empty()) {
        const T distance = T(static_cast<double>(position > j ? position - j : j - position));
        score -= T(mask_.alibi_slopes()[static_cast<std::size_t>(head)]) * distance;
      }
    }
    row.scores = scores_.data();
    row.visible = nullptr;
    if (functions_.score != nullptr && kv_len > 0) functions_.score(functions_.context, row);
    // A score of -inf hides its key, whatever made it.
    for (Index j = 0; j < kv_len; ++j)
      visible(j) = visible(j) && !detail::is_minus_infinity(scores_[static_cast<std::size_t>(j)]);
  }

  /// Returns the position of the first query of a sequence.
  Index query_offset(Index batch) const {
    return mask_.query_offset(shape_.query_len_of(batch), shape_.kv_len_of(batch), batch, asking_);
  }

  bool sees(Index j) const { return visible(j); }
  const T& score(Index j) const { return scores_[static_cast<std::size_t>(j)]; }
  /// Returns the score of key j after the softcap, before anything is added.
  const T& capped(Index j) const { return capped_[static_cast<std::size_t>(j)]; }

  const T& scale() const { return scale_; }
  const T& softcap() const { return softcap_; }
  /// Returns the queries as they enter the product: turned, if there is a rotary.
  const MatrixView<const T>& query() const { return query_; }
  const MatrixView<const T>& key() const { return key_; }

 private:
  bool& visible(Index j) const { return visible_.get()[j]; }

  const AttentionShape& shape_;
  const Mask& mask_;
  ScoreFunctions<T> functions_;
  MatrixView<const T> query_;
  MatrixView<const T> key_;
  MaskSizes sizes_;
  T scale_;
  T softcap_;
  const char* asking_;  ///< What asks for positions, beside the mask.
  std::vector<T> scores_;
  std::vector<T> capped_;
  std::unique_ptr<bool[]> visible_;
  std::vector<T> turned_query_;
  std::vector<T> turned_key_;
};

}  // namespace heed::reference
