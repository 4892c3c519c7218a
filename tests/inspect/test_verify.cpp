// Probes: one finds a leak of the future and says where, one finds the row of weights that is no
// distribution.

#include <cmath>

#include "catch.hpp"
#include "heed/inspect/verify.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

bool near(double a, double b, double tolerance = 1e-7) {
  return std::abs(a - b) < tolerance;
}

}  // namespace

TEST_CASE("the causal probe passes a causal layer and finds the leak of one that is not", "[verify][mask]") {
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

TEST_CASE("the row-sum probe says which row is no distribution", "[verify]") {
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
