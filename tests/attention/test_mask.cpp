// Masks: what goes wrong with them elsewhere, as small tests with numbers that can be checked by hand. What
// is hidden stays hidden whatever else a mask has, numbers are no mask, and garbage behind one never shows.

#include <cmath>
#include <utility>

#include "catch.hpp"
#include "heed/attention/mask_matrix.hpp"
#include "heed/attention/scaled_dot_product_attention.hpp"
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
