// Sinusoidal positions: their numbers for any width, distances as products, and where they are added and end.

#include <cmath>
#include <limits>

#include "catch.hpp"
#include "heed/layers/positions.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

bool near(double a, double b, double tolerance) {
  return std::abs(a - b) < tolerance;
}

}  // namespace

TEST_CASE("sinusoidal positions have any width, odd ones too", "[positions]") {
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

TEST_CASE("the product of two positions depends on their distance alone", "[positions]") {
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

TEST_CASE("positions are added to each sequence, from where it starts, and end at max_len", "[positions]") {
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
