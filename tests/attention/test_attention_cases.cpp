// Attention on numbers that can be checked by hand: heads that share keys and values, the scale, the softmax
// along the keys, and a prompt split at every place against a cache.

#include <cmath>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/attention/mask_matrix.hpp"
#include "heed/attention/scaled_dot_product_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

bool near(double a, double b, double tolerance = 1e-7) {
  return std::abs(a - b) < tolerance;
}

}  // namespace

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

TEST_CASE("heads that share keys read them in blocks, with a bias, slope and sink for each query head",
          "[attention][heads][bias][sinks]") {
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
