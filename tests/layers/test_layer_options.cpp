// A layer with everything that its attention has: grouped heads, biases, other sequences, rotary positions,
// ragged batches, and a cache for decoding.

#include <array>

#include "catch.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// A layer of one scalar type, and the same in long double.
template <class Scalar>
MultiHeadAttention<Scalar> cast(const MultiHeadAttention<double>& layer) {
  MultiHeadAttention<Scalar> result(layer.w_q.cast<Scalar>(), layer.w_k.cast<Scalar>(),
                                    layer.w_v.cast<Scalar>(), layer.w_o.cast<Scalar>(), layer.num_heads(),
                                    layer.num_kv_heads());
  result.b_q = layer.b_q.cast<Scalar>();
  result.b_k = layer.b_k.cast<Scalar>();
  result.b_v = layer.b_v.cast<Scalar>();
  result.b_o = layer.b_o.cast<Scalar>();
  return result;
}

template <class A, class B>
double distance(const A& a, const B& b) {
  return static_cast<double>(
      (a.template cast<long double>() - b.template cast<long double>()).cwiseAbs().maxCoeff());
}

MultiHeadAttention<double> grouped_layer(std::uint64_t seed, bool bias) {
  Random random(seed);
  MultiHeadAttention<double> layer(
      MultiHeadAttentionConfig{
          .d_model = 24, .num_heads = 6, .num_kv_heads = 2, .head_dim = 8, .value_dim = 5, .bias = bias},
      random);
  for (auto* b : {&layer.b_q, &layer.b_k, &layer.b_v, &layer.b_o}) {
    for (Index i = 0; i < b->size(); ++i) (*b)(i) = random.uniform(-1, 1);
  }
  return layer;
}

template <class Scalar>
const double kEps = static_cast<double>(std::numeric_limits<Scalar>::epsilon());

}  // namespace

TEMPLATE_TEST_CASE("grouped heads, biases and rotary positions agree with the loops in long double",
                   "[multi_head][rotary]", float, double) {
  for (const bool bias : {false, true}) {
    const auto layer = grouped_layer(1, bias);
    const Matrix<double> x = random_matrix<double>(2 * 33, 24, 2);
    LayerOptions options;
    options.batch_size = 2;
    options.mask = causal() & window(20, 0);
    options.score.rotary = Rotary(6, 40);
    options.score.softcap = 5;
    options.score.sinks = {0.5, -1, 0, 1, 2, -2};
    const Matrix<TestType> x_own = x.cast<TestType>();
    const auto own = cast<TestType>(layer);
    const auto exact_layer = cast<long double>(layer);
    const Matrix<long double> exact = exact_layer.forward(x_own.template cast<long double>().eval(), options);
    // Weights are rounded too: errors of eps in 24 + 30 products of size 1 for each of the four steps.
    CHECK(distance(own.forward(x_own, options), exact) < 200 * kEps<TestType>);
  }
}

TEMPLATE_TEST_CASE("a bias is the row that a column of ones would add", "[multi_head]", float, double) {
  const auto layer = cast<TestType>(grouped_layer(3, true));
  const Matrix<TestType> x = random_matrix<TestType>(40, 24, 4);
  Matrix<TestType> with_one(40, 25);
  with_one << Matrix<TestType>::Ones(40, 1), x;
  const auto below = [](const auto& bias, const auto& w) {
    Matrix<TestType> both(w.rows() + 1, w.cols());
    both << bias, w;
    return both;
  };
  const Matrix<TestType> w_q = below(layer.b_q, layer.w_q);
  const Matrix<TestType> w_k = below(layer.b_k, layer.w_k);
  const Matrix<TestType> w_v = below(layer.b_v, layer.w_v);
  LayerOptions options;
  options.num_kv_heads = 2;
  Matrix<TestType> expected = multi_head_attention(with_one, w_q, w_k, w_v, layer.w_o, 6, options);
  expected.rowwise() += layer.b_o;
  CHECK(distance(layer.forward(x), expected) < 50 * kEps<TestType>);
}

TEMPLATE_TEST_CASE("cross-attention reads keys and values of their own widths from other sequences",
                   "[multi_head]", float, double) {
  Random random(5);
  const MultiHeadAttention<double> layer(
      MultiHeadAttentionConfig{
          .d_model = 12, .num_heads = 3, .key_input_dim = 7, .value_input_dim = 9, .bias = true},
      random);
  const auto own = cast<TestType>(layer);
  const Matrix<TestType> x = random_matrix<TestType>(2 * 5, 12, 6);
  const Matrix<TestType> key_input = random_matrix<TestType>(2 * 8, 7, 7);
  const Matrix<TestType> value_input = random_matrix<TestType>(2 * 8, 9, 8);
  LayerOptions options;
  options.batch_size = 2;
  options.mask = kv_lengths({8, 3});
  const Matrix<TestType> out = own.forward(x, key_input, value_input, options);
  const Matrix<long double> exact = cast<long double>(layer).forward(
      x.template cast<long double>().eval(), key_input.template cast<long double>().eval(),
      value_input.template cast<long double>().eval(), options);
  CHECK(distance(out, exact) < 100 * kEps<TestType>);
  // What the mask hides is never read.
  Matrix<TestType> poisoned = key_input;
  poisoned.bottomRows(5).setConstant(kNaN<TestType>);
  CHECK(same_bits(out, own.forward(x, poisoned, value_input, options)));
  const auto shape_message = [&](const auto& k, const auto& v) {
    return message_of<ShapeError>([&] { (void)own.forward(x, k, v, options); });
  };
  CHECK(contains(shape_message(value_input, value_input), "key_input is 16 x 9, w_k is 7 x 12"));
  CHECK(contains(shape_message(key_input, value_input.topRows(14).eval()),
                 "key_input has 16 rows, value_input has 14"));
}

TEMPLATE_TEST_CASE("a layer gives each sequence of a ragged batch the bits it has alone",
                   "[multi_head][ragged][bits]", float, double) {
  const auto layer = cast<TestType>(grouped_layer(9, true));
  const std::vector<Index> starts = {0, 3, 3, 43, 44};
  const Matrix<TestType> x = random_matrix<TestType>(44, 24, 10);
  LayerOptions options;
  options.mask = causal();
  options.query_starts = starts;
  const Matrix<TestType> together = layer.forward(x, options);
  LayerOptions alone;
  alone.mask = causal();
  for (std::size_t b = 0; b + 1 < starts.size(); ++b) {
    const Index rows = starts[b + 1] - starts[b];
    CHECK(
        same_bits(together.middleRows(starts[b], rows), layer.forward(x.middleRows(starts[b], rows), alone)));
  }
}

TEMPLATE_TEST_CASE("prefill and steps with a cache have the bits of one full pass, however they are cut",
                   "[multi_head][threads][rotary][cache][bits]", float, double) {
  const auto layer = cast<TestType>(grouped_layer(11, true));
  constexpr Index length = 40;
  const Matrix<TestType> x = random_matrix<TestType>(2 * length, 24, 12);
  ThreadPool pool(3);
  for (const bool turned : {false, true}) {
    LayerOptions options;
    options.mask = causal();
    options.batch_size = 2;
    if (turned) options.score.rotary = Rotary(8, length, {.layout = RotaryLayout::interleaved});
    const Matrix<TestType> full = layer.forward(x, options);
    for (const std::array<Index, 3>& cut : {std::array<Index, 3>{40, 0, 0}, {1, 39, 0}, {30, 1, 9}}) {
      KvCache<TestType> cache = layer.make_cache(length, 2);
      Matrix<TestType> out(2 * length, 24);
      Index done = 0;
      const auto append = [&](Index n) {
        Matrix<TestType> part(2 * n, 24);
        part << x.middleRows(done, n), x.middleRows(length + done, n);
        LayerOptions own = options;
        own.batch_size = 1;
        own.executor = n > 8 ? &pool : nullptr;
        const Matrix<TestType> result =
            n == 1 ? layer.step(part, cache, own) : layer.prefill(part, cache, own);
        out.middleRows(done, n) = result.topRows(n);
        out.middleRows(length + done, n) = result.bottomRows(n);
        done += n;
      };
      append(cut[0]);
      for (Index i = 0; i < cut[1]; ++i) append(1);
      if (cut[2] > 0) append(cut[2]);
      CHECK(done == length);
      CHECK(same_bits(full, out));
    }
  }
}

TEST_CASE("a step that cannot be taken leaves the cache as it was", "[multi_head][rotary][cache]") {
  const auto layer = grouped_layer(13, false);
  const Matrix<double> x = random_matrix<double>(5, 24, 14);
  KvCache<double> cache = layer.make_cache(4);
  LayerOptions options;
  options.mask = causal();
  (void)layer.prefill(x.topRows(3), cache, options);
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.prefill(x.topRows(2), cache, options); }),
                 "the cache is full: sequence 0 has 3 tokens, 2 more do not fit into its capacity of 4"));
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.step(x.topRows(2), cache, options); }),
                 "x has 2 rows, a step of a cache of 1 sequences needs one for each"));
  LayerOptions wrong = options;
  wrong.score.sinks = {1, 2};
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.step(x.topRows(1), cache, wrong); }),
                 "sinks has 2 numbers, there are 6 heads"));
  wrong = options;
  wrong.score.rotary = Rotary(8, 3);
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.step(x.topRows(1), cache, wrong); }),
                 "rotary has angles for the positions 0 to 2"));
  CHECK(cache.kv_len() == 3);
  const Matrix<double> full = layer.forward(x.topRows(4), options);
  CHECK(same_bits(full.bottomRows(1), layer.step(x.row(3), cache, options)));
}

TEST_CASE("a layer says which of its sizes do not fit", "[multi_head]") {
  Random random(15);
  const auto message = [&](const MultiHeadAttentionConfig& sizes) {
    return message_of<ShapeError>([&] { (void)MultiHeadAttention<float>(sizes, random); });
  };
  CHECK(contains(message({.d_model = 24, .num_heads = 6, .num_kv_heads = 4}), "num_heads is 6"));
  CHECK(contains(message({.d_model = 24, .num_heads = 5}), "d_model is 24"));
  CHECK(contains(message({.d_model = 24, .num_heads = 6, .value_dim = 0}), "value_dim is 0"));
  auto layer = grouped_layer(16, false);
  layer.b_k.setZero(3);
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.forward(Matrix<double>::Zero(2, 24).eval()); }),
                 "b_k is 1 x 3, 2 heads of 8 need 1 x 16"));
}
