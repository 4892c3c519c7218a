// Each option of docs/options.md on a case small enough to work out by hand. Every line of code of the page's
// table stands here, to the letter.

#include "catch.hpp"
#include "equal_scores.hpp"

namespace {

using heed::Index;
using heed::Matrix;
using namespace heed::test;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// One query and three keys that weigh 1/7, 2/7 and 4/7.
struct Sevenths {
  heed::AttentionOptions options;
  Matrix<double> query = column<double>({1});
  Matrix<double> key = column<double>({0, std::log(2.0), std::log(4.0)});
  Matrix<double> value = column<double>({7, 14, 28});
  Matrix<double> out;
};

}  // namespace

TEST_CASE_METHOD(EqualScores, "without options every query sees every key") {
  prepare(2, {1, 2, 4, 8});
  out = heed::scaled_dot_product_attention(query, key, value);
  CHECK(holds(out, {3.75, 3.75}));
}

TEST_CASE_METHOD(EqualScores, "a causal query sees its own position and what is before") {
  options.mask = heed::causal();
  CHECK(holds(means(4, {1, 2, 4, 8}), {1, 1.5, 7 / 3.0, 3.75}));
}

TEST_CASE_METHOD(EqualScores, "where the queries stand is the caller's choice") {
  options.mask = heed::causal() & heed::top_left();
  CHECK(holds(means(2, {1, 2, 4, 8}), {1, 1.5}));
  options.mask = heed::causal() & heed::bottom_right();
  CHECK(holds(means(2, {1, 2, 4, 8}), {7 / 3.0, 3.75}));
  options.mask = heed::causal() & heed::query_offset(1);
  CHECK(holds(means(2, {1, 2, 4, 8}), {1.5, 7 / 3.0}));
  options.mask = heed::causal() & heed::query_offset(-1);
  CHECK(holds(means(2, {1, 2, 4, 8}), {0, 1}));
  options.batch_size = 2;
  options.mask = heed::causal() & heed::query_offsets({0, 1});
  CHECK(holds(means(2, {1, 2, 4, 8}), {1, 6}));
}

TEST_CASE_METHOD(EqualScores, "a window counts keys before and after the query's own") {
  options.mask = heed::causal() & heed::window(1, 0);
  CHECK(holds(means(4, {1, 2, 4, 8}), {1, 1.5, 3, 6}));
  options.mask = heed::window(heed::kUnlimited, 1);
  CHECK(holds(means(4, {1, 2, 4, 8}), {1.5, 7 / 3.0, 3.75, 3.75}));
}

TEST_CASE_METHOD(EqualScores, "kv_lengths says how many keys of each sequence exist") {
  options.batch_size = 2;
  options.mask = heed::kv_lengths({1, 2});
  CHECK(holds(means(2, {1, kNaN<double>, 4, 8}), {1, 6}));
}

TEST_CASE_METHOD(EqualScores, "matrices of bool say in their name what true means") {
  Matrix<bool> flags(2, 3);
  flags << true, false, false, false, true, true;
  options.mask = heed::keep_where(flags);
  CHECK(holds(means(2, {1, 2, 4}), {1, 3}));
  options.mask = heed::drop_where(flags);
  CHECK(holds(means(2, {1, 2, 4}), {3, 1}));
}

TEST_CASE_METHOD(EqualScores, "a bias is added to the scores, and -inf hides") {
  Matrix<double> added(2, 3);
  added << 0, std::log(2.0), kHidden, 0, 0, 0;
  options.mask = heed::bias(added);
  CHECK(holds(means(2, {1, 4, 16}), {3, 7}));

  Matrix<double> zero_or_hidden(1, 3);
  zero_or_hidden << 0, 0, kHidden;
  options.mask = heed::additive_mask(zero_or_hidden);
  CHECK(holds(means(2, {1, 2, 4}), {1.5, 1.5}));
}

TEST_CASE_METHOD(EqualScores, "the blocks of a mask matrix stand sequence by sequence, head by head") {
  options.num_heads = 2;
  Matrix<double> added(2, 2);
  added << 0, kHidden, kHidden, 0;
  SECTION("a row for each head, alike for all queries") {
    options.mask = heed::bias(added, heed::MaskRows::head);
    CHECK(holds(means(3, {1, 2}), {1, 2, 1, 2, 1, 2}));
  }
  SECTION("a row for each sequence") {
    options.batch_size = 2;
    options.mask = heed::bias(added, heed::MaskRows::sequence);
    CHECK(holds(means(2, {1, 2, 4, 8}), {1, 1, 8, 8}));
  }
  SECTION("a row for each head of each sequence") {
    options.batch_size = 2;
    Matrix<bool> flags(4, 2);
    flags << true, true, true, false, false, true, false, false;
    options.mask = heed::keep_where(flags, heed::MaskRows::head_of_sequence);
    CHECK(holds(means(2, {1, 2, 4, 8}), {1.5, 1, 8, 0}));
  }
  SECTION("a row for each query of each head") {
    added.resize(4, 2);
    added << 0, kHidden, kHidden, 0, kHidden, 0, 0, 0;
    options.mask = heed::bias(added, heed::MaskRows::head);
    CHECK(holds(means(2, {1, 2}), {1, 2, 2, 1.5}));
  }
}

TEST_CASE_METHOD(EqualScores, "alibi lowers scores by the distance") {
  options.mask = heed::causal() & heed::alibi({std::log(2.0)});
  CHECK(holds(means(3, {1, 2, 4}), {1, 5 / 3.0, 3}));
  options.num_heads = 8;
  options.mask = heed::causal() & heed::alibi(heed::alibi_slopes(8));
  const double weight = 1 / (1 + std::exp(-0.5));  // of the query's own key for the first head, slope 1/2
  CHECK(holds(means(2, {0, 1}).block(1, 0, 1, 1), {weight}));
}

TEST_CASE("scores are scaled, then capped, and a sink takes part in the sum alone",
          "[options][sinks][softcap]") {
  heed::AttentionOptions options;
  CHECK(std::abs(score_of({1, 1, 1, 1}, {3, 0, 0, 0}, options) - 3) < 1e-12);
  options.scale = 0.5;
  CHECK(std::abs(score_of({1, 1, 1, 1}, {3, 0, 0, 0}, options) - 1.5) < 1e-12);
  options.softcap = 2;
  CHECK(std::abs(score_of({1, 1, 1, 1}, {3, 0, 0, 0}, options) - 2 * std::tanh(0.75)) < 1e-12);

  EqualScores equal;
  equal.options.sinks = {std::log(2.0)};
  CHECK(holds(equal.means(1, {3, 6}), {2.25}));
}

TEST_CASE("rotary positions turn pairs of elements by the distance", "[options][rotary]") {
  heed::AttentionOptions options;
  options.rotary = heed::Rotary(2, 128);
  CHECK(std::abs(score_of({1, 0}, {1, 0}, options) - std::cos(1.0)) < 1e-12);
  CHECK(std::abs(score_of({1, 0, 0, 1}, {1, 0, 0, 1}, options) - (std::cos(1.0) + 1)) < 1e-12);

  options.rotary = heed::Rotary(4, 128, {.layout = heed::RotaryLayout::half_split});
  CHECK(std::abs(score_of({1, 0, 0, 0}, {0, 0, 1, 0}, options) - std::sin(1.0)) < 1e-12);
  options.rotary = heed::Rotary(4, 128, {.layout = heed::RotaryLayout::interleaved});
  CHECK(std::abs(score_of({1, 0, 0, 0}, {0, 1, 0, 0}, options) - std::sin(1.0)) < 1e-12);

  options.rotary = heed::Rotary(2, 128, {.linear_factor = 4});
  CHECK(std::abs(score_of({1, 0}, {1, 0}, options) - std::cos(0.25)) < 1e-12);

  options.rotary = heed::Rotary(4, 128, {.base = 500000, .llama3 = heed::Llama3Scaling{}});
  CHECK(options.rotary->angle(1, 0) == 1);
  const heed::Rotary slow(4, 128, {.base = 1e8, .llama3 = heed::Llama3Scaling{}});
  CHECK(std::abs(slow.angle(8, 1) - 1e-4) <
        1e-16);  // a wavelength of 62832 positions becomes 8 times as long
}

TEST_CASE("heads stand side by side, and may share keys and values", "[options][heads]") {
  heed::AttentionOptions options;
  Matrix<double> value(2, 2);
  value << 10, 20, 10, 20;
  const Matrix<double> key = Matrix<double>::Zero(2, 4);
  const Matrix<double> query = Matrix<double>::Ones(1, 8);
  Matrix<double> out;
  options.num_heads = 4;
  options.num_kv_heads = 2;
  out = heed::scaled_dot_product_attention(query, key, value, options);
  CHECK(holds(out, {10, 10, 20, 20}));
}

TEST_CASE("sizes follow from the matrices", "[options][rotary][cache][ragged]") {
  const Matrix<double> query = Matrix<double>::Ones(1, 2);
  const Matrix<double> other_key = Matrix<double>::Zero(3, 2);
  Matrix<double> other_value(3, 4);
  other_value << 1, 2, 3, 4, 2, 4, 6, 8, 6, 6, 6, 6;
  Matrix<double> out;
  out = heed::scaled_dot_product_attention(query, other_key, other_value);
  CHECK(holds(out, {3, 4, 5, 6}));
}

TEST_CASE_METHOD(EqualScores, "sequences are stacked in the rows, of equal length or not") {
  options.batch_size = 2;
  CHECK(holds(means(4, {1, 2, 4, 8}), {1.5, 1.5, 6, 6}));
  options.batch_size = 1;
  options.mask = heed::causal();
  options.query_starts = options.kv_starts = {0, 1, 4};
  CHECK(holds(means(4, {1, 2, 4, 8}), {1, 2, 3, 14 / 3.0}));
}

TEST_CASE_METHOD(EqualScores, "a sequence of a ragged batch may be empty, the first one too") {
  options.query_starts = {0, 0, 1};
  options.kv_starts = {0, 2, 4};
  CHECK(holds(means(1, {1, 2, 4, 8}), {6}));
  options.query_starts = {0, 1, 1};
  CHECK(holds(means(1, {1, 2, 4, 8}), {1.5}));
  options.kv_starts = {0, 0, 4};
  CHECK(holds(means(1, {1, 2, 4, 8}), {0}));
}

TEST_CASE_METHOD(EqualScores, "a cache keeps keys and values for the queries to come") {
  heed::KvCache<double> cache({.head_dim = 2, .value_dim = 1, .capacity = 16});
  options.mask = heed::causal();
  prepare(2, {1, 2, 4});
  cache.append(key, value);
  out = heed::scaled_dot_product_attention(query, cache, options);
  CHECK(holds(out, {1.5, 7 / 3.0}));
  cache.truncate(0, 1);
  out = heed::scaled_dot_product_attention(query.topRows(1), cache, options);
  CHECK(holds(out, {1}));

  const heed::Rotary rotary(2, 16);
  cache.clear();
  Matrix<double> turned(1, 2);
  turned << 1, 0;
  const Matrix<double> same = turned.replicate(2, 1);
  cache.append(same, column<double>({0, 1}), rotary);
  options.rotary = rotary;
  options.scale = 1;
  out = heed::scaled_dot_product_attention(turned, cache, options);
  CHECK(holds(out, {1 / (1 + std::exp(std::cos(1.0) - 1))}));
}

TEST_CASE("a cache asks for room and angles where a token goes, and for heads that fit",
          "[options][rotary][cache][heads]") {
  const heed::Rotary rotary(2, 4);
  heed::KvCache<double> cache({.batch_size = 2, .head_dim = 2, .value_dim = 1, .capacity = 8});
  const Matrix<double> key = Matrix<double>::Zero(4, 2);
  const Matrix<double> value = column<double>({1, 2, 4, 8});
  cache.append_to(1, key, value, rotary);
  cache.append_to(0, key, value, rotary);
  CHECK(cache.lengths() == std::vector<Index>{4, 4});
  const auto beyond = [&] { cache.append_to(0, key, value, rotary); };
  CHECK(contains(message_of<heed::ShapeError>(beyond), "a key of sequence 0 would stand at 7"));

  heed::AttentionOptions options;
  options.num_heads = -1;
  const auto no_heads = [&] { (void)heed::scaled_dot_product_attention(key, cache, options); };
  CHECK(contains(message_of<heed::ShapeError>(no_heads), "cannot be split into -1 heads"));
}

TEST_CASE("caches of 16 bits round keys and values, a ring lets go of the oldest", "[options][cache]") {
  using heed::KvCache;
  using heed::KvStorage;
  heed::AttentionOptions options;
  const Matrix<float> query = Matrix<float>::Ones(1, 2);
  const Matrix<float> key = Matrix<float>::Zero(1, 2);
  Matrix<float> value(1, 1);
  value << 1 + 1.0F / 512;
  KvCache<float> small({.head_dim = 2, .value_dim = 1, .capacity = 8, .storage = KvStorage::bfloat16});
  small.append(key, value);
  CHECK(heed::scaled_dot_product_attention(query, small, options)(0, 0) == 1);
  KvCache<float> half({.head_dim = 2, .value_dim = 1, .capacity = 8, .storage = KvStorage::float16});
  half.append(key, value);
  CHECK(heed::scaled_dot_product_attention(query, half, options)(0, 0) == value(0, 0));

  KvCache<float> ring({.head_dim = 2, .value_dim = 1, .capacity = 2, .ring = true});
  options.mask = heed::causal() & heed::window(1, 0);
  ring.append(Matrix<float>(Matrix<float>::Zero(4, 2)), column<float>({1, 2, 4, 8}));
  CHECK(heed::scaled_dot_product_attention(query, ring, options)(0, 0) == 6);
}

TEST_CASE_METHOD(Sevenths, "weights and logsumexp come with the result, and parts can be merged") {
  heed::AttentionResult<double> result;
  result = heed::scaled_dot_product_attention_with_weights(query, key, value, options);
  CHECK(holds(result.out, {21}));
  CHECK(holds(result.weights.head(0), {1 / 7.0, 2 / 7.0, 4 / 7.0}));
  CHECK(holds(result.logsumexp, {std::log(7.0)}));

  const auto part = [&](Index first, Index rows) {
    return heed::scaled_dot_product_attention_with_weights(query, key.middleRows(first, rows),
                                                           value.middleRows(first, rows), options);
  };
  result = part(0, 1);
  const heed::AttentionResult<double> other = part(1, 2);
  heed::merge_attention(result, other);
  CHECK(holds(result.out, {21}));
  CHECK(holds(result.logsumexp, {std::log(7.0)}));
}

TEST_CASE_METHOD(Sevenths, "observers are handed the weights tile by tile") {
  query = column<double>({1, 0});
  heed::TopWeights<double> top(2);
  heed::ColumnSums<double> sums;
  heed::SelectedWeights<double> some({0}, {1});
  double largest = 0;
  auto each = heed::weights_callback<double>([&](const heed::WeightsTile<double>& tile) {
    for (Index j = 0; j < tile.weights.cols; ++j) largest = std::max(largest, tile.weights(0, j));
  });
  out = heed::observe_attention(query, key, value, options, {&top, &sums, &some, &each});
  CHECK(holds(out, {21, 49 / 3.0}));
  CHECK(holds(top.weights.row(0), {4 / 7.0, 2 / 7.0}));
  CHECK(top.keys(0, 0) == 2);
  CHECK(top.keys(0, 1) == 1);
  CHECK(holds(sums.sums, {1 / 7.0 + 1 / 3.0, 2 / 7.0 + 1 / 3.0, 4 / 7.0 + 1 / 3.0}));
  CHECK(holds(some.weights, {1 / 3.0, 1 / 3.0, 1 / 3.0}));
  CHECK(std::abs(largest - 4 / 7.0) < 1e-12);
}

TEST_CASE_METHOD(Sevenths, "functions of the caller change scores and say who sees whom") {
  const auto twice = [](double score, Index, Index, Index, Index) { return 2 * score; };
  options.mask = heed::bottom_right();
  out = heed::flex_attention(query, key, value, twice, heed::SeesAll{}, options);
  CHECK(holds(out, {(7 + 4 * 14 + 16 * 28) / 21.0}));

  const auto even = [](Index, Index, Index, Index key_at) { return key_at % 2 == 0; };
  out = heed::flex_attention(query, key, value, heed::KeepScore{}, heed::visible_where(even), options);
  CHECK(holds(out, {(7 + 4 * 28) / 5.0}));
}

TEST_CASE_METHOD(EqualScores, "an executor changes no bit") {
  heed::ThreadPool pool(2);
  const Matrix<double> alone = means(4, {1, 2, 4, 8});
  options.executor = &pool;
  CHECK(same_bits(means(4, {1, 2, 4, 8}), alone));
}

TEST_CASE("sinks and softcaps that a scalar cannot hold are refused", "[options][sinks][softcap][errors]") {
  const heed::AttentionShape shape{1, 1, 1, 2, 2, 2, 2};
  const auto message = [&](const heed::ScoreOptions& options) {
    return message_of<heed::ArgumentError>([&] { (void)heed::AttentionPlan<float>(shape, {}, options); });
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(contains(message({.sinks = {infinity}}), "a sink is inf, it must be finite"));
  CHECK(contains(message({.sinks = {std::numeric_limits<double>::quiet_NaN()}}), "a sink is nan"));
  CHECK(contains(message({.sinks = {1e300}}), "beyond the largest float"));
  CHECK(message({.sinks = {-infinity}}) == "nothing");
  CHECK(contains(message({.softcap = 1e-50}), "its reciprocal is beyond the largest float"));
  CHECK(contains(message({.softcap = -1}), "softcap is -1"));
  CHECK(contains(message({.softcap = 1e-39}), "its reciprocal is beyond the largest float"));
  CHECK(contains(
      message_of<heed::ArgumentError>([&] { (void)heed::AttentionPlan<float>(shape, heed::alibi({1e39})); }),
      "a slope of alibi is"));
}

TEST_CASE("lengths and matrices that a mask cannot mean are refused", "[options][mask][ragged][errors]") {
  const auto message = [](const heed::AttentionShape& shape, const heed::Mask& mask) {
    return message_of<heed::Error>([&] { (void)heed::AttentionPlan<float>(shape, mask); });
  };
  heed::AttentionShape ragged{2, 1, 1, 1, 3, 2, 2};
  ragged.kv_starts = {0, 1, 4};
  CHECK(message(ragged, heed::kv_lengths({1, 3})) == "nothing");
  CHECK(message(ragged, heed::kv_lengths({3, 3})) == "kv_lengths has 3 for sequence 0, which has 1 key");
  CHECK(message(ragged, heed::kv_lengths({1, -1})) == "kv_lengths has -1 for sequence 1, which has 3 keys");

  const heed::AttentionShape shape{1, 1, 1, 2, 2, 2, 2};
  const Eigen::MatrixXi numbers = Eigen::MatrixXi::Ones(2, 2);
  heed::MaskMatrix matrix{heed::MaskMatrix::Kind::keep, heed::MaskRows::nothing, heed::scalar_type<int>(),
                          heed::untyped(heed::view(numbers))};
  CHECK(message(shape, heed::mask_matrix(matrix)) == "keep_where is no matrix of bool");
  matrix.kind = heed::MaskMatrix::Kind::bias;
  matrix.scalar = {};
  CHECK(contains(message(shape, heed::mask_matrix(matrix)), "bias has another scalar type"));
}
