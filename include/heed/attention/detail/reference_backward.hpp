#pragma once

// The reference for gradients: naive loops, any scalar. See reference.hpp.

#include "heed/core/config.hpp"

#include <cmath>
#include <limits>
#include <type_traits>

#include "heed/attention/backward_plan.hpp"
#include "heed/attention/detail/reference_scores.hpp"
#include "heed/core/float_bits.hpp"

namespace heed::reference {

/// Applies the transpose of the rotation of turned_element to all heads of each row: takes gradients back
/// through it.
template <class T>
void turn_back(const MatrixView<T>& x, Index head_dim, const Rotary& rotary, Index first_row, Index rows,
               Index first_position) {
  using std::cos;
  using std::sin;
  const Index pairs = rotary.rotary_dim() / 2;
  const bool half_split = rotary.layout() == RotaryLayout::half_split;
  for (Index row = 0; row < rows; ++row) {
    for (Index col = 0; col < x.cols; col += head_dim) {
      for (Index pair = 0; pair < pairs; ++pair) {
        const T angle = T(rotary.angle(first_position + row, pair));
        T& first = x(first_row + row, col + (half_split ? pair : 2 * pair));
        T& second = x(first_row + row, col + (half_split ? pair + pairs : 2 * pair + 1));
        const T a = first;
        const T b = second;
        first = a * cos(angle) + b * sin(angle);
        second = b * cos(angle) - a * sin(angle);
      }
    }
  }
}

template <class T>
void set_zero(const MatrixView<T>& x) {
  for (Index i = 0; i < x.rows; ++i) {
    for (Index j = 0; j < x.cols; ++j) x(i, j) = T(0);
  }
}

/// Returns true if grad_out is 0 for a row and head: nothing depends on them, and whatever their query and
/// out hold is left out. A scalar that carries derivatives may have some beside a value of 0, so that there
/// only what would be NaN is left out.
template <class T>
bool adds_nothing(const AttentionBackwardTensors<T>& tensors, Index row, Index head, Index head_dim,
                  Index value_dim) {
  for (Index c = 0; c < value_dim; ++c) {
    if (!(tensors.grad_out(row, head * value_dim + c) == T(0))) return false;
  }
  if constexpr (std::is_floating_point_v<T>) return true;
  T sum = tensors.logsumexp(row, head);
  for (Index c = 0; c < value_dim; ++c) sum += tensors.out(row, head * value_dim + c);
  for (Index c = 0; c < head_dim; ++c) sum += tensors.query(row, head * head_dim + c);
  return !(sum - sum == T(0));
}

/// Computes the gradients of attention() by the chain rule, one row after another (Dao et al. 2022, appendix
/// B.2). The tensors are as check_backward_tensors wants them.
template <class T>
void attention_backward(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
                        const AttentionBackwardTensors<T>& tensors) {
  using std::exp;
  const MaskSizes sizes = shape.mask_sizes();
  const Index d = shape.head_dim;
  const Index dv = shape.value_dim;
  set_zero(tensors.grad_query);
  set_zero(tensors.grad_key);
  set_zero(tensors.grad_value);
  set_zero(tensors.grad_sinks);
  for (Index n = 0; n < tensors.num_grad_biases; ++n) set_zero(tensors.grad_biases[n]);
  if (shape.query_rows() == 0) return;  // sequences of nothing, however many
  RowScores<T> scores(shape, mask, options, tensors.query, tensors.key);

  for (Index batch = 0; batch < shape.batch_size; ++batch) {
    const Index kv_len = shape.kv_len_of(batch);
    const Index key_start = shape.kv_start(batch);
    for (Index head = 0; head < shape.num_heads; ++head) {
      const Index kv_head = head / (shape.num_heads / shape.num_kv_heads);
      for (Index i = 0; i < shape.query_len_of(batch); ++i) {
        const Index row = shape.query_start(batch) + i;
        if (adds_nothing(tensors, row, head, d, dv)) continue;
        scores.compute(batch, head, i);
        const T logsumexp = tensors.logsumexp(row, head);
        // The mean of the gradients of the weights, weighted with them: sum_j P_ij grad_P_ij = out_i .
        // grad_out_i
        T delta = T(0);
        for (Index c = 0; c < dv; ++c)
          delta += tensors.out(row, head * dv + c) * tensors.grad_out(row, head * dv + c);
        bool sees_any = false;

        for (Index j = 0; j < kv_len; ++j) {
          if (!scores.sees(j)) continue;
          sees_any = true;
          const Index key_row = key_start + j;
          const T weight = exp(scores.score(j) - (detail::is_minus_infinity(logsumexp) ? T(0) : logsumexp));
          // out_i = sum_j P_ij value_j
          T grad_weight = T(0);
          for (Index c = 0; c < dv; ++c) {
            grad_weight += tensors.grad_out(row, head * dv + c) * tensors.value(key_row, kv_head * dv + c);
            if (!tensors.grad_value.empty())
              tensors.grad_value(key_row, kv_head * dv + c) += weight * tensors.grad_out(row, head * dv + c);
          }
          // P_ij = exp(S_ij) / sum_k exp(S_ik)
          T grad_score = weight * (grad_weight - delta);
          Index n = 0;
          for (const MaskMatrix& matrix : mask.matrices()) {
            if (matrix.kind != MaskMatrix::Kind::bias || n >= tensors.num_grad_biases) continue;
            if (!tensors.grad_biases[n].empty()) {
              const Index block_rows = matrix.block_rows(sizes);
              const Index block = matrix.block_of(sizes, batch, head);
              tensors.grad_biases[n](block * block_rows + (block_rows > 1 ? i : 0), j) += grad_score;
            }
            ++n;
          }
          // S_ij = softcap tanh(scale query_i . key_j / softcap)
          if (scores.softcap() > T(0)) {
            const T tangent = scores.capped(j) / scores.softcap();
            grad_score *= T(1) - tangent * tangent;
          }
          grad_score *= scores.scale();
          for (Index k = 0; k < d; ++k) {
            if (!tensors.grad_query.empty())
              tensors.grad_query(row, head * d + k) += grad_score * scores.key()(key_row, kv_head * d + k);
            if (!tensors.grad_key.empty())
              tensors.grad_key(key_row, kv_head * d + k) += grad_score * scores.query()(row, head * d + k);
          }
        }
        if (!tensors.grad_sinks.empty() && sees_any) {
          tensors.grad_sinks(0, head) -=
              exp(T(options.sinks[static_cast<std::size_t>(head)]) - logsumexp) * delta;
        }
      }
    }
  }
  if (!options.rotary) return;
  for (Index batch = 0; batch < shape.batch_size; ++batch) {
    const Index query_len = shape.query_len_of(batch);
    const Index kv_len = shape.kv_len_of(batch);
    if (!tensors.grad_query.empty()) {
      turn_back(tensors.grad_query, d, *options.rotary, shape.query_start(batch), query_len,
                scores.query_offset(batch));
    }
    if (!tensors.grad_key.empty())
      turn_back(tensors.grad_key, d, *options.rotary, shape.kv_start(batch), kv_len, 0);
  }
}

}  // namespace heed::reference
