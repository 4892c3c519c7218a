// Scores that overflow, made from finite numbers: one of -inf hides its key, one of +inf makes its row NaN,
// on every path.

#include <algorithm>
#include <functional>

#include "catch.hpp"
#include "heed/attention/backward.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/attention/detail/reference_backward.hpp"
#include "heed/attention/flex_attention.hpp"
#include "heed/attention/merge_attention.hpp"
#include "heed/attention/observe_attention.hpp"
#include "heed/attention/reference.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

// Three tiles of float, five of double; rows of several register tiles.
constexpr Index kQueries = 15;
constexpr Index kKeys = 520;
constexpr Index kDim = 5;

template <class T>
const T kLargest = std::numeric_limits<T>::max();

/// What a row of the problem is.
enum class Row { normal, some_hidden, nothing_seen, tile_unseen, all_but_last_hidden };

Row kind_of(Index row) {
  return static_cast<Row>(row % 5);
}

/// Whether the score of a key is to be -inf for a row.
bool hidden(Index row, Index key) {
  switch (kind_of(row)) {
    case Row::normal:
      return key == 99;  // from everybody
    case Row::some_hidden:
      return key % 3 == 1 || key == 99;
    case Row::nothing_seen:
      return true;
    case Row::tile_unseen:
      return key < 300;
    case Row::all_but_last_hidden:
      break;
  }
  return key != kKeys - 1;
}

/// One problem whose scores overflow, and the same one with a mask in their place.
template <class T>
struct Overflowing {
  AttentionShape shape{1, 1, 1, kQueries, kKeys, kDim, kDim};
  Inputs<T> in;
  Matrix<T> grad_out;
  Matrix<T> added = Matrix<T>::Zero(kQueries, kKeys);
  Matrix<T> masked = Matrix<T>::Zero(kQueries, kKeys);
  AttentionOptions overflow;  // added twice
  AttentionOptions mask;      // -inf in a bias

  explicit Overflowing(T extreme) {
    in = random_inputs<double>(shape, 1).template cast<T>();
    grad_out = random_matrix<double>(kQueries, kDim, 4).template cast<T>();
    for (Index i = 0; i < kQueries; ++i) {
      for (Index j = 0; j < kKeys; ++j) {
        if (hidden(i, j)) added(i, j) = extreme;
        if (hidden(i, j)) masked(i, j) = -kInf<T>;
      }
    }
    overflow.mask = bias(added) & bias(added);
    mask.mask = bias(masked);
  }
  Overflowing(const Overflowing&) = delete;  // the masks point into this object
  Overflowing& operator=(const Overflowing&) = delete;
};

/// Number by number: long double has bytes that mean nothing, and the loops promise nothing of NaN.
template <class A, class B>
bool same_numbers(const A& a, const B& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  return ((a.array() == b.array()) || (a.array().isNaN() && b.array().isNaN())).all();
}

template <class T>
bool same_results(const AttentionResult<T>& a, const AttentionResult<T>& b) {
  if (has_kernels<T> && !same_bits(a.out, b.out)) return false;
  return same_numbers(a.out, b.out) && same_numbers(a.weights.stacked, b.weights.stacked) &&
         same_numbers(a.logsumexp, b.logsumexp);
}

template <class T>
AttentionResult<T> on_loops(const Overflowing<T>& p, const AttentionOptions& options) {
  AttentionResult<T> result;
  result.out.resize(kQueries, kDim);
  result.logsumexp.resize(kQueries, 1);
  result.weights.resize(p.shape);
  AttentionTensors<T> tensors = detail::input_tensors(p.in.query, p.in.key, p.in.value);
  tensors.out = mutable_view(result.out);
  tensors.weights = mutable_view(result.weights.stacked);
  tensors.logsumexp = mutable_view(result.logsumexp);
  reference::attention(p.shape, options.mask, detail::score_options(options), tensors);
  return result;
}

template <class T>
AttentionResult<T> on_path(const Overflowing<T>& p, const AttentionOptions& options) {
  return scaled_dot_product_attention_with_weights(p.in.query, p.in.key, p.in.value, options);
}

template <class T>
AttentionGradients<T> gradients(const Overflowing<T>& p, const AttentionOptions& options,
                                Executor* executor) {
  const auto forward = on_path(p, options);
  AttentionOptions own = options;
  own.executor = executor;
  return scaled_dot_product_attention_backward(p.in.query, p.in.key, p.in.value, forward, p.grad_out, own);
}

template <class T>
bool same_gradients(const AttentionGradients<T>& a, const AttentionGradients<T>& b) {
  return same_numbers(a.query, b.query) && same_numbers(a.key, b.key) && same_numbers(a.value, b.value) &&
         (a.biases.empty() || b.biases.empty() || same_numbers(a.biases[0], b.biases[0])) &&
         same_numbers(a.sinks, b.sinks);
}

}  // namespace

TEMPLATE_TEST_CASE("a key whose score overflows to -inf is hidden, and a row of such keys sees none",
                   "[overflow][mask][sinks][nan][weights]", float, double, long double) {
  using T = TestType;
  Overflowing<T> p(T(-0.9L * static_cast<long double>(kLargest<T>)));
  for (const bool with_sinks : {false, true}) {
    if (with_sinks) p.overflow.sinks = p.mask.sinks = {0.5};
    for (const bool poisoned : {false, true}) {
      // Hidden from every row.
      if (poisoned) p.in.value.row(99).setConstant(kNaN<T>);
      const AttentionResult<T> result = on_path(p, p.overflow);
      CAPTURE(with_sinks, poisoned);
      REQUIRE(same_results(result, on_path(p, p.mask)));
      REQUIRE(same_results(on_loops(p, p.overflow), on_loops(p, p.mask)));
      REQUIRE(result.out.allFinite());
      for (Index i = 0; i < kQueries; ++i) {
        for (Index j = 0; j < kKeys; ++j) REQUIRE((result.weights.head(0)(i, j) == T(0)) == hidden(i, j));
        if (kind_of(i) != Row::nothing_seen) continue;
        REQUIRE(result.out.row(i).isZero(0));
        REQUIRE(result.logsumexp(i, 0) == (with_sinks ? T(0.5) : -kInf<T>));
      }
    }
    p.in.value.row(99).setOnes();
  }
}

TEMPLATE_TEST_CASE("observers, functors, single rows, threads and plain scores agree on what overflows",
                   "[overflow][cache][threads]", float, double) {
  using T = TestType;
  Overflowing<T> p(T(-0.9) * kLargest<T>);
  const AttentionResult<T> expected = on_path(p, p.mask);
  ThreadPool pool(3);
  p.overflow.executor = &pool;
  REQUIRE(same_results(expected, on_path(p, p.overflow)));
  p.overflow.executor = nullptr;
  std::vector<Index> all(kQueries);
  for (Index i = 0; i < kQueries; ++i) all[static_cast<std::size_t>(i)] = i;
  SelectedWeights<T> selected({0}, all);
  REQUIRE(
      same_bits(expected.out, observe_attention(p.in.query, p.in.key, p.in.value, p.overflow, {&selected})));
  REQUIRE(same_bits(expected.weights.stacked, selected.weights));

  KvCache<T> cache({1, 1, kDim, kDim, kKeys});
  cache.append(p.in.key, p.in.value);
  REQUIRE(same_bits(expected.out, scaled_dot_product_attention(p.in.query, cache, p.overflow)));
  for (Index i = 0; i < kQueries; ++i) {
    const Matrix<T> row = p.added.row(i);
    REQUIRE(same_bits(expected.out.row(i), scaled_dot_product_attention(p.in.query.row(i), cache,
                                                                        {.mask = bias(row) & bias(row)})));
  }

  const auto twice = [&](T score, Index, Index, Index i, Index j) {
    return score + p.added(i, j) + p.added(i, j);
  };
  AttentionOptions stand;
  stand.mask = top_left();
  for (const bool poisoned : {false, true}) {
    if (poisoned) p.in.value.row(99).setConstant(kInf<T>);
    REQUIRE(same_bits(expected.out, flex_attention(p.in.query, p.in.key, p.in.value, twice, {}, stand)));
  }
}

TEMPLATE_TEST_CASE("a product of query and key that overflows to -inf hides the key, whatever else it holds",
                   "[overflow][mask]", float, double, long double) {
  using T = TestType;
  // Rows with this element against keys with its negative: their product is beyond the type.
  const T large = std::sqrt(kLargest<T>) * T(4);
  Overflowing<T> p(T(0));
  p.overflow.mask = Mask();
  p.in.query.col(0).setZero();
  p.in.key.col(0).setZero();
  const auto is_large = [](Index i) { return i % 3 == 1; };
  for (Index i = 0; i < kQueries; ++i) {
    if (is_large(i)) p.in.query(i, 0) = large;
    p.masked.row(i).setZero();
  }
  for (const bool all_keys : {false, true}) {
    for (Index j = 0; j < kKeys; ++j) {
      if (all_keys || j % 7 == 2) p.in.key(j, 0) = -large;
      for (Index i = 0; i < kQueries; ++i)
        p.masked(i, j) = is_large(i) && p.in.key(j, 0) != 0 ? -kInf<T> : T(0);
    }
    for (const bool poisoned : {false, true}) {
      CAPTURE(all_keys, poisoned);
      const Matrix<T> value = p.in.value;
      const Matrix<T> grad_out = p.grad_out;
      if (poisoned) {
        // A row that sees none of the keys: what it is given reaches nobody. The others see the NaN.
        p.in.value(9, 1) = kNaN<T>;
        p.in.value(256, 3) = kInf<T>;
        if (all_keys) p.grad_out.row(4).setConstant(kNaN<T>);
      }
      REQUIRE(same_results(on_path(p, p.overflow), on_path(p, p.mask)));
      REQUIRE(same_results(on_loops(p, p.overflow), on_loops(p, p.mask)));
      const AttentionGradients<T> overflow = gradients(p, p.overflow, nullptr);
      const AttentionGradients<T> mask = gradients(p, p.mask, nullptr);
      REQUIRE(same_gradients(overflow, mask));
      if (all_keys) REQUIRE(overflow.query.row(4).isZero(0));
      p.in.value = value;
      p.grad_out = grad_out;
    }
  }
}

TEMPLATE_TEST_CASE("gradients with keys that an overflow hides are those of a mask of -inf",
                   "[overflow][mask][threads][sinks][gradient][nan]", float, double, long double) {
  using T = TestType;
  Overflowing<T> p(T(-0.9L * static_cast<long double>(kLargest<T>)));
  ThreadPool pool(7);
  for (const bool with_sinks : {false, true}) {
    if (with_sinks) p.overflow.sinks = p.mask.sinks = {0.5};
    for (const bool poisoned : {false, true}) {
      if (poisoned) {
        p.in.value.row(99).setConstant(kInf<T>);
        p.grad_out.row(2).setConstant(kNaN<T>);  // a row that sees nothing
      }
      for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
        CAPTURE(with_sinks, poisoned, executor != nullptr);
        const AttentionGradients<T> overflow = gradients(p, p.overflow, executor);
        REQUIRE(same_gradients(overflow, gradients(p, p.mask, executor)));
        REQUIRE(overflow.query.allFinite());
        REQUIRE(overflow.key.allFinite());
        REQUIRE(overflow.sinks.allFinite());
        REQUIRE(overflow.query.row(2).isZero(0));
        REQUIRE(overflow.value.row(99).isZero(0));
      }
    }
    p.in.value.row(99).setOnes();
    p.grad_out.row(2).setOnes();
  }
}

TEMPLATE_TEST_CASE("a score of +inf makes its row NaN, in weights, logsumexp and gradients, and no other",
                   "[overflow][gradient][nan][weights][logsumexp]", float, double, long double) {
  using T = TestType;
  Overflowing<T> p(T(0));
  p.added = p.masked;
  Matrix<T> more = Matrix<T>::Zero(kQueries, kKeys);
  p.overflow.mask = bias(p.added) & bias(more);
  const AttentionResult<T> clean = on_path(p, p.overflow);
  const AttentionGradients<T> clean_gradients = gradients(p, p.overflow, nullptr);
  const Index key = kKeys - 1;
  for (const bool from_bias : {false, true}) {
    for (const Index row : {Index{1}, Index{6}}) {
      const T finite = T(0.9L * static_cast<long double>(kLargest<T>));
      more(row, key) = from_bias ? kInf<T> : finite;
      if (!from_bias) p.added(row, key) = finite;
      CAPTURE(from_bias, row);
      for (const AttentionResult<T>& result : {on_path(p, p.overflow), on_loops(p, p.overflow)}) {
        for (Index i = 0; i < kQueries; ++i) REQUIRE(result.out.row(i).array().isNaN().all() == (i == row));
        REQUIRE(std::isnan(result.logsumexp(row, 0)));
        for (Index j = 0; j < kKeys; ++j) {
          const T weight = result.weights.head(0)(row, j);
          REQUIRE((p.added(row, j) == -kInf<T> ? weight == T(0) : std::isnan(weight)));
        }
      }
      const AttentionResult<T> result = on_path(p, p.overflow);
      const AttentionGradients<T> grads = gradients(p, p.overflow, nullptr);
      for (Index i = 0; i < kQueries; ++i) {
        if (i == row) {
          REQUIRE(grads.query.row(i).array().isNaN().all());
          continue;
        }
        REQUIRE(same_numbers(result.out.row(i), clean.out.row(i)));
        REQUIRE(same_numbers(grads.query.row(i), clean_gradients.query.row(i)));
      }
      for (Index j = 0; j < kKeys; ++j) {
        const bool seen = p.added(row, j) != -kInf<T>;
        REQUIRE(grads.key.row(j).array().isNaN().all() == seen);
        REQUIRE(grads.value.row(j).array().isNaN().all() == seen);
      }
      more(row, key) = T(0);
      p.added(row, key) = T(0);
    }
  }
}

TEMPLATE_TEST_CASE("parts merge as the whole: one that saw nothing changes nothing, NaN stays",
                   "[overflow][nan]", float, double) {
  using T = TestType;
  Overflowing<T> p(T(-0.9) * kLargest<T>);
  const Matrix<T> expected = on_path(p, p.overflow).out;
  AttentionResult<T> merged;
  for (Index first = 0; first < kKeys; first += 130) {
    const Matrix<T> part = p.added.middleCols(first, 130);
    const auto result = scaled_dot_product_attention_with_logsumexp(
        p.in.query, p.in.key.middleRows(first, 130), p.in.value.middleRows(first, 130),
        {.mask = bias(part) & bias(part)});
    if (first == 0) {
      merged = result;
    } else {
      merge_attention(merged, result);
    }
  }
  for (Index i = 0; i < kQueries; ++i) {
    if (kind_of(i) == Row::nothing_seen) {
      CHECK(merged.out.row(i).isZero(0));
      CHECK(merged.logsumexp(i, 0) == -kInf<T>);
    } else {
      CHECK((merged.out.row(i) - expected.row(i)).cwiseAbs().maxCoeff() <
            20 * std::numeric_limits<T>::epsilon());
    }
  }
  for (const bool first : {false, true}) {
    AttentionResult<T> good = merged;
    AttentionResult<T> bad = merged;
    bad.out.setConstant(kNaN<T>);
    bad.logsumexp.setConstant(kNaN<T>);
    AttentionResult<T>& result = first ? bad : good;
    merge_attention(result, first ? good : bad);
    for (Index i = 0; i < kQueries; ++i) CHECK(std::isnan(result.out(i, 0)));
  }
}

TEMPLATE_TEST_CASE("a softcap takes scores that overflow for its own ends", "[overflow][softcap]", float,
                   double, long double) {
  using T = TestType;
  const T large = std::sqrt(kLargest<T>) * T(4);
  Inputs<T> in{Matrix<T>::Constant(1, 1, large), Matrix<T>(2, 1), Matrix<T>(2, 1)};
  in.key << large, -large;
  in.value << T(1), T(0);
  AttentionOptions options;
  options.softcap = 1;
  const T out = scaled_dot_product_attention(in.query, in.key, in.value, options)(0, 0);
  CHECK(std::abs(out - T(1) / (T(1) + std::exp(T(-2)))) <= 4 * std::numeric_limits<T>::epsilon());
}
