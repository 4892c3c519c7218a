// The whole pipeline gives the tutorial's numbers.

#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "heed/heed.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;
using nlohmann::json;

const json& tutorial() {
  static const json numbers = [] {
    std::ifstream file(std::string(HEED_TEST_DATA) + "/tutorial/attention_demo.json");
    return json::parse(file);
  }();
  return numbers;
}

/// Largest difference between a matrix and its rows in the tutorial.
double distance(const Matrix<double>& actual, const json& rows) {
  REQUIRE(static_cast<std::size_t>(actual.rows()) == rows.size());
  double largest = 0;
  for (Index i = 0; i < actual.rows(); ++i) {
    const auto expected = rows[static_cast<std::size_t>(i)].get<std::vector<double>>();
    REQUIRE(static_cast<std::size_t>(actual.cols()) == expected.size());
    for (Index j = 0; j < actual.cols(); ++j) {
      largest = std::max(largest, std::abs(actual(i, j) - expected[static_cast<std::size_t>(j)]));
    }
  }
  return largest;
}

struct Pipeline {
  BpeTokenizer tokenizer =
      train_bpe(tutorial()["corpus"].get<std::string>(),
                {.vocab_size = tutorial()["vocab_size"], .min_frequency = tutorial()["min_frequency"]});
  std::vector<TokenId> ids = tokenizer.encode(tutorial()["text"].get<std::string>());
  Random embedding_random{tutorial()["embedding"]["seed"].get<std::uint64_t>()};
  TokenEmbedding<double> embedding{tokenizer.vocab_size(), 16, embedding_random};
  SinusoidalPositions<double> positions{8, 16};
  Matrix<double> x = add_positions(embedding.forward(ids), positions);
  Random projection_random{tutorial()["projections"]["seed"].get<std::uint64_t>()};
  MultiHeadAttention<double> attention{16, tutorial()["num_heads"], projection_random, 0.3};
};

}  // namespace

TEST_CASE("the tokenizer learns the tutorial's 78 tokens and 47 merges", "[tutorial]") {
  const Pipeline p;
  CHECK(p.tokenizer.vocab_size() == 78);
  CHECK(p.tokenizer.merges().size() == 47);
  for (const auto& [token, id] : tutorial()["vocab"].items())
    CHECK(p.tokenizer.token_to_id(token) == id.get<TokenId>());
  CHECK(p.ids == tutorial()["ids"].get<std::vector<TokenId>>());
}

TEST_CASE("embedding, positions, projections, weights and output agree with the tutorial to 1e-12",
          "[tutorial]") {
  const Pipeline p;
  CHECK(distance(p.embedding.forward(p.ids), tutorial()["embedding"]["rows_of_ids"]) < 1e-15);
  CHECK(distance(p.positions.table(), tutorial()["positional"]) < 1e-12);
  CHECK(distance(p.x, tutorial()["combined"]) < 1e-12);
  CHECK(distance(p.attention.w_q.topRows(1), json::array({tutorial()["projections"]["w_q_row0"]})) < 1e-15);
  CHECK(distance(p.attention.w_o.bottomRows(1), json::array({tutorial()["projections"]["w_o_row15"]})) <
        1e-15);
  LayerOptions options;
  options.mask = causal();
  const auto result = p.attention.forward_with_weights(p.x, options);
  CHECK(distance(result.out, tutorial()["output"]) < 1e-12);
  CHECK(distance(result.weights.head(0), tutorial()["weights_head0"]) < 1e-12);
  CHECK(distance(result.weights.head(1), tutorial()["weights_head1"]) < 1e-12);
  CHECK(same_bits(result.out, multi_head_attention(p.x, p.attention.w_q, p.attention.w_k, p.attention.w_v,
                                                   p.attention.w_o, 2, causal_mask(4))));
}

TEST_CASE("changing the future as the tutorial does changes what it changes there, and nothing at position 0",
          "[tutorial]") {
  const Pipeline p;
  Random random(tutorial()["perturbed"]["seed"].get<std::uint64_t>());
  Matrix<double> other = p.x;
  for (Index i = 1; i < 4; ++i) {
    for (Index j = 0; j < 16; ++j) other(i, j) = random.uniform(-1, 1);
  }
  LayerOptions options;
  options.mask = causal();
  const Matrix<double> before = p.attention.forward(p.x, options);
  const Matrix<double> after = p.attention.forward(other, options);
  CHECK(distance(after, tutorial()["perturbed"]["output"]) < 1e-12);
  CHECK(same_bits(before.row(0), after.row(0)));
}

TEST_CASE("the heat map is drawn as in the tutorial", "[tutorial]") {
  const Pipeline p;
  LayerOptions options;
  options.mask = causal();
  std::string expected;
  for (const auto& row : tutorial()["heat_map_head0"]) expected += row.get<std::string>() + "\n";
  CHECK(heat_map(p.attention.forward_with_weights(p.x, options).weights.head(0)) == expected);
}
