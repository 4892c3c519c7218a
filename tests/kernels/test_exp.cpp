// The one exponential of every path, over its whole range.

#include <algorithm>
#include <cmath>

#include "catch.hpp"
#include "heed/core/isa.hpp"
#include "helpers.hpp"
#include "kernels/kernels.hpp"

namespace {

using namespace heed;
using namespace heed::test;

template <class Scalar>
std::vector<Scalar> exps(const std::vector<Scalar>& x) {
  std::vector<Scalar> y(x.size());
  kernels::kernels_of<Scalar>(kernels::table()).exp(x.data(), y.data(), static_cast<Index>(x.size()));
  return y;
}

#if defined(HEED_EMULATED)
constexpr int kArguments = 100000;
#else
constexpr int kArguments = 2000000;
#endif

/// Arguments over (-lowest, 0], dense near 0 and at the cuts of the range reduction.
template <class Scalar>
std::vector<Scalar> arguments(double lowest) {
  std::vector<Scalar> x;
  for (int i = 0; i <= kArguments; ++i) x.push_back(static_cast<Scalar>(lowest * i / kArguments));
  for (int i = 0; i < 4000; ++i) x.push_back(static_cast<Scalar>(-std::exp2(-0.05 * i)));
  for (int n = 0; n < static_cast<int>(-lowest / 0.6931); ++n) {
    const auto cut = static_cast<Scalar>(-(n + 0.5) * 0.693147180559945309);
    for (const Scalar a : {cut, std::nextafter(cut, Scalar(0)), std::nextafter(cut, Scalar(-1000))})
      x.push_back(a);
  }
  return x;
}

}  // namespace

#if defined(__aarch64__)
TEST_CASE("AArch64 has one instruction set, NEON", "[exp]") {
  CHECK(std::string(isa()) == "neon");
}
#endif

TEMPLATE_TEST_CASE("exp is within 1.2 ulp wherever its result is normal", "[exp]", float, double) {
  const double lowest = sizeof(TestType) == 4 ? -87.3 : -708.3;
  const auto x = arguments<TestType>(lowest);
  const auto y = exps(x);
  long double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] < static_cast<TestType>(lowest)) continue;
    const long double exact = std::exp(static_cast<long double>(x[i]));
    const auto rounded = static_cast<TestType>(exact);
    const long double ulp = static_cast<long double>(std::nextafter(rounded, kInf<TestType>)) - rounded;
    worst = std::max(worst, std::abs(y[i] - exact) / ulp);
  }
  CAPTURE(static_cast<double>(worst));
  CHECK(static_cast<double>(worst) <= 1.2);
}

TEMPLATE_TEST_CASE("exp of 0 is 1, of -inf and far below 0, of NaN NaN, in every lane", "[exp]", float,
                   double) {
  const std::vector<TestType> x(67, TestType(0));
  for (const TestType y : exps(x)) CHECK(y == 1);
  for (const TestType tiny :
       {-kInf<TestType>, -std::numeric_limits<TestType>::max(), TestType(-1e30), TestType(-800)}) {
    for (const TestType y : exps(std::vector<TestType>(67, tiny))) {
      CHECK(y == 0);
      CHECK_FALSE(std::signbit(y));
    }
  }
  for (const TestType y : exps(std::vector<TestType>(67, kNaN<TestType>))) CHECK(std::isnan(y));
  for (const TestType y : exps(std::vector<TestType>(67, -kNaN<TestType>))) CHECK(std::isnan(y));
  CHECK(exps(std::vector<TestType>{-std::numeric_limits<TestType>::denorm_min()})[0] == 1);
}

TEMPLATE_TEST_CASE("exp has the same bits in every lane and never grows as its argument falls", "[exp]",
                   float, double) {
  std::vector<TestType> x;
  for (int i = 0; i < 100000; ++i) x.push_back(static_cast<TestType>(-i * 1e-3));
  const auto together = exps(x);
  for (std::size_t i = 0; i < x.size(); i += 37) {
    const auto alone = exps(std::vector<TestType>{x[i]});
    CHECK(std::memcmp(&alone[0], &together[i], sizeof(TestType)) == 0);
  }
  CHECK(std::is_sorted(together.rbegin(), together.rend()));
}
