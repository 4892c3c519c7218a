#pragma once

// The reference: naive loops, any scalar, no SIMD, one obvious line after another. Tests measure the engine
// against it, benchmarks compare with it, and scalars that have no kernel (long double,
// automatic-differentiation types) run on it.

#include <cmath>
#include <limits>
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

/// The attention of every head of every sequence (Vaswani et al. 2017, equation 1), one row after another.
/// The tensors are as check_tensors wants them; the mask and the scale are those of AttentionPlan. Memory:
/// one row of scores.
template <class T>
void attention(const AttentionShape& shape, const Mask& mask, std::optional<double> scale,
               const AttentionTensors<T>& tensors) {
  using std::exp;
  using std::log;
  using std::sqrt;
  const T factor = scale ? T(*scale) : T(1) / sqrt(T(static_cast<double>(shape.head_dim)));
  const Index query_offset = mask.query_offset(shape.query_len, shape.kv_len);
  const MatrixView<const T> bias = mask.bias_as<T>();
  const T infinity = std::numeric_limits<T>::infinity();
  std::vector<T> scores(static_cast<std::size_t>(shape.kv_len));
  std::vector<bool> visible(static_cast<std::size_t>(shape.kv_len));

  for (Index batch = 0; batch < shape.batch_size; ++batch) {
    for (Index head = 0; head < shape.num_heads; ++head) {
      const Index kv_head = head / (shape.num_heads / shape.num_kv_heads);
      for (Index i = 0; i < shape.query_len; ++i) {
        const Index query_row = batch * shape.query_len + i;

        // Which keys the row sees, and their scores.
        T row_max = -infinity;
        bool sees_any = false;
        for (Index j = 0; j < shape.kv_len; ++j) {
          const Index key_row = batch * shape.kv_len + j;
          const auto at = static_cast<std::size_t>(j);
          visible[at] =
              (!mask.is_causal() || j <= i + query_offset) && (bias.empty() || bias(i, j) != -infinity);
          if (!visible[at]) continue;
          T dot = T(0);
          for (Index k = 0; k < shape.head_dim; ++k) {
            dot += tensors.query(query_row, head * shape.head_dim + k) *
                   tensors.key(key_row, kv_head * shape.head_dim + k);
          }
          scores[at] = factor * dot;
          if (!bias.empty()) scores[at] += bias(i, j);
          if (scores[at] > row_max) row_max = scores[at];
          sees_any = true;
        }

        // Softmax over them. Subtracting the largest score keeps exp from overflowing and changes nothing
        // else.
        T row_sum = T(0);
        for (Index j = 0; j < shape.kv_len; ++j) {
          const auto at = static_cast<std::size_t>(j);
          if (!visible[at]) continue;
          scores[at] = exp(scores[at] - row_max);
          row_sum += scores[at];
        }

        // The weighted mean of the values; a row that sees nothing gives zeros.
        for (Index c = 0; c < shape.value_dim; ++c) {
          T sum = T(0);
          for (Index j = 0; j < shape.kv_len; ++j) {
            const auto at = static_cast<std::size_t>(j);
            if (visible[at])
              sum += scores[at] * tensors.value(batch * shape.kv_len + j, kv_head * shape.value_dim + c);
          }
          tensors.out(query_row, head * shape.value_dim + c) = sees_any ? T(sum / row_sum) : T(0);
        }
        if (!tensors.weights.empty()) {
          const Index weights_row = (batch * shape.num_heads + head) * shape.query_len + i;
          for (Index j = 0; j < shape.kv_len; ++j) {
            const auto at = static_cast<std::size_t>(j);
            tensors.weights(weights_row, j) = visible[at] ? T(scores[at] / row_sum) : T(0);
          }
        }
        if (!tensors.logsumexp.empty())
          tensors.logsumexp(query_row, head) = sees_any ? T(row_max + log(row_sum)) : -infinity;
      }
    }
  }
}

}  // namespace heed::reference
