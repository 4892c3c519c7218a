// Embeddings: rows of the table, ids outside of it refused by name and place, and gradients as differences
// have them.

#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "heed/core/random.hpp"
#include "heed/core/token.hpp"
#include "heed/layers/embedding.hpp"
#include "helpers.hpp"
#include "layer_laws.hpp"

namespace {

using namespace heed;
using namespace heed::test;

}  // namespace

TEST_CASE("an embedding is a row of the table, filled row by row from one generator", "[embedding]") {
  Random random(0xC0FFEE);
  const TokenEmbedding<double> embedding(78, 16, random);
  Random same(0xC0FFEE);
  CHECK(embedding.table(0, 0) == same.uniform(-0.25, 0.25));
  CHECK(embedding.table(0, 1) == same.uniform(-0.25, 0.25));
  const auto rows = embedding.forward({33, 0, 77, 33});
  CHECK(same_bits(rows.row(0), embedding.table.row(33)));
  CHECK(same_bits(rows.row(1), embedding.table.row(0)));
  CHECK(same_bits(rows.row(2), embedding.table.row(77)));
  CHECK(same_bits(rows.row(3), embedding.table.row(33)));
  CHECK(embedding.forward(std::vector<std::int32_t>{}).rows() == 0);
}

TEST_CASE("an id outside the table is an exception that names the id, its place and the size",
          "[embedding][errors]") {
  Random random(1);
  const TokenEmbedding<float> embedding(10, 4, random);
  const auto message = [&](auto id) {
    return message_of<RangeError>([&] {
      (void)embedding.forward(std::vector{decltype(id){0}, decltype(id){9}, id});
    });
  };
  CHECK(message(9) == "nothing");
  CHECK(message(10) == "id 10 at position 2 is not in the embedding table, which has 10 rows");
  CHECK(message(-1) == "id -1 at position 2 is not in the embedding table, which has 10 rows");
  CHECK(contains(message(2147483647), "id 2147483647 "));
  CHECK(contains(message(4294967295U), "id 4294967295 "));
  CHECK(contains(message(18446744073709551615ULL), "id 18446744073709551615 "));
  CHECK(contains(message_of<ShapeError>([&] { TokenEmbedding<float>(0, 4, random); }), "vocab_size is 0"));
}

TEMPLATE_TEST_CASE("gradients of an embedding are those of differences, of a token that comes again too",
                   "[embedding][gradient]", double, long double) {
  using T = TestType;
  TokenEmbedding<T> layer(6, 3, drawing());
  const std::vector<TokenId> ids = {4, 0, 4, 5, 4};
  const Matrix<T> factors = random_matrix<T>(5, 3, 12);
  TokenEmbedding<T> gradients = zeros_like(layer);
  layer.backward(ids, factors, gradients);
  check_gradient("table", mutable_view(layer.table), mutable_view(gradients.table), T(0),
                 [&] { return weighted_sum(layer.forward(ids), factors); });
  // They are added, from any matrix.
  const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> by_columns = factors;
  layer.backward(std::span<const TokenId>(ids), by_columns, gradients);
  CHECK(gradients.table.row(5) == (factors.row(3) + factors.row(3)).eval());
  CHECK(gradients.table.row(1).isZero(0));
}
