// Attention over parts of the keys, merged, is attention over all of them.

#include <vector>

#include "catch.hpp"
#include "heed/attention/merge_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

const AttentionShape kShape{1, 4, 2, 23, 300, 16, 12};

/// The attention over keys [first, first + count). Queries stand where they stand among all keys.
template <class T>
AttentionResult<T> part(const Inputs<T>& in, Index first, Index count, AttentionOptions options,
                        Index position) {
  options.mask = options.mask & query_offset(position - first);
  return scaled_dot_product_attention_with_weights(in.query, in.key.middleRows(first, count),
                                                   in.value.middleRows(first, count), options);
}

template <class T>
double distance(const Matrix<T>& a, const Matrix<T>& b) {
  return static_cast<double>((a - b).cwiseAbs().maxCoeff());
}

}  // namespace

TEMPLATE_TEST_CASE("parts over ranges of keys merge into the result over all keys", "[merge]", float,
                   double) {
  const auto eps = static_cast<double>(std::numeric_limits<TestType>::epsilon());
  const auto in = random_inputs<TestType>(kShape, 1, 2.0);
  for (const Mask& mask : {Mask(), causal(), window(40, 5), causal() & alibi(alibi_slopes(4))}) {
    const AttentionOptions options = options_for(kShape, mask);
    constexpr Index position = 200;
    const auto full = part(in, 0, kShape.kv_len, options, position);
    for (const std::vector<Index>& cuts : std::vector<std::vector<Index>>{
             {0, 150, 300}, {0, 1, 2, 128, 256, 300}, {0, 0, 300, 300}, {0, 215, 216, 299, 300}}) {
      auto merged = part(in, cuts[0], cuts[1] - cuts[0], options, position);
      for (std::size_t n = 1; n + 1 < cuts.size(); ++n)
        merge_attention(merged, part(in, cuts[n], cuts[n + 1] - cuts[n], options, position));
      CAPTURE(mask.to_string(), cuts);
      // Each part and each merging step rounds a few times, at most at the size of a value, which is 2.
      const double steps = static_cast<double>(cuts.size());
      CHECK(distance(merged.out, full.out) <= 4 * steps * eps);
      // Scores, and so logsumexp, are below 64 here.
      CHECK(distance(merged.logsumexp, full.logsumexp) <= 32 * steps * eps);
    }
  }
}

TEMPLATE_TEST_CASE("a part that saw nothing changes no bit, from either side", "[merge][bits]", float,
                   double) {
  const auto in = random_inputs<TestType>(kShape, 2);
  const AttentionOptions options = options_for(kShape, causal());
  // Query 0 stands at key -10: some rows of the first part are empty, and so is all of the second one.
  const auto full = part(in, 0, 20, options, -10);
  REQUIRE(full.logsumexp(9, 0) == -kInf<TestType>);
  REQUIRE(std::isfinite(full.logsumexp(10, 0)));
  for (const Index first : {Index{20}, Index{290}}) {
    auto nothing = part(in, first, 10, options, -10);
    REQUIRE((nothing.logsumexp.array() == -kInf<TestType>).all());
    auto merged = full;
    merge_attention(merged, nothing);
    CHECK(same_bits(merged.out, full.out));
    CHECK(same_bits(merged.logsumexp, full.logsumexp));
    merged = nothing;
    merge_attention(merged, full);
    CHECK(same_bits(merged.out, full.out));
    CHECK(same_bits(merged.logsumexp, full.logsumexp));
    merged = nothing;
    merge_attention(merged, nothing);
    CHECK(merged.out.isZero(0));
    CHECK((merged.logsumexp.array() == -kInf<TestType>).all());
    // Whatever its out holds.
    nothing.out.setConstant(kNaN<TestType>);
    merged = full;
    merge_attention(merged, nothing);
    CHECK(same_bits(merged.out, full.out));
  }
}

TEMPLATE_TEST_CASE("merging commutes to the bit, and associates within rounding", "[merge][bits]", float,
                   double) {
  const auto eps = static_cast<double>(std::numeric_limits<TestType>::epsilon());
  const auto in = random_inputs<TestType>(kShape, 3, 3.0);
  const AttentionOptions options = options_for(kShape);
  const auto a = part(in, 0, 100, options, 0);
  const auto b = part(in, 100, 100, options, 0);
  const auto c = part(in, 200, 100, options, 0);
  auto ab = a;
  merge_attention(ab, b);
  auto ba = b;
  merge_attention(ba, a);
  CHECK(same_bits(ab.out, ba.out));
  CHECK(same_bits(ab.logsumexp, ba.logsumexp));
  CHECK_FALSE(same_bits(ab.out, a.out));
  auto left = ab;
  merge_attention(left, c);
  auto bc = b;
  merge_attention(bc, c);
  auto right = a;
  merge_attention(right, bc);
  CHECK(distance(left.out, right.out) <= 12 * eps);
  CHECK(distance(left.logsumexp, right.logsumexp) <= 64 * eps);
}

TEMPLATE_TEST_CASE("a sink in one of the parts is the sink of the whole", "[merge][sinks]", float, double) {
  const auto eps = static_cast<double>(std::numeric_limits<TestType>::epsilon());
  const auto in = random_inputs<TestType>(kShape, 4);
  AttentionOptions plain = options_for(kShape, causal());
  AttentionOptions with_sink = plain;
  with_sink.sinks = {0.5, -1, 8, 0};
  constexpr Index position = 140;
  const auto full = part(in, 0, 300, with_sink, position);
  for (const bool sink_first : {true, false}) {
    auto merged = part(in, 0, 130, sink_first ? with_sink : plain, position);
    // Of these keys the first queries see few, the last 130 nobody sees.
    merge_attention(merged, part(in, 130, 170, sink_first ? plain : with_sink, position));
    CHECK(distance(merged.out, full.out) <= 12 * eps);
    CHECK(distance(merged.logsumexp, full.logsumexp) <= 64 * eps);
  }
  // A part that holds a sink and no key is no part that saw nothing.
  auto merged = part(in, 0, 300, plain, position);
  merge_attention(merged, part(in, 300, 0, with_sink, position));
  CHECK(distance(merged.out, full.out) <= 12 * eps);
  CHECK(distance(merged.logsumexp, full.logsumexp) <= 64 * eps);
}

TEMPLATE_TEST_CASE("scores of any finite size merge, and NaN shows", "[merge][nan]", float, double) {
  Matrix<TestType> out(3, 1);
  Matrix<TestType> logsumexp(3, 1);
  Matrix<TestType> other(3, 1);
  Matrix<TestType> other_logsumexp(3, 1);
  const TestType most = std::numeric_limits<TestType>::max();
  out << 1, 2, 3;
  other << 5, 6, 7;
  logsumexp << most, -most, kNaN<TestType>;
  other_logsumexp << most, most, 0;
  merge_attention(out, logsumexp, other, other_logsumexp);
  CHECK(out(0, 0) == 3);
  CHECK(out(1, 0) == 6);
  CHECK(std::isnan(out(2, 0)));
  CHECK(logsumexp(0, 0) == most);
  CHECK(logsumexp(1, 0) == most);
  CHECK(std::isnan(logsumexp(2, 0)));
}

TEST_CASE("parts of unlike sizes are an error that names them, and empty ones are merged",
          "[merge][errors]") {
  Matrix<double> out = Matrix<double>::Ones(3, 4);
  Matrix<double> logsumexp = Matrix<double>::Zero(3, 2);
  const auto refused = [&](Index rows, Index cols, Index lse_rows, Index heads) {
    const Matrix<double> other = Matrix<double>::Zero(rows, cols);
    const Matrix<double> other_logsumexp = Matrix<double>::Zero(lse_rows, heads);
    return message_of<ShapeError>([&] { merge_attention(out, logsumexp, other, other_logsumexp); });
  };
  CHECK(refused(2, 4, 3, 2) == "out is 3 x 4 in one part, 2 x 4 in the other");
  CHECK(refused(3, 4, 3, 1) == "logsumexp is 3 x 2 in one part, 3 x 1 in the other");
  CHECK(same_bits(out, Matrix<double>::Ones(3, 4)));
  logsumexp.resize(2, 2);
  CHECK(contains(refused(3, 4, 2, 2), "out has 3 rows, logsumexp has 2"));
  logsumexp.setZero(3, 3);
  CHECK(contains(refused(3, 4, 3, 3), "out has 4 columns, they cannot be split into 3 heads"));
  Matrix<double> both = Matrix<double>::Ones(3, 4);
  Matrix<double> sums = Matrix<double>::Zero(2, 2);
  const Matrix<double> other_sums = Matrix<double>::Zero(2, 2);
  auto part = both.bottomRows(2);
  CHECK(contains(message_of<ArgumentError>([&] { merge_attention(part, sums, both.topRows(2), other_sums); }),
                 "out (2 x 4) overlaps the other part's out (2 x 4)"));
  CHECK(contains(message_of<ArgumentError>([&] { merge_attention(part, sums, Matrix<double>(2, 4), sums); }),
                 "logsumexp (2 x 2) overlaps the other part's logsumexp (2 x 2)"));
  CHECK(same_bits(both, Matrix<double>::Ones(3, 4)));
  Matrix<double> nothing(0, 4);
  Matrix<double> no_sums(0, 2);
  merge_attention(nothing, no_sums, Matrix<double>(0, 4), Matrix<double>(0, 2));
  CHECK(nothing.rows() == 0);
}
