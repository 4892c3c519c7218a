// What goes wrong for others in this field, as small tests with numbers that can be checked by hand.

#include "catch.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/inspect/verify.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Equal scores: with keys of zero, each output is the mean of the values that the row sees.
AttentionResult<double> mean_of_values(const Eigen::VectorXd& values, Index queries,
                                       const AttentionOptions& options) {
  const Matrix<double> query = random_matrix<double>(queries, 3 * options.num_heads, 1);
  const Matrix<double> key = Matrix<double>::Zero(values.rows(), 3);
  AttentionOptions shared = options;
  shared.num_kv_heads = 1;
  return scaled_dot_product_attention_with_weights(query, key, values, shared);
}

bool near(double a, double b, double tolerance = 1e-7) {
  return std::abs(a - b) < tolerance;
}

}  // namespace

TEST_CASE("a matrix of ones and zeros shifts the scores as a bias, and is refused as a mask",
          "[mask][bias][errors]") {
  Matrix<double> ones_and_zeros(1, 2);
  ones_and_zeros << 1, 0;
  AttentionOptions options;
  options.mask = bias(ones_and_zeros);
  const auto weights = mean_of_values(Eigen::Vector2d(1, 2), 1, options).weights.head(0).eval();
  CHECK(near(weights(0, 0), 0.7310586));
  CHECK(near(weights(0, 1), 0.2689414));
  CHECK(contains(message_of<ArgumentError>([&] { (void)additive_mask(ones_and_zeros); }), "row 0, column 0"));

  Matrix<double> zero_and_hidden(1, 2);
  zero_and_hidden << 0, -kInf<double>;
  options.mask = additive_mask(zero_and_hidden);
  const auto masked = mean_of_values(Eigen::Vector2d(1, 2), 1, options).weights.head(0).eval();
  CHECK(masked(0, 0) == 1);
  CHECK(masked(0, 1) == 0);
}

TEST_CASE("a causal mask stays when a bias is given as well", "[mask][bias]") {
  Matrix<double> added = Matrix<double>::Zero(3, 3);
  added(1, 1) = std::log(3.0);
  added(2, 0) = -kInf<double>;
  AttentionOptions options;
  options.mask = causal() & bias(added);
  const auto out = mean_of_values(Eigen::Vector3d(1, 2, 4), 3, options).out;
  CHECK(near(out(0, 0), 1));
  CHECK(near(out(1, 0), 1.75));
  CHECK(near(out(2, 0), 3));

  // Left padding under a causal mask: the first row sees nothing, the second itself.
  Matrix<double> padded = Matrix<double>::Zero(2, 2);
  padded.col(0).setConstant(-kInf<double>);
  options.mask = causal() & bias(padded);
  const auto left = mean_of_values(Eigen::Vector2d(5, 7), 2, options).out;
  CHECK(left(0, 0) == 0);
  CHECK(near(left(1, 0), 7));
}

TEST_CASE("padded keys are hidden from every query, and padded queries still get their rows", "[mask]") {
  Matrix<double> padding = Matrix<double>::Zero(4, 4);
  padding.rightCols(2).setConstant(-kInf<double>);
  AttentionOptions options;
  options.mask = bias(padding);
  const Eigen::Vector4d values(1, 2, 3, 4);
  const auto out = mean_of_values(values, 4, options).out;
  for (Index i = 0; i < 4; ++i) CHECK(near(out(i, 0), 1.5));
  options.mask = causal() & bias(padding);
  const auto causal_out = mean_of_values(values, 4, options).out;
  CHECK(near(causal_out(0, 0), 1));
  for (Index i = 1; i < 4; ++i) CHECK(near(causal_out(i, 0), 1.5));
}

TEST_CASE("keep_where keeps what is true, drop_where drops it, and neither takes numbers", "[mask]") {
  Matrix<bool> first(1, 3);
  first << true, false, false;
  const Eigen::Vector3d values(1, 2, 3);
  AttentionOptions options;
  options.mask = keep_where(first);
  CHECK(near(mean_of_values(values, 1, options).out(0, 0), 1));
  options.mask = drop_where(first);
  CHECK(near(mean_of_values(values, 1, options).out(0, 0), 2.5));
  // Both at once: the second key alone is neither dropped nor missing.
  Matrix<bool> second(1, 3);
  second << true, true, false;
  options.mask = drop_where(first) & keep_where(second);
  CHECK(near(mean_of_values(values, 1, options).out(0, 0), 2));
  options.mask = keep_where(first) & drop_where(first);
  const auto nothing = mean_of_values(values, 1, options);
  CHECK(nothing.out.isZero(0));
  CHECK(nothing.weights.stacked.isZero(0));
  CHECK(nothing.logsumexp(0, 0) == -kInf<double>);
}

TEST_CASE("a bias nudges and a matrix of bool decides, also side by side", "[mask][bias]") {
  Matrix<double> nudge(1, 2);
  nudge << 1, 0;
  Matrix<bool> flags(1, 2);
  flags << true, false;
  AttentionOptions options;
  options.mask = keep_where(flags) & bias(nudge);
  const auto kept = mean_of_values(Eigen::Vector2d(1, 2), 1, options).weights.head(0).eval();
  CHECK(kept(0, 0) == 1);
  CHECK(kept(0, 1) == 0);
}

TEST_CASE("lengths of keys pad each sequence of a batch, causal or not, and garbage is not read",
          "[mask][nan]") {
  Eigen::VectorXd values(8);
  values << 1, 2, 3, 4, 1, 2, 3, 4;
  AttentionOptions options;
  options.batch_size = 2;
  options.mask = kv_lengths({2, 4});
  auto out = mean_of_values(values, 8, options).out;
  for (Index i = 0; i < 4; ++i) CHECK(near(out(i, 0), 1.5));
  for (Index i = 4; i < 8; ++i) CHECK(near(out(i, 0), 2.5));
  values.segment(2, 2).setConstant(kNaN<double>);
  options.mask = causal() & kv_lengths({2, 4});
  out = mean_of_values(values, 8, options).out;
  const double expected[] = {1, 1.5, 1.5, 1.5, 1, 1.5, 2, 2.5};
  for (Index i = 0; i < 8; ++i) CHECK(near(out(i, 0), expected[i]));
  // The same from a matrix of bool: one row for all queries of a sequence.
  Matrix<bool> exists(2, 4);
  exists << true, true, false, false, true, true, true, true;
  AttentionOptions by_matrix = options;
  by_matrix.mask = causal() & keep_where(exists, MaskRows::sequence);
  CHECK(same_bits(out, mean_of_values(values, 8, by_matrix).out));
}

TEST_CASE("causal stays whatever else is in the mask, and every part of a mask is applied", "[mask]") {
  Matrix<double> added = Matrix<double>::Zero(3, 3);
  added(1, 1) = std::log(3.0);
  added(2, 0) = -kInf<double>;
  Matrix<bool> kept = Matrix<bool>::Constant(3, 3, true);
  kept(2, 0) = false;
  Matrix<double> finite = added;
  finite(2, 0) = 0;
  const Eigen::Vector3d values(1, 2, 4);
  const auto out_of = [&](const Mask& mask) {
    AttentionOptions options;
    options.mask = mask;
    return mean_of_values(values, 3, options).out;
  };
  // The order of the parts does not matter, nor who says what.
  for (const Mask& mask :
       {causal() & bias(added), bias(added) & causal(), bias(finite) & causal() & keep_where(kept),
        kv_lengths({3}) & keep_where(kept) & causal() & bias(finite)}) {
    const auto out = out_of(mask);
    CAPTURE(mask.to_string());
    CHECK(near(out(0, 0), 1));
    CHECK(near(out(1, 0), 1.75));
    CHECK(near(out(2, 0), 3));
  }
  const auto dropped = out_of(bias(added));
  CHECK(near(dropped(0, 0), 7.0 / 3));
  CHECK(near(dropped(1, 0), 2.2));
  CHECK(near(dropped(2, 0), 3));
  // Two windows and two lengths: the narrower one.
  const auto narrow = out_of(window(2, 1) & window(0, 2) & top_left() & kv_lengths({3}) & kv_lengths({2}));
  CHECK(near(narrow(0, 0), 1.5));
  CHECK(near(narrow(1, 0), 2));
  CHECK(narrow(2, 0) == 0);
}

TEST_CASE("where the queries of a short chunk stand is what the mask says", "[mask]") {
  const Eigen::Vector4d values(1, 2, 3, 4);
  const auto out_of = [&](Index queries, const Mask& mask) {
    AttentionOptions options;
    options.mask = mask;
    return mean_of_values(values, queries, options).out;
  };
  CHECK(near(out_of(2, causal() & top_left())(0, 0), 1));
  CHECK(near(out_of(2, causal() & top_left())(1, 0), 1.5));
  CHECK(near(out_of(2, causal() & bottom_right())(0, 0), 2));
  CHECK(near(out_of(2, causal() & bottom_right())(1, 0), 2.5));
  CHECK(near(out_of(1, causal() & top_left())(0, 0), 1));
  CHECK(near(out_of(1, causal() & bottom_right())(0, 0), 2.5));
  CHECK(same_bits(out_of(4, causal() & top_left()), out_of(4, causal() & bottom_right())));
  CHECK(same_bits(out_of(4, causal()), out_of(4, causal() & bottom_right())));
  // The last key that exists: two of the four are padding.
  CHECK(near(out_of(2, causal() & bottom_right() & kv_lengths({2}))(0, 0), 1));
  CHECK(near(out_of(2, window(0, 0) & bottom_right())(0, 0), 3));
  CHECK(near(out_of(2, window(0, 0) & query_offset(1))(0, 0), 2));
  CHECK(contains(message_of<ShapeError>([&] { (void)out_of(2, window(1, 0)); }), "2 queries and 4 keys"));
  CHECK(contains(message_of<ShapeError>([&] { (void)out_of(2, alibi({0.5})); }), "2 queries and 4 keys"));
}

TEST_CASE("every split of a prompt against a cache gives the full pass, and what came later changes nothing",
          "[attention][cache]") {
  const Index tokens = 12;
  const Matrix<double> query = random_matrix<double>(tokens, 8, 41);
  Matrix<double> key = random_matrix<double>(tokens, 8, 42);
  const Matrix<double> value = random_matrix<double>(tokens, 8, 43);
  AttentionOptions options;
  options.mask = causal();
  options.num_heads = 2;
  const auto full = scaled_dot_product_attention(query, key, value, options);
  KvCache<double> cache({1, 2, 4, 4, tokens});
  for (const std::vector<Index>& split : std::vector<std::vector<Index>>{
           {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {5, 7}, {1, 11}, {4, 4, 4}, {11, 1}}) {
    cache.clear();  // reset and reused
    Index first = 0;
    for (const Index count : split) {
      cache.append(key.middleRows(first, count), value.middleRows(first, count));
      CHECK(same_bits(full.middleRows(first, count),
                      scaled_dot_product_attention(query.middleRows(first, count), cache, options)));
      first += count;
    }
  }
  key.row(3).setConstant(9);
  const auto changed = scaled_dot_product_attention(query, key, value, options);
  CHECK(same_bits(full.topRows(3), changed.topRows(3)));
  CHECK_FALSE(same_bits(full.row(3), changed.row(3)));
}

TEST_CASE("garbage behind a mask of any kind never reaches the output", "[mask][nan]") {
  Matrix<double> query(3, 2);
  query << 1, 0, 0, 1, 1, 1;
  Matrix<double> key = query;
  Matrix<double> value(3, 2);
  value << 1, 2, 3, 4, 5, 6;
  key.row(1) << kNaN<double>, 0;
  value.row(1) << kInf<double>, kNaN<double>;
  Matrix<bool> kept(1, 3);
  kept << true, false, true;
  const Matrix<bool> dropped = kept.unaryExpr([](bool keep) { return !keep; });
  Matrix<double> expected(3, 2);
  expected << 3, 4, 3.6790462, 4.6790462, 3.6790462, 4.6790462;
  for (const Mask& mask : {keep_where(kept), drop_where(dropped)}) {
    const auto out = scaled_dot_product_attention(query, key, value, {.mask = mask});
    CHECK((out - expected).cwiseAbs().maxCoeff() < 1e-6);
  }
  // The same key as padding, in the tail, before a window, after a causal row.
  for (const auto& [mask, hidden] : {std::pair<Mask, Index>{kv_lengths({2}), 2},
                                     {window(0, 0) & query_offset(1), 0},
                                     {causal() & query_offset(-1), 2}}) {
    Matrix<double> poisoned_key = query;
    Matrix<double> poisoned_value(3, 2);
    poisoned_value << 1, 2, 3, 4, 5, 6;
    const auto clean = scaled_dot_product_attention(query, poisoned_key, poisoned_value, {.mask = mask});
    poisoned_key.row(hidden).setConstant(kNaN<double>);
    poisoned_value.row(hidden).setConstant(kInf<double>);
    CAPTURE(mask.to_string());
    CHECK(
        same_bits(clean, scaled_dot_product_attention(query, poisoned_key, poisoned_value, {.mask = mask})));
  }
}

TEST_CASE("heads that share keys read them in blocks, with a bias, slope and sink for each query head",
          "[mask][bias][sinks][heads]") {
  // Keys are zero, so each head's weights are those of its own bias.
  const Matrix<double> query = random_matrix<double>(1, 4, 2);
  const Matrix<double> key = Matrix<double>::Zero(2, 2);
  Matrix<double> value(2, 2);
  value << 10, 20, 0, 0;
  Matrix<double> added(4, 2);
  for (Index h = 0; h < 4; ++h) added.row(h) << std::log(static_cast<double>(h + 1)), 0;
  AttentionOptions options;
  options.num_heads = 4;
  options.num_kv_heads = 2;
  options.mask = bias(added, MaskRows::head);
  const auto out = scaled_dot_product_attention(query, key, value, options);
  for (Index h = 0; h < 4; ++h) {
    const double weight = static_cast<double>(h + 1) / static_cast<double>(h + 2);
    CHECK(near(out(0, h), (h < 2 ? 10 : 20) * weight));
  }
  options.mask = alibi({0, std::log(2.0), 0, std::log(4.0)}) & query_offset(0);
  options.sinks = {-kInf<double>, -kInf<double>, 0, 0};
  const auto sloping = scaled_dot_product_attention(query, key, value, options);
  CHECK(near(sloping(0, 0), 5));
  CHECK(near(sloping(0, 1), 20.0 / 3));
  CHECK(near(sloping(0, 2), 20.0 / 3));
  CHECK(near(sloping(0, 3), 20 / 2.25));
  options.num_heads = 5;
  CHECK(contains(message_of<ShapeError>([&] {
                   (void)scaled_dot_product_attention(random_matrix<double>(1, 5, 2).eval(), key, value,
                                                      options);
                 }),
                 "num_heads is 5, not a multiple of num_kv_heads, which is 2"));
}

TEST_CASE("query head h reads key/value head h / group", "[attention][heads]") {
  for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{4, 2}, {6, 3}, {8, 2}, {4, 4}, {4, 1}}) {
    const Matrix<double> query = random_matrix<double>(2, heads, 2);
    const Matrix<double> key = Matrix<double>::Zero(3, kv_heads);
    Matrix<double> value(3, kv_heads);
    for (Index h = 0; h < kv_heads; ++h) value.col(h).setConstant(10.0 * static_cast<double>(h + 1));
    AttentionOptions options;
    options.num_heads = heads;
    options.num_kv_heads = kv_heads;
    const auto out = scaled_dot_product_attention(query, key, value, options);
    for (Index h = 0; h < heads; ++h)
      CHECK(near(out(0, h), 10.0 * static_cast<double>(h / (heads / kv_heads) + 1)));
  }
}

TEST_CASE("scores are divided by the root of the head size, not of the model's", "[attention][heads]") {
  Matrix<double> query = Matrix<double>::Zero(1, 8);
  query(0, 0) = 2;
  Matrix<double> key = Matrix<double>::Zero(2, 8);
  key(0, 0) = 1;
  const Matrix<double> value = Matrix<double>::Identity(2, 8);
  AttentionOptions options;
  options.num_heads = 2;
  const auto result = scaled_dot_product_attention_with_weights(query, key, value, options);
  CHECK(near(result.weights.head(0)(0, 0), 0.7310586));
}

TEST_CASE("weights are per head, sum to one, are zero where masked, and give the head's output",
          "[mask][heads][weights]") {
  Random random(3);
  const MultiHeadAttention<double> layer(12, 3, random);
  const Matrix<double> x = random_matrix<double>(20, 12, 4);
  LayerOptions options;
  options.mask = causal();
  const auto result = layer.forward_with_weights(x, options);
  CHECK(same_bits(result.out, layer.forward(x, options)));
  CHECK(same_bits(result.out, layer.forward(x, options)));
  const Matrix<double> value = matrix_product(x, layer.w_v);
  for (Index h = 0; h < 3; ++h) {
    const Matrix<double> weights = result.weights.head(h);
    CHECK(weights.rows() == 20);
    CHECK(rows_sum_to_one(weights).passed);
    for (Index i = 0; i < 20; ++i) {
      for (Index j = 0; j < 20; ++j) CHECK((weights(i, j) == 0) == (j > i));
    }
    CHECK((weights * value.middleCols(4 * h, 4) - result.heads.middleCols(4 * h, 4)).cwiseAbs().maxCoeff() <
          1e-14);
  }
  CHECK(contains(message_of<RangeError>([&] { (void)result.weights.head(3); }), "there are 3 heads"));
  CHECK(contains(message_of<RangeError>([&] { (void)result.weights.head(0, 1); }), "1 sequences"));
}

TEST_CASE("the softmax runs along the keys", "[attention]") {
  Matrix<double> query(2, 1);
  query << 1, 0;
  Matrix<double> key(3, 1);
  key << 0, std::log(2.0), std::log(4.0);
  const Matrix<double> value = random_matrix<double>(3, 2, 5);
  const auto result = scaled_dot_product_attention_with_weights(query, key, value);
  const Matrix<double> weights = result.weights.head(0);
  for (Index j = 0; j < 3; ++j) {
    CHECK(near(weights(0, j), std::pow(2.0, static_cast<double>(j)) / 7));
    CHECK(near(weights(1, j), 1.0 / 3));
  }
  const Matrix<double> one =
      scaled_dot_product_attention_with_weights(query.topRows(1), key, value).weights.head(0);
  CHECK((one.array() < 1).all());

  // Beside a mask and a sink as well: the sink takes its share of each row.
  AttentionOptions options;
  options.mask = kv_lengths({2});
  options.sinks = {0};
  const Matrix<double> sunk =
      scaled_dot_product_attention_with_weights(query, key, value, options).weights.head(0);
  Matrix<double> shares(2, 3);
  shares << 0.25, 0.5, 0, 1.0 / 3, 1.0 / 3, 0;
  CHECK((sunk - shares).cwiseAbs().maxCoeff() < 1e-15);

  // Permuting the keys with their values permutes the weights and leaves the output.
  const Eigen::PermutationMatrix<3> swap(Eigen::Vector3i(2, 0, 1));
  const Matrix<double> other_key = swap * key;
  const Matrix<double> other_value = swap * value;
  const auto permuted = scaled_dot_product_attention_with_weights(query, other_key, other_value);
  CHECK((permuted.out - result.out).cwiseAbs().maxCoeff() < 1e-15);
  CHECK((permuted.weights.stacked * swap - weights).cwiseAbs().maxCoeff() < 1e-15);
}

TEST_CASE("heads are cut and joined as column blocks", "[attention][heads]") {
  Matrix<double> x(2, 4);
  x << 1, 2, 3, 4, 5, 6, 7, 8;
  const Matrix<double> zero = Matrix<double>::Zero(4, 4);
  const Matrix<double> one = Matrix<double>::Identity(4, 4);
  Matrix<double> means(2, 4);
  means << 3, 4, 5, 6, 3, 4, 5, 6;
  const auto causal_out = multi_head_attention(x, zero, zero, one, one, 2, causal());
  CHECK(same_bits(causal_out.row(0), x.row(0)));
  CHECK(same_bits(causal_out.row(1), means.row(1)));
  CHECK(same_bits(multi_head_attention(x, zero, zero, one, one, 2), means));

  // A layer of two heads is two layers of one head on the two halves.
  Random random(6);
  const MultiHeadAttention<double> layer(8, 2, random);
  const Matrix<double> y = random_matrix<double>(5, 8, 7);
  const Matrix<double> both = layer.forward(y);
  Matrix<double> halves = Matrix<double>::Zero(5, 8);
  for (Index h = 0; h < 2; ++h) {
    const auto part = [&](const Matrix<double>& w) { return Matrix<double>(w.middleCols(4 * h, 4)); };
    const Matrix<double> w_o = layer.w_o.middleRows(4 * h, 4);
    halves += multi_head_attention(y, part(layer.w_q), part(layer.w_k), part(layer.w_v), w_o, 1);
  }
  CHECK((both - halves).cwiseAbs().maxCoeff() < 1e-14);
}

TEST_CASE("a layer refuses weights and inputs that do not fit, and says which",
          "[attention][errors][weights]") {
  Random random(8);
  MultiHeadAttention<float> layer(8, 2, random);
  const Matrix<float> x = random_matrix<float>(4, 8, 9);
  CHECK(message_of<ShapeError>([&] { (void)layer.forward(Matrix<float>(random_matrix<float>(4, 7, 1))); }) ==
        "x is 4 x 7, w_q is 8 x 8: as many columns as rows are needed");
  CHECK(contains(message_of<ShapeError>([&] { MultiHeadAttention<float>(10, 3, random); }), "d_model is 10"));
  CHECK(contains(message_of<ShapeError>([&] { MultiHeadAttention<float>(0, 1, random); }), "d_model is 0"));
  CHECK(contains(message_of<ShapeError>(
                     [&] { (void)multi_head_attention(x, layer.w_q, layer.w_k, layer.w_v, layer.w_o, 3); }),
                 "d_model 8 is not a positive multiple of num_heads 3"));
  CHECK(contains(message_of<ShapeError>(
                     [&] { (void)multi_head_attention(x, layer.w_q, layer.w_k, layer.w_v, layer.w_o, 0); }),
                 "num_heads is 0"));
  LayerOptions options;
  options.batch_size = 3;
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.forward(x, options); }), "x has 4 rows"));
  layer.w_o.resize(7, 8);
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.forward(x); }), "w_v is 8 x 8, w_o is 7 x 8"));
}

TEST_CASE("a layer's input is left as it was, and a sequence of length zero is one", "[attention]") {
  Random random(9);
  const MultiHeadAttention<float> layer(8, 2, random);
  const Matrix<float> x = random_matrix<float>(4, 8, 9);
  const Matrix<float> before = x;
  const auto a = layer.forward(x);
  CHECK(same_bits(before, x));
  CHECK(same_bits(a, layer.forward(x)));
  CHECK(layer.forward(Matrix<float>(0, 8)).rows() == 0);
  CHECK(layer.forward(Matrix<float>(0, 8)).cols() == 8);
  LayerOptions options;
  options.batch_size = 0;
  CHECK(layer.forward(Matrix<float>(0, 8), options).rows() == 0);
}

TEST_CASE("the causal probe passes a causal layer and finds the leak of one that is not", "[mask][verify]") {
  Random random(10);
  const MultiHeadAttention<double> layer(16, 2, random);
  const Matrix<double> x = random_matrix<double>(9, 16, 11);
  const CausalReport good = verify_causal(layer, x, causal());
  CHECK(good.passed);
  CHECK(good.largest_difference == 0);
  CHECK(good.cuts == 8);
  CHECK(good.position == -1);
  const CausalReport bad = verify_causal(layer, x);
  CHECK_FALSE(bad.passed);
  CHECK(bad.largest_difference > 1e-3);
  CHECK(bad.position >= 0);
  CHECK(bad.position < bad.cut);

  // A leak of one element from one position to the one before it.
  const auto leaky = [](const Matrix<double>& input) {
    Matrix<double> out = input;
    out(6, 3) += 1e-6 * input(7, 0);
    return out;
  };
  const CausalReport small = verify_causal(leaky, x);
  CHECK_FALSE(small.passed);
  CHECK(small.position == 6);
  CHECK(small.column == 3);
  CHECK(small.cut == 7);
  CHECK(verify_causal(leaky, x, {.tolerance = 1e-3}).passed);

  const auto sometimes_nan = [](const Matrix<double>& input) {
    Matrix<double> out = input;
    if (input(8, 0) < 0) out(0, 0) = kNaN<double>;
    return out;
  };
  CHECK_FALSE(verify_causal(sometimes_nan, x).passed);
  CHECK(verify_causal(leaky, Matrix<double>(x.topRows(1) * 0).eval().replicate(9, 1).eval(), {.max_cuts = 3})
            .cuts == 3);
  CHECK(verify_causal([](const Matrix<double>& input) { return input; }, Matrix<double>(0, 4)).passed);
  CHECK(contains(message_of<ShapeError>([&] {
                   (void)verify_causal([](const Matrix<double>&) { return Matrix<double>(2, 2); }, x);
                 }),
                 "returned 2"));
  CHECK(
      contains(message_of<ArgumentError>([&] { (void)verify_causal(leaky, x, {.tolerance = kNaN<double>}); }),
               "tolerance"));
}

TEST_CASE("the row-sum probe says which row is no distribution", "[attention][verify]") {
  Matrix<double> weights(4, 2);
  weights << 0.5, 0.5, 0, 0, 1, 0, 0.25, 0.75;
  const RowSumReport good = rows_sum_to_one(weights);
  CHECK(good.passed);
  CHECK(good.empty_rows == 1);
  weights(3, 0) = 0.5;
  const RowSumReport bad = rows_sum_to_one(weights);
  CHECK_FALSE(bad.passed);
  CHECK(bad.row == 3);
  CHECK(near(bad.largest_error, 0.25, 1e-15));
  weights.row(3) << 2, -1;
  CHECK_FALSE(rows_sum_to_one(weights).passed);
  weights.row(3) << kNaN<double>, 1;
  CHECK_FALSE(rows_sum_to_one(weights).passed);
  CHECK(rows_sum_to_one(Matrix<double>(0, 3)).passed);
}
