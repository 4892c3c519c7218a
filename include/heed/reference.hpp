#pragma once

// The reference: naive loops, any scalar, no SIMD, one obvious line after another. Tests measure the engine
// against it, benchmarks compare with it, and scalars that have no kernel (long double,
// automatic-differentiation types) run on it.

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "heed/attention_plan.hpp"

namespace heed::reference {

/// out = a * b: a is m x k, b is k x n, out is m x n.
template <class T>
void matrix_product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out) {
  for (Index i = 0; i < a.rows; ++i) {
    for (Index j = 0; j < b.cols; ++j) {
      T sum = T(0);
      for (Index k = 0; k < a.cols; ++k) sum += a(i, k) * b(k, j);
      out(i, j) = sum;
    }
  }
}

/// Entry (i, j) of a mask's matrix for one head of one sequence.
template <class E>
const E& mask_entry(const MaskMatrix& matrix, const MaskSizes& sizes, Index sequence, Index head, Index i,
                    Index j) {
  const Index block = (matrix.per_sequence() ? sequence : 0) * (matrix.per_head() ? sizes.num_heads : 1) +
                      (matrix.per_head() ? head : 0);
  const Index block_rows = matrix.block_rows(sizes);
  const Index row = block * block_rows + (block_rows > 1 ? i : 0);
  return static_cast<const E*>(
      matrix.entries.data)[row * matrix.entries.row_stride + j * matrix.entries.col_stride];
}

/// Element k of a query or key (k counted within its head, the matrix begins at `col`), turned by its
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

/// Queries or keys, heads of head_dim side by side, each row turned by the position that belongs to it.
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

/// The attention of every head of every sequence (Vaswani et al. 2017, equation 1), one row after another.
/// The tensors are as check_tensors wants them; the mask, options and functions are those of AttentionPlan.
/// Memory: one row of scores, and with a rotary the turned queries and keys.
template <class T>
void attention(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
               const AttentionTensors<T>& tensors, const ScoreFunctions<T>& functions = {}) {
  using std::abs;
  using std::exp;
  using std::log;
  using std::sqrt;
  using std::tanh;
  const T scale = options.scale ? T(*options.scale) : T(1) / sqrt(T(static_cast<double>(shape.head_dim)));
  const T softcap = T(options.softcap);
  const T infinity = std::numeric_limits<T>::infinity();
  const MaskSizes sizes = {shape.batch_size, shape.num_heads, shape.query_len, shape.kv_len};
  std::vector<T> scores(static_cast<std::size_t>(shape.kv_len));
  const auto flags = std::make_unique<bool[]>(static_cast<std::size_t>(shape.kv_len));
  bool* const visible = flags.get();

  MatrixView<const T> query = tensors.query;
  MatrixView<const T> key = tensors.key;
  std::vector<T> turned_query;
  std::vector<T> turned_key;
  if (options.rotary) {
    std::vector<Index> query_positions;
    std::vector<Index> key_positions;
    for (Index batch = 0; batch < shape.batch_size; ++batch) {
      const Index query_len = shape.query_len_of(batch);
      const Index kv_len = shape.kv_len_of(batch);
      const Index query_offset = mask.query_offset(query_len, kv_len, batch);
      for (Index i = 0; i < query_len; ++i) query_positions.push_back(i + query_offset);
      for (Index j = 0; j < kv_len; ++j) key_positions.push_back(j);
    }
    turned_query = turned(query, shape.head_dim, *options.rotary, query_positions);
    turned_key = turned(key, shape.head_dim, *options.rotary, key_positions);
    query = {turned_query.data(), query.rows, query.cols, query.cols, 1};
    key = {turned_key.data(), key.rows, key.cols, key.cols, 1};
  }

  for (Index batch = 0; batch < shape.batch_size; ++batch) {
    const Index query_len = shape.query_len_of(batch);
    const Index kv_len = shape.kv_len_of(batch);
    const Index key_start = shape.kv_start(batch);
    const Index kv_length = mask.kv_length(batch, kv_len);
    const Index query_offset = mask.query_offset(query_len, kv_len, batch);
    for (Index head = 0; head < shape.num_heads; ++head) {
      const auto h = static_cast<std::size_t>(head);
      const Index kv_head = head / (shape.num_heads / shape.num_kv_heads);
      for (Index i = 0; i < query_len; ++i) {
        const Index query_row = shape.query_start(batch) + i;
        const Index position = i + query_offset;

        // Which keys the row sees.
        for (Index j = 0; j < kv_len; ++j) {
          bool sees = j < kv_length;
          if (mask.is_causal()) sees = sees && j <= position;
          if (mask.window().left != unlimited) sees = sees && position - j <= mask.window().left;
          if (mask.window().right != unlimited) sees = sees && j - position <= mask.window().right;
          for (const MaskMatrix& matrix : mask.matrices()) {
            if (matrix.kind == MaskMatrix::Kind::bias) {
              sees = sees && mask_entry<T>(matrix, sizes, batch, head, i, j) != -infinity;
            } else {
              sees = sees && mask_entry<bool>(matrix, sizes, batch, head, i, j) ==
                                 (matrix.kind == MaskMatrix::Kind::keep);
            }
          }
          visible[j] = sees;
        }
        ScoreTile<T> row{batch, head, 1, 0, position, 1, 0, kv_len, nullptr, 0, visible, 0};
        if (functions.hide != nullptr && kv_len > 0) functions.hide(functions.context, row);

        // Their scores, in the contract's order.
        for (Index j = 0; j < kv_len; ++j) {
          const auto at = static_cast<std::size_t>(j);
          scores[at] = T(0);
          if (!visible[j]) continue;
          T dot = T(0);
          for (Index k = 0; k < shape.head_dim; ++k) {
            dot += query(query_row, head * shape.head_dim + k) *
                   key(key_start + j, kv_head * shape.head_dim + k);
          }
          scores[at] = scale * dot;
          if (softcap > T(0)) scores[at] = softcap * tanh(scores[at] / softcap);
          for (const MaskMatrix& matrix : mask.matrices()) {
            if (matrix.kind == MaskMatrix::Kind::bias)
              scores[at] += mask_entry<T>(matrix, sizes, batch, head, i, j);
          }
          if (!mask.alibi_slopes().empty()) {
            const T distance = T(static_cast<double>(position > j ? position - j : j - position));
            scores[at] -= T(mask.alibi_slopes()[h]) * distance;
          }
        }
        row.scores = scores.data();
        row.visible = nullptr;
        if (functions.score != nullptr && kv_len > 0) {
          functions.score(functions.context, row);
          for (Index j = 0; j < kv_len; ++j)
            visible[j] = visible[j] && scores[static_cast<std::size_t>(j)] != -infinity;
        }

        // Softmax over them. Subtracting the largest score keeps exp from overflowing and changes nothing
        // else. A sink is a score that has no value.
        const T sink = options.sinks.empty() ? -infinity : T(options.sinks[h]);
        T row_max = sink;
        bool sees_any = false;
        for (Index j = 0; j < kv_len; ++j) {
          if (!visible[j]) continue;
          if (scores[static_cast<std::size_t>(j)] > row_max) row_max = scores[static_cast<std::size_t>(j)];
          sees_any = true;
        }
        T row_sum = sink == -infinity ? T(0) : T(exp(sink - row_max));
        for (Index j = 0; j < kv_len; ++j) {
          const auto at = static_cast<std::size_t>(j);
          if (!visible[j]) continue;
          scores[at] = exp(scores[at] - row_max);
          row_sum += scores[at];
        }

        // The weighted mean of the values; a row that sees nothing gives zeros.
        for (Index c = 0; c < shape.value_dim; ++c) {
          T sum = T(0);
          for (Index j = 0; j < kv_len; ++j) {
            if (!visible[j]) continue;
            sum += scores[static_cast<std::size_t>(j)] *
                   tensors.value(key_start + j, kv_head * shape.value_dim + c);
          }
          tensors.out(query_row, head * shape.value_dim + c) = sees_any ? T(sum / row_sum) : T(0);
        }
        for (Index j = 0; j < kv_len; ++j) {
          const auto at = static_cast<std::size_t>(j);
          scores[at] = visible[j] ? T(scores[at] / row_sum) : T(0);
        }
        if (!tensors.weights.empty()) {
          const Index weights_row = shape.stacked_row(batch, head, i);
          for (Index j = 0; j < shape.kv_len; ++j)
            tensors.weights(weights_row, j) = j < kv_len ? scores[static_cast<std::size_t>(j)] : T(0);
        }
        for (Index n = 0; n < tensors.num_observers; ++n) {
          if (kv_len > 0 && tensors.observers[n]->wants(batch, head, i, 1))
            tensors.observers[n]->take({batch, head, i, 0, {scores.data(), 1, kv_len, kv_len, 1}});
        }
        if (!tensors.logsumexp.empty()) {
          const bool empty = !sees_any && sink == -infinity;
          tensors.logsumexp(query_row, head) = empty ? -infinity : T(row_max + log(row_sum));
        }
      }
    }
  }
}

}  // namespace heed::reference
