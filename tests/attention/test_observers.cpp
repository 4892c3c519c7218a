// Who watches weights sees those of the full matrix, tile by tile, and changes no bit of out.

#include <algorithm>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "catch.hpp"
#include "heed/attention/observe_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// One of everything that observers must get right: tiles, heads that share keys, empty rows, several
/// sequences of unequal length.
template <class T>
struct Watched {
  AttentionShape shape;
  Inputs<T> in;
  AttentionOptions options;

  AttentionResult<T> full() const {
    return scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options);
  }
  Matrix<T> observe(std::initializer_list<WeightsObserver<T>*> observers) const {
    return observe_attention(in.query, in.key, in.value, options, observers);
  }
};

template <class T>
std::vector<Watched<T>> watched() {
  std::vector<Watched<T>> all;
  for (const AttentionShape& s : {AttentionShape{1, 1, 1, 1, 1, 1, 1}, AttentionShape{2, 4, 2, 37, 300, 8, 5},
                                  AttentionShape{1, 2, 1, 310, 270, 16, 16},
                                  AttentionShape{1, 2, 2, 0, 3, 4, 4}, AttentionShape{2, 1, 1, 3, 0, 4, 4}}) {
    for (const Mask& mask : {Mask(), causal() & bottom_right(), window(9, 2) & query_offset(-3)})
      all.push_back({s, random_inputs<T>(s, 1, 2.0), options_for(s, mask)});
  }
  // A ragged batch; one sequence has no keys, one no queries.
  AttentionShape ragged{4, 4, 2, 0, 0, 8, 8};
  ragged.query_starts = {0, 20, 20, 25, 95};
  ragged.kv_starts = {0, 140, 145, 145, 245};
  ragged.query_len = 70;
  ragged.kv_len = 140;
  Watched<T> last{ragged,
                  {random_matrix<T>(95, 32, 2), random_matrix<T>(245, 16, 3), random_matrix<T>(245, 16, 4)},
                  options_for(ragged, causal() & bottom_right())};
  last.options.query_starts = ragged.query_starts;
  last.options.kv_starts = ragged.kv_starts;
  all.push_back(last);
  return all;
}

/// Keeps every tile, from whatever thread it comes.
template <class T>
struct Collector {
  std::mutex mutex;
  Matrix<T> sum;
  Matrix<int> times;
  const Watched<T>* of;

  explicit Collector(const Watched<T>& w)
      : sum(Matrix<T>::Zero(w.shape.query_rows() * w.shape.num_heads, w.shape.kv_len)),
        times(Matrix<int>::Zero(sum.rows(), sum.cols())),
        of(&w) {}

  void take(const WeightsTile<T>& tile) {
    const std::lock_guard lock(mutex);
    for (Index i = 0; i < tile.weights.rows; ++i) {
      const Index row = of->shape.stacked_row(tile.sequence, tile.head, tile.first_query + i);
      for (Index j = 0; j < tile.weights.cols; ++j) {
        sum(row, tile.first_key + j) += tile.weights(i, j);
        ++times(row, tile.first_key + j);
      }
    }
  }
};

}  // namespace

TEMPLATE_TEST_CASE("out has the same bits with observers and without, on any threads",
                   "[observers][threads][bits]", float, double) {
  ThreadPool pool(3);
  for (Watched<TestType>& w : watched<TestType>()) {
    const Matrix<TestType> out = scaled_dot_product_attention(w.in.query, w.in.key, w.in.value, w.options);
    TopWeights<TestType> top(3);
    ColumnSums<TestType> sums;
    SelectedWeights<TestType> none({}, {});
    auto callback = weights_callback<TestType>([](const WeightsTile<TestType>&) {});
    for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
      w.options.executor = executor;
      CHECK(same_bits(out, w.observe({})));
      CHECK(same_bits(out, w.observe({&top})));
      CHECK(same_bits(out, w.observe({&none})));
      CHECK(same_bits(out, w.observe({&top, &sums, &none, &callback})));
    }
  }
}

TEMPLATE_TEST_CASE("a callback gets each weight that is not zero once, with the bits of the full matrix",
                   "[observers][threads][bits]", float, double) {
  ThreadPool pool(4);
  for (Watched<TestType>& w : watched<TestType>()) {
    const Matrix<TestType> full = w.full().weights.stacked;
    for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
      w.options.executor = executor;
      Collector<TestType> collector(w);
      auto callback =
          weights_callback<TestType>([&](const WeightsTile<TestType>& tile) { collector.take(tile); });
      w.observe({&callback});
      CHECK(same_bits(full, collector.sum));
      CHECK((collector.times.array() <= 1).all());
    }
  }
}

TEMPLATE_TEST_CASE("an exception from a callback is thrown on, and the next run is a fresh one",
                   "[observers][threads][errors]", float, double) {
  ThreadPool pool(3);
  const AttentionShape s{2, 2, 2, 60, 60, 8, 8};
  const auto in = random_inputs<TestType>(s, 5);
  for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    AttentionOptions options = options_for(s);
    options.executor = executor;
    bool throws = true;
    auto callback = weights_callback<TestType>([&](const WeightsTile<TestType>& tile) {
      if (throws && tile.head == 1) throw std::runtime_error("no more of head 1");
    });
    ColumnSums<TestType> sums;
    const auto run = [&] {
      (void)observe_attention(in.query, in.key, in.value, options, {&callback, &sums});
    };
    CHECK(message_of<std::runtime_error>(run) == "no more of head 1");
    throws = false;
    CHECK(message_of<std::runtime_error>(run) == "nothing");

    // Two that throw: one exception is thrown on, the other is gone with its run.
    throws = true;
    int tiles = 0;
    auto other = weights_callback<TestType>([&](const WeightsTile<TestType>& tile) {
      if (throws && tile.head == 0) throw std::runtime_error("no more of head 0");
      if (tile.head == 1 && tile.sequence == 0 && tile.first_query == 0 && tile.first_key == 0) ++tiles;
    });
    CHECK(message_of<std::runtime_error>([&] {
            (void)observe_attention(in.query, in.key, in.value, options, {&callback, &other});
          }) == "no more of head 1");
    throws = false;
    tiles = 0;
    CHECK(message_of<std::runtime_error>(
              [&] { (void)observe_attention(in.query, in.key, in.value, options, {&other}); }) == "nothing");
    CHECK(tiles == 1);
  }
}

TEMPLATE_TEST_CASE("top weights are the largest of each row, among equals the earlier key first",
                   "[observers][weights]", float, double) {
  for (const Watched<TestType>& w : watched<TestType>()) {
    const Matrix<TestType> full = w.full().weights.stacked;
    for (const Index k : {Index{0}, Index{1}, Index{4}, Index{50}}) {
      TopWeights<TestType> top(k);
      const Matrix<TestType> out = w.observe({&top});
      REQUIRE(top.weights.rows() == full.rows());
      REQUIRE(top.weights.cols() == k);
      for (Index row = 0; row < full.rows(); ++row) {
        std::vector<Index> order(static_cast<std::size_t>(full.cols()));
        std::iota(order.begin(), order.end(), Index{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](Index a, Index b) { return full(row, a) > full(row, b); });
        for (Index n = 0; n < k; ++n) {
          const bool there = n < full.cols() && full(row, order[static_cast<std::size_t>(n)]) > 0;
          const Index key = there ? order[static_cast<std::size_t>(n)] : -1;
          REQUIRE(top.keys(row, n) == key);
          REQUIRE(top.weights(row, n) == (there ? full(row, key) : TestType(0)));
        }
      }
    }
  }
  CHECK(contains(message_of<ArgumentError>([] { TopWeights<TestType> top(-1); }), "k is -1"));
}

TEMPLATE_TEST_CASE("top weights of ties are the first keys, also beyond a tile, and NaN comes first",
                   "[observers][nan][weights]", float, double) {
  const AttentionShape s{1, 1, 1, 2, 300, 2, 1};
  auto in = random_inputs<TestType>(s, 6);
  in.query.row(0).setZero();  // all weights of row 0 are equal
  in.query.row(1).setConstant(kNaN<TestType>);
  TopWeights<TestType> top(3);
  observe_attention(in.query, in.key, in.value,
                    options_for(s, kv_lengths({290}) & top_left() & window(kUnlimited, 288)), {&top});
  for (Index n = 0; n < 3; ++n) {
    CHECK(top.keys(0, n) == n);
    CHECK(top.weights(0, n) == top.weights(0, 0));
    CHECK(top.keys(1, n) == n);
    CHECK(std::isnan(top.weights(1, n)));
  }
  // Largest last: each new weight moves the others down.
  for (Index j = 0; j < 300; ++j)
    in.key.row(j).setConstant(static_cast<TestType>(0.01 * static_cast<double>(j)));
  in.query.row(0).setOnes();
  observe_attention(in.query, in.key, in.value, options_for(s), {&top});
  for (Index n = 0; n < 3; ++n) CHECK(top.keys(0, n) == 299 - n);
}

TEMPLATE_TEST_CASE("column sums have the same bits for any thread count, and are those of the full weights",
                   "[observers][threads][bits][weights]", float, double) {
  for (Watched<TestType>& w : watched<TestType>()) {
    ColumnSums<TestType> sums;
    w.observe({&sums});
    const Matrix<TestType> alone = sums.sums;
    const auto weights = w.full().weights;
    for (Index threads = 2; threads <= 4; ++threads) {
      ThreadPool pool(threads);
      w.options.executor = &pool;
      w.observe({&sums});
      CHECK(same_bits(alone, sums.sums));
    }
    REQUIRE(alone.rows() == w.shape.batch_size * w.shape.num_heads);
    REQUIRE(alone.cols() == w.shape.kv_len);
    for (Index b = 0; b < w.shape.batch_size; ++b) {
      for (Index h = 0; h < w.shape.num_heads; ++h) {
        const Matrix<long double> head = weights.head(h, b).template cast<long double>();
        for (Index j = 0; j < w.shape.kv_len; ++j) {
          const long double exact = j < head.cols() ? head.col(j).sum() : 0;
          // One rounding of at most the sum for each row.
          const long double allowed =
              static_cast<long double>(head.rows()) * std::numeric_limits<TestType>::epsilon() / 2 * exact;
          const long double got = alone(b * w.shape.num_heads + h, j);
          REQUIRE(static_cast<double>(std::abs(got - exact)) <= static_cast<double>(allowed));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("selected weights are rows of the full matrix, bit for bit, in the order asked for",
                   "[observers][threads][bits][weights]", float, double) {
  ThreadPool pool(3);
  const AttentionShape s{2, 4, 2, 310, 290, 8, 8};
  const auto in = random_inputs<TestType>(s, 7);
  AttentionOptions options = options_for(s, causal() & bottom_right());
  const auto full = scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options).weights;
  const std::vector<Index> heads = {3, 0, 3};
  const std::vector<Index> queries = {309, 0, 11, 12, 25, 12};
  for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    options.executor = executor;
    SelectedWeights<TestType> selected(heads, queries);
    observe_attention(in.query, in.key, in.value, options, {&selected});
    Index row = 0;
    for (Index b = 0; b < 2; ++b) {
      for (const Index h : heads) {
        for (const Index q : queries) {
          CAPTURE(b, h, q);
          CHECK(same_bits(full.head(h, b).row(q), selected.weights.row(row++)));
        }
      }
    }
    CHECK(row == selected.weights.rows());
  }
  const auto refused = [&](std::vector<Index> some_heads, std::vector<Index> some_queries) {
    SelectedWeights<TestType> selected(std::move(some_heads), std::move(some_queries));
    return message_of<RangeError>(
        [&] { (void)observe_attention(in.query, in.key, in.value, options, {&selected}); });
  };
  CHECK(refused({4}, {0}) == "head 4 is selected, there are 4");
  CHECK(refused({0}, {310}) == "query 310 is selected, there are 310");
  CHECK(contains(refused({-1}, {0}), "head -1"));
}

TEST_CASE("observers watch the reference loops of other scalars as well", "[observers]") {
  const AttentionShape s{1, 2, 1, 5, 7, 4, 4};
  const auto in = random_inputs<double>(s, 8);
  const auto wide = in.cast<long double>();
  const AttentionOptions options = options_for(s, causal() & bottom_right());
  TopWeights<double> top(2);
  TopWeights<long double> wide_top(2);
  observe_attention(in.query, in.key, in.value, options, {&top});
  observe_attention(wide.query, wide.key, wide.value, options, {&wide_top});
  CHECK(top.keys == wide_top.keys);
  CHECK((top.weights - wide_top.weights.cast<double>()).cwiseAbs().maxCoeff() < 1e-15);
}
