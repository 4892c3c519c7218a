#pragma once

// The reference: naive loops, any scalar, no SIMD, one obvious line after another. Tests measure the engine
// against it, benchmarks compare with it, and scalars that have no kernel (long double,
// automatic-differentiation types) run on it.

#include "heed/core/config.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "heed/attention/detail/reference_scores.hpp"
#include "heed/attention/plan.hpp"
#include "heed/core/float_bits.hpp"

namespace heed::reference {

/// Computes out = a * b: a is m x k, b is k x n, out is m x n.
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

/// Computes the attention of every head of every sequence (Vaswani et al. 2017, equation 1), one row after
/// another. The tensors are as check_tensors wants them; mask, options and functions are as for
/// AttentionPlan. Memory: one row of scores, and with a rotary the turned queries and keys.
template <class T>
void attention(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
               const AttentionTensors<T>& tensors, const ScoreFunctions<T>& functions = {}) {
  using std::exp;
  using std::log;
  const T infinity = std::numeric_limits<T>::infinity();
  if (shape.query_rows() == 0) return;  // sequences of nothing, however many
  RowScores<T> scores(shape, mask, options, tensors.query, tensors.key, functions);
  std::vector<T> weights(static_cast<std::size_t>(shape.kv_len));

  for (Index batch = 0; batch < shape.batch_size; ++batch) {
    const Index kv_len = shape.kv_len_of(batch);
    const Index key_start = shape.kv_start(batch);
    for (Index head = 0; head < shape.num_heads; ++head) {
      const Index kv_head = head / (shape.num_heads / shape.num_kv_heads);
      for (Index i = 0; i < shape.query_len_of(batch); ++i) {
        const Index query_row = shape.query_start(batch) + i;
        scores.compute(batch, head, i);

        // Softmax over what the row sees. Subtracting the largest score keeps exp from overflowing and
        // changes nothing else. A sink is a score that has no value.
        const T sink = options.sinks.empty() ? -infinity : T(options.sinks[static_cast<std::size_t>(head)]);
        T row_max = sink;
        bool sees_any = false;
        for (Index j = 0; j < kv_len; ++j) {
          if (!scores.sees(j)) continue;
          if (scores.score(j) > row_max) row_max = scores.score(j);
          sees_any = true;
        }
        T row_sum = detail::is_minus_infinity(sink) ? T(0) : T(exp(sink - row_max));
        for (Index j = 0; j < kv_len; ++j) {
          T& weight = weights[static_cast<std::size_t>(j)];
          weight = T(0);
          if (!scores.sees(j)) continue;
          weight = exp(scores.score(j) - row_max);
          row_sum += weight;
        }

        // The weighted mean of the values; a row that sees nothing gives zeros.
        for (Index c = 0; c < shape.value_dim; ++c) {
          T sum = T(0);
          for (Index j = 0; j < kv_len; ++j) {
            if (!scores.sees(j)) continue;
            sum += weights[static_cast<std::size_t>(j)] *
                   tensors.value(key_start + j, kv_head * shape.value_dim + c);
          }
          tensors.out(query_row, head * shape.value_dim + c) = sees_any ? T(sum / row_sum) : T(0);
        }
        for (Index j = 0; j < kv_len; ++j) {
          T& weight = weights[static_cast<std::size_t>(j)];
          if (scores.sees(j)) weight = T(weight / row_sum);
        }
        if (!tensors.weights.empty()) {
          const Index weights_row = shape.stacked_row(batch, head, i);
          for (Index j = 0; j < shape.kv_len; ++j)
            tensors.weights(weights_row, j) = j < kv_len ? weights[static_cast<std::size_t>(j)] : T(0);
        }
        for (Index n = 0; n < tensors.num_observers; ++n) {
          if (kv_len > 0 && tensors.observers[n]->wants(batch, head, i, 1))
            tensors.observers[n]->take({batch, head, i, 0, {weights.data(), 1, kv_len, kv_len, 1}});
        }
        if (!tensors.logsumexp.empty()) {
          const bool empty = !sees_any && detail::is_minus_infinity(sink);
          tensors.logsumexp(query_row, head) = empty ? -infinity : T(row_max + log(row_sum));
        }
      }
    }
  }
}

}  // namespace heed::reference
