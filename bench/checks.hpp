#pragma once

// Nothing is timed whose result was not looked at.

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "problem.hpp"

namespace heed::bench {

/// What rounding explains for the inputs of a Problem.
template <class T>
inline constexpr long double largest_error = 100 *
                                             static_cast<long double>(std::numeric_limits<T>::epsilon());

template <class T>
double require_small(const Cell& cell, long double error) {
  if (!(error <= largest_error<T>)) {
    throw std::runtime_error(cell.name + " gives a wrong result: error " +
                             std::to_string(static_cast<double>(error)));
  }
  return static_cast<double>(error);
}

template <class T>
Matrix<T> result_of(Problem<T>& problem, Contender contender) {
  problem.forget();
  problem.run(contender);
  if (contender == Contender::col_major) return problem.col_out();
  return problem.out();
}

/// Of one row of one head, against attention in long double.
template <class T>
long double attention_error(const Problem<T>& problem, const Matrix<T>& out, Index sequence, Index head,
                            Index row) {
  const Cell& cell = problem.cell();
  const Index kv_head = head / (cell.heads / cell.kv_heads);
  const auto block = [](const Matrix<T>& m, Index top, Index rows, Index head_index, Index cols) {
    return Matrix<long double>(m.block(top, head_index * cols, rows, cols).template cast<long double>());
  };
  const Matrix<long double> query =
      block(problem.query(), problem.start_of(sequence) + row, 1, head, cell.head_dim);
  // As many keys as queries, or a single query.
  const Index kv_len = problem.kv_length_of(sequence);
  const Index first_key = cell.lengths.empty() ? sequence * kv_len : problem.start_of(sequence);
  const Matrix<long double> key = block(problem.key(), first_key, kv_len, kv_head, cell.head_dim);
  const Matrix<long double> value = block(problem.value(), first_key, kv_len, kv_head, cell.value_dim);
  Matrix<long double> exact(1, cell.value_dim);
  AttentionTensors<long double> tensors;
  tensors.query = view(query);
  tensors.key = view(key);
  tensors.value = view(value);
  tensors.out = mutable_view(exact);
  const Mask mask = Problem<T>::mask_of(cell) & query_offset(row);
  reference::attention({1, 1, 1, 1, kv_len, cell.head_dim, cell.value_dim}, mask, {}, tensors);
  return (block(out, problem.start_of(sequence) + row, 1, head, cell.value_dim) - exact)
      .cwiseAbs()
      .maxCoeff();
}

/// Of the gradients of one head of one sequence, against long double. As many key/value heads as query heads.
template <class T>
long double gradient_error(const Problem<T>& problem, const Matrix<T>& grads, Index sequence, Index head) {
  using Wide = Matrix<long double>;
  const Cell& cell = problem.cell();
  const Index rows = cell.query_len;
  const Index dim = cell.head_dim;
  const auto block = [&](const Matrix<T>& m, Index first_head) {
    return Wide(m.block(sequence * rows, (first_head + head) * dim, rows, dim).template cast<long double>());
  };
  const Wide query = block(problem.query(), 0);
  const Wide key = block(problem.key(), 0);
  const Wide value = block(problem.value(), 0);
  const auto forward = scaled_dot_product_attention_with_logsumexp(query, key, value, {.mask = causal()});
  const auto exact = scaled_dot_product_attention_backward(query, key, value, forward,
                                                           block(problem.grad_out(), 0), {.mask = causal()});
  const auto error = [&](Index part, const Wide& truth) {
    return (block(grads, part * cell.heads) - truth).cwiseAbs().maxCoeff();
  };
  return std::max({error(0, exact.query), error(1, exact.key), error(2, exact.value)});
}

/// Of one row of a product, against long double.
template <class T>
long double product_error(const Problem<T>& problem, const Matrix<T>& out, Index row) {
  const Matrix<long double> exact =
      problem.x().row(row).template cast<long double>() * problem.w().template cast<long double>();
  return (out.row(row).template cast<long double>() - exact).cwiseAbs().maxCoeff();
}

/// Largest error of Heed: against long double on some rows, for a layer against the naive loops in full.
/// Throws if it is beyond what rounding explains.
template <class T>
double check_heed(Problem<T>& problem) {
  const Cell& cell = problem.cell();
  const Matrix<T> out = result_of(problem, Contender::heed);
  if (cell.d_model > 0) {
    // Of its own scalar: a layer is small enough wherever it is measured.
    return require_small<T>(cell, (out - result_of(problem, Contender::naive)).cwiseAbs().maxCoeff());
  }
  if (cell.gradients) {
    return require_small<T>(cell, std::max(gradient_error(problem, out, 0, 0),
                                           gradient_error(problem, out, cell.batch - 1, cell.heads - 1)));
  }
  long double worst = 0;
  for (const Index row : {Index{0}, cell.query_len / 3, cell.query_len / 2, cell.query_len - 1}) {
    if (cell.cols > 0) {
      worst = std::max(worst, product_error(problem, out, row));
    } else {
      for (const auto& [sequence, head] : {std::pair{Index{0}, Index{0}}, {cell.batch - 1, cell.heads - 1}}) {
        const Index own = std::min(row, problem.length_of(sequence) - 1);
        worst = std::max(worst, attention_error(problem, out, sequence, head, own));
      }
    }
  }
  return require_small<T>(cell, worst);
}

/// The other contenders must solve the same problem, and Heed called otherwise must give the same bits.
/// Returns how far they are from Heed.
template <class T>
double check_rival(Problem<T>& problem, Contender rival) {
  const Matrix<T> heed = result_of(problem, Contender::heed);
  const Matrix<T> out = result_of(problem, rival);
  const bool is_heed =
      rival == Contender::heed_call || rival == Contender::col_major || rival == Contender::matrices;
  if (is_heed && heed != out)
    throw std::runtime_error(problem.cell().name + " has other bits as " + name_of(rival));
  if (rival == Contender::bfloat16) {
    // Keys and values are rounded to 8 bits: a mean of values of size 1 is off by no more.
    const auto error = static_cast<double>((heed - out).cwiseAbs().maxCoeff());
    if (!(error <= 0x1p-8)) throw std::runtime_error(problem.cell().name + " is wrong as bfloat16");
    return error;
  }
  return require_small<T>(problem.cell(), (heed - out).cwiseAbs().maxCoeff());
}

}  // namespace heed::bench
