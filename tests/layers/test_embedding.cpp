// Tokens to vectors, positions, and the generator behind the tutorial's numbers.

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "catch.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/positions.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

nlohmann::json read_json(const std::string& name) {
  std::ifstream file(std::string(HEED_TEST_DATA) + "/" + name);
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

bool near(double a, double b, double tolerance) {
  return std::abs(a - b) < tolerance;
}

}  // namespace

TEST_CASE("the generator gives CPython's numbers for every seed") {
  const nlohmann::json numbers = read_json("tutorial/python_random.json");
  std::size_t seeds = 0;
  for (const auto& group : numbers) {
    for (const auto& [seed, expected] : group.items()) {
      Random first(std::stoull(seed));
      CHECK(first.random() == expected[0].get<double>());
      Random second(std::stoull(seed));
      CHECK(second.uniform(-0.3, 0.3) == expected[1].get<double>());
      ++seeds;
    }
  }
  CHECK(seeds >= 9);
}

TEST_CASE("the generator goes on after its first block of words") {
  // 624 words are made at a time: the second block differs from the first, and both come again from the same
  // seed.
  Random random(1);
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 1300; ++i) words.push_back(random.next_word());
  CHECK(std::vector<std::uint32_t>(words.begin(), words.begin() + 600) !=
        std::vector<std::uint32_t>(words.begin() + 624, words.begin() + 1224));
  Random again(1);
  for (const std::uint32_t word : words) REQUIRE(again.next_word() == word);
}

TEST_CASE("an embedding is a row of the table, filled row by row from one generator") {
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

TEST_CASE("an id outside the table is an exception that names the id, its place and the size") {
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

TEST_CASE("sinusoidal positions have any width, odd ones too") {
  const auto row = [](Index d, Index p) {
    return Matrix<double>(SinusoidalPositions<double>(p + 1, d).rows(p, 1));
  };
  const double odd[] = {0.84147098, 0.54030231, 0.02511622, 0.99968454, 0.00063096};
  for (Index j = 0; j < 5; ++j) CHECK(near(row(5, 1)(0, j), odd[j], 1e-8));
  const double even[] = {0.84147098, 0.54030231, 0.00999983, 0.99995000};
  for (Index j = 0; j < 4; ++j) CHECK(near(row(4, 1)(0, j), even[j], 1e-8));
  for (Index p = 0; p < 20; ++p) CHECK(row(1, p)(0, 0) == std::sin(static_cast<double>(p)));
  CHECK(row(2, 0)(0, 0) == 0);
  CHECK(row(2, 0)(0, 1) == 1);
}

TEST_CASE("the product of two positions depends on their distance alone") {
  const SinusoidalPositions<double> positions(10065, 64);
  const Matrix<double>& table = positions.table();
  for (Index k = 0; k <= 64; k += 8) {
    const double at_zero = table.row(0).dot(table.row(k));
    for (Index p = 0; p <= 10000; p += 97) CHECK(near(table.row(p).dot(table.row(p + k)), at_zero, 1e-9));
  }
  for (Index p = 0; p <= 10000; p += 501) CHECK(near(table.row(p).squaredNorm(), 32, 1e-9));
  const SinusoidalPositions<float> narrow(10065, 64);
  CHECK((narrow.table().cast<double>() - table).cwiseAbs().maxCoeff() < 1e-7);
}

TEST_CASE("positions are added to each sequence, from where it starts, and end at max_len") {
  const SinusoidalPositions<double> positions(8, 6);
  const Matrix<double> x = random_matrix<double>(6, 6, 3);
  const Matrix<double> one = add_positions(x, positions, 2);
  CHECK(same_bits(one, (x + positions.table().middleRows(2, 6)).eval()));
  const Matrix<double> two = add_positions(x, positions, 5, 2);
  CHECK(same_bits(two.bottomRows(3), (x.bottomRows(3) + positions.table().bottomRows(3)).eval()));
  CHECK(contains(message_of<RangeError>([&] { (void)add_positions(x, positions, 3); }), "max_len is 8"));
  CHECK(contains(message_of<RangeError>([&] { (void)add_positions(x, positions, -1); }), "positions -1"));
  CHECK(contains(message_of<RangeError>([&] { (void)positions.rows(std::numeric_limits<Index>::max(), 2); }),
                 "max_len is 8"));
  CHECK(contains(message_of<ShapeError>([&] { (void)add_positions(x.leftCols(5), positions); }),
                 "x has 5 columns"));
  CHECK(contains(message_of<ShapeError>([&] { (void)add_positions(x, positions, 0, 4); }), "4 sequences"));
  CHECK(add_positions(Matrix<double>(0, 6), positions, 8).rows() == 0);
  CHECK(contains(message_of<ShapeError>([] { SinusoidalPositions<double>(4, 0); }), "d_model"));
}
