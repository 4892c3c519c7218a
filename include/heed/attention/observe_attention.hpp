#pragma once

// What people want of attention weights without the query_len x kv_len matrix:
//
//   heed::TopWeights<float> top(5);
//   heed::ColumnSums<float> sums;
//   Eigen::MatrixXf out = heed::observe_attention(q, k, v, {.mask = heed::causal()}, {&top, &sums});

#include "heed/core/config.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "heed/attention/scaled_dot_product_attention.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/core/kept_exception.hpp"

namespace heed {

/// The k largest weights of every row and the keys that have them, the largest first; among equals the
/// earlier key first, NaN before all numbers. A row with fewer weights above 0 is filled with weight 0 and
/// key -1. Memory: k numbers and k indices for each row.
template <class T>
class TopWeights final : public WeightsObserver<T> {
 public:
  Matrix<T> weights;   ///< (batch_size * num_heads * query_len) x k, stacked as AttentionWeights.
  Matrix<Index> keys;  ///< The position of each weight's key, in the layout of weights.

  /// Throws ArgumentError if k is negative.
  explicit TopWeights(Index k) : k_(k) {
    if (k < 0) throw_argument_error("k is " + std::to_string(k) + ", it must not be negative");
  }

  void prepare(const AttentionShape& shape) override {
    shape_ = shape;
    weights.setZero(shape.query_rows() * shape.num_heads, k_);
    keys.setConstant(shape.query_rows() * shape.num_heads, k_, Index{-1});
  }

  void take(const WeightsTile<T>& tile) noexcept override {
    for (Index i = 0; i < tile.weights.rows; ++i) {
      const Index row = shape_.stacked_row(tile.sequence, tile.head, tile.first_query + i);
      for (Index j = 0; j < tile.weights.cols; ++j) insert(row, tile.weights(i, j), tile.first_key + j);
    }
  }

 private:
  static bool before(T a, T b) {
    using detail::is_nan;
    return is_nan(a) ? !is_nan(b) : a > b;
  }

  void insert(Index row, T weight, Index key) noexcept {
    if (k_ == 0 || (weight == T(0) && !detail::is_nan(weight)) || !before(weight, weights(row, k_ - 1)))
      return;
    Index at = k_ - 1;
    for (; at > 0 && before(weight, weights(row, at - 1)); --at) {
      weights(row, at) = weights(row, at - 1);
      keys(row, at) = keys(row, at - 1);
    }
    weights(row, at) = weight;
    keys(row, at) = key;
  }

  Index k_;
  AttentionShape shape_;
};

/// For every key the sum of its weights over all queries: how much each token is looked at, by which a cache
/// evicts (Zhang et al. 2023, "H2O"). Has the same bits for any number of threads.
template <class T>
class ColumnSums final : public WeightsObserver<T> {
 public:
  Matrix<T> sums;  ///< (batch_size * num_heads) x kv_len.

  void prepare(const AttentionShape& shape) override {
    num_heads_ = shape.num_heads;
    sums.setZero(shape.batch_size * shape.num_heads, shape.kv_len);
  }
  bool in_order() const noexcept override { return true; }

  void take(const WeightsTile<T>& tile) noexcept override {
    T* const row = &sums(tile.sequence * num_heads_ + tile.head, tile.first_key);
    for (Index i = 0; i < tile.weights.rows; ++i) {
      for (Index j = 0; j < tile.weights.cols; ++j) row[j] += tile.weights(i, j);
    }
  }

 private:
  Index num_heads_ = 0;
};

/// The whole rows of weights of chosen heads and queries, chosen alike for every sequence that has them.
template <class T>
class SelectedWeights final : public WeightsObserver<T> {
 public:
  Matrix<T> weights;  ///< (batch_size * heads * queries) x kv_len, in the order in which they were named.

  SelectedWeights(std::vector<Index> heads, std::vector<Index> queries)
      : heads_(std::move(heads)), queries_(std::move(queries)) {}

  /// Throws RangeError if a head or query does not exist.
  void prepare(const AttentionShape& shape) override {
    const auto require_below = [](const std::vector<Index>& all, Index count, const char* what) {
      for (const Index i : all) {
        if (i < 0 || i >= count) {
          throw_range_error(std::string(what) + " " + std::to_string(i) + " is selected, there are " +
                            std::to_string(count));
        }
      }
    };
    require_below(heads_, shape.num_heads, "head");
    require_below(queries_, shape.query_len, "query");
    weights.setZero(shape.batch_size * size(heads_) * size(queries_), shape.kv_len);
  }

  bool wants(Index, Index head, Index first_query, Index num_queries) const noexcept override {
    if (std::find(heads_.begin(), heads_.end(), head) == heads_.end()) return false;
    return std::any_of(queries_.begin(), queries_.end(), [&](Index query) {
      return query >= first_query && query < first_query + num_queries;
    });
  }

  void take(const WeightsTile<T>& tile) noexcept override {
    for (Index h = 0; h < size(heads_); ++h) {
      if (heads_[static_cast<std::size_t>(h)] != tile.head) continue;
      for (Index q = 0; q < size(queries_); ++q) {
        const Index i = queries_[static_cast<std::size_t>(q)] - tile.first_query;
        if (i < 0 || i >= tile.weights.rows) continue;
        const Index row = (tile.sequence * size(heads_) + h) * size(queries_) + q;
        for (Index j = 0; j < tile.weights.cols; ++j) weights(row, tile.first_key + j) = tile.weights(i, j);
      }
    }
  }

 private:
  static Index size(const std::vector<Index>& v) { return static_cast<Index>(v.size()); }

  std::vector<Index> heads_;
  std::vector<Index> queries_;
};

/// Calls f(const WeightsTile<T>&) for every tile that is not 0 throughout, from the threads that compute. The
/// first exception ends the calls; rethrow() throws it on, and observe_attention() calls that.
template <class T, class F>
class WeightsCallback final : public WeightsObserver<T> {
 public:
  explicit WeightsCallback(F f) : f_(std::move(f)) {}

  void prepare(const AttentionShape&) override {
    kept_.reset();  // an exception of an earlier run that was not asked for
  }
  void take(const WeightsTile<T>& tile) noexcept override {
    kept_.guard([&] { f_(tile); });
  }
  void rethrow() override { kept_.rethrow(); }

 private:
  F f_;
  detail::KeptException kept_;
};

template <class T, class F>
WeightsCallback<T, F> weights_callback(F f) {
  return WeightsCallback<T, F>(std::move(f));
}

/// Returns scaled_dot_product_attention() and hands its weights to observers; out has the same bits as
/// without them. Time: the scores are computed a second time for the tiles that an observer wants. Errors,
/// memory and threads are as for scaled_dot_product_attention(); what the observers' prepare() and rethrow()
/// throw is thrown on.
template <class Q, class K, class V>
Matrix<typename Q::Scalar> observe_attention(
    const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key, const Eigen::DenseBase<V>& value,
    const AttentionOptions& options, std::initializer_list<WeightsObserver<typename Q::Scalar>*> observers) {
  using Scalar = typename Q::Scalar;
  AttentionTensors<Scalar> tensors = detail::input_tensors(query, key, value);
  const AttentionShape shape = detail::checked_shape(tensors, options);
  Matrix<Scalar> out(query.rows(), shape.num_heads * shape.value_dim);
  tensors.out = mutable_view(out);
  tensors.observers = observers.begin();
  tensors.num_observers = static_cast<Index>(observers.size());
  detail::run_attention(shape, options, tensors);
  for (WeightsObserver<Scalar>* observer : observers) observer->rethrow();
  return out;
}

}  // namespace heed
