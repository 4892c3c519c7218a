// Compiled with -ffast-math, where std::isnan and std::isinf are false for every number.

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <heed/core/float_bits.hpp>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/plot/heat_map.hpp"

namespace {

template <class T>
struct Numbers {
  std::vector<T> finite{T(0),
                        T(-0.0),
                        T(1),
                        T(-1),
                        std::numeric_limits<T>::min(),
                        std::numeric_limits<T>::denorm_min(),
                        -std::numeric_limits<T>::denorm_min(),
                        std::numeric_limits<T>::max(),
                        std::numeric_limits<T>::lowest()};
  std::vector<T> nan{std::numeric_limits<T>::quiet_NaN(), -std::numeric_limits<T>::quiet_NaN(),
                     std::numeric_limits<T>::signaling_NaN()};
};

}  // namespace

TEMPLATE_TEST_CASE("NaN and infinity are told from numbers in a program that is built with -ffast-math",
                   "[fast_math]", float, double) {
  using heed::detail::is_finite;
  using heed::detail::is_infinite;
  using heed::detail::is_minus_infinity;
  using heed::detail::is_nan;
#ifdef __FAST_MATH__
  const bool fast_math = true;
#else
  const bool fast_math = false;
#endif
  REQUIRE(fast_math);
  const Numbers<TestType> numbers;
  for (const TestType& x : numbers.finite) {
    CHECK((is_finite(x) && !is_nan(x) && !is_infinite(x) && !is_minus_infinity(x)));
  }
  for (const TestType& x : numbers.nan) {
    CHECK((!is_finite(x) && is_nan(x) && !is_infinite(x) && !is_minus_infinity(x)));
  }
  const std::vector<TestType> infinite{std::numeric_limits<TestType>::infinity(),
                                       -std::numeric_limits<TestType>::infinity()};
  for (const TestType& x : infinite) {
    CHECK((!is_finite(x) && !is_nan(x) && is_infinite(x)));
  }
  CHECK(!is_minus_infinity(infinite[0]));
  CHECK(is_minus_infinity(infinite[1]));
}

TEST_CASE("a picture of NaN has its sign and its line in every form in a program built with -ffast-math",
          "[fast_math]") {
  std::vector<float> values(6, 0.5F);
  const std::uint32_t bits = 0x7FC0'0000;  // NaN, of which the compiler is not told
  std::memcpy(&values[2], &bits, sizeof bits);
  const auto count = [](const std::string& text, char wanted) {
    return std::count(text.begin(), text.end(), wanted);
  };
  for (const heed::HeatMapForm form : {heed::HeatMapForm::blocks, heed::HeatMapForm::ascii,
                                       heed::HeatMapForm::indexed_color, heed::HeatMapForm::true_color}) {
    for (const heed::AsciiCells cells : {heed::AsciiCells::ramp, heed::AsciiCells::numbers}) {
      heed::HeatMapOptions options;
      options.form = form;
      options.ascii_cells = cells;
      for (const heed::Reduction reduction : {heed::Reduction::mean, heed::Reduction::largest}) {
        options.reduction = reduction;
        const std::string picture =
            heed::heat_map(Eigen::Map<const Eigen::MatrixXf>(values.data(), 2, 3), options);
        CAPTURE(picture);
        CHECK(picture.find("? is NaN (1 cell)") != std::string::npos);
        CHECK(count(picture, '?') == 2);
      }
    }
  }
}
