#pragma once

// Attention that can be worked out by hand: with keys of zero all scores are equal, and each row of the
// result is the mean of the values that its query sees. Values of 1, 2, 4, 8 ... tell from the mean which
// ones these are.

#include <cmath>
#include <initializer_list>
#include <vector>

#include "heed/heed.hpp"
#include "helpers.hpp"

namespace heed::test {

template <class Scalar = double>
Matrix<Scalar> column(const std::vector<Scalar>& values) {
  Matrix<Scalar> m(static_cast<Index>(values.size()), 1);
  for (std::size_t i = 0; i < values.size(); ++i) m(static_cast<Index>(i), 0) = values[i];
  return m;
}

/// The elements of a matrix, row by row, up to rounding.
template <class Derived>
bool holds(const Eigen::DenseBase<Derived>& matrix, const std::vector<double>& expected,
           double tolerance = 1e-12) {
  const Matrix<typename Derived::Scalar> m = matrix;
  if (m.size() != static_cast<Index>(expected.size())) return false;
  for (Index i = 0; i < m.size(); ++i) {
    const double element = static_cast<double>(m.data()[i]);
    if (!(std::abs(element - expected[static_cast<std::size_t>(i)]) <= tolerance)) return false;
  }
  return true;
}

struct EqualScores {
  AttentionOptions options;
  Matrix<double> query, key, value, out;

  /// Queries of one, keys of zero, two columns for each head, values of one column.
  void prepare(Index queries, const std::vector<double>& values) {
    query = Matrix<double>::Ones(queries, 2 * options.num_heads);
    value = column(values);
    key = Matrix<double>::Zero(value.rows(), 2);
    if (!options.num_kv_heads) options.num_kv_heads = 1;
  }

  /// The means of the values that each query sees, a column for each head.
  Matrix<double> means(Index queries, const std::vector<double>& values) {
    prepare(queries, values);
    return scaled_dot_product_attention(query, key, value, options);
  }
};

/// One query at position 1 and one key at position 0, scale 1: the logsumexp is the score.
inline double score_of(const std::vector<double>& query, const std::vector<double>& key,
                       AttentionOptions options) {
  options.mask = options.mask & query_offset(1);
  if (!options.scale) options.scale = 1;
  const Matrix<double> q = column(query).transpose();
  const Matrix<double> k = column(key).transpose();
  return scaled_dot_product_attention_with_weights(q, k, column<double>({1}), options).logsumexp(0, 0);
}

}  // namespace heed::test
