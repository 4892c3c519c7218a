// Dropout: the numbers of Philox4x32-10, which depend on place, seed and stream alone; its rate, its mean,
// and its gradient.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "catch.hpp"
#include "heed/layers/dropout.hpp"
#include "heed/layers/rows.hpp"
#include "helpers.hpp"
#include "layer_laws.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Philox4x32-10 as the paper has it (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The number of element (row, col) of a matrix: count n of the stream makes elements 4 n ... 4 n + 3.
std::uint32_t number_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t element) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const std::uint64_t count = element / 4;
  return philox({low(count), high(count), low(stream), high(stream)}, {low(seed), high(seed)})[element % 4];
}

Matrix<int> dropped(const Matrix<float>& out) {
  return out.unaryExpr([](float x) { return x == 0 ? 1 : 0; });
}

}  // namespace

TEST_CASE("dropout has the numbers of Philox4x32-10, known answers first", "[dropout]") {
  // kat_vectors of Random123.
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

  // A rate of number / 2^32 keeps an element, the next larger one drops it: so the number can be seen.
  const auto check = [](std::uint64_t seed, std::uint64_t stream, Index first_row, Index cols) {
    CAPTURE(seed, stream, first_row, cols);
    const Matrix<float> x = Matrix<float>::Ones(1, cols);
    Matrix<float> out(1, cols);
    const auto drops = [&](double number, Index col) {
      RowFunctions<float>::dropout({number * 0x1p-32, seed, stream}, view(x), mutable_view(out), first_row);
      return out(0, col) == 0;
    };
    for (Index col = 0; col < cols; ++col) {
      const std::uint32_t number =
          number_at(seed, stream, static_cast<std::uint64_t>(first_row * cols + col));
      CAPTURE(col, number);
      REQUIRE_FALSE(drops(number, col));
      REQUIRE(drops(number + 1.0, col));
    }
  };
  check(0, 0, 0, 4);
  check(0, 0, 1, 4);
  check(1, 2, 3, 130);
  check(0xa4093822299f31d0, 0x13198a2e03707344, 77, 21);
  check(~std::uint64_t{0}, ~std::uint64_t{0}, 5, 7);
  // Element numbers beyond 32 bits, and counts beyond them.
  check(9, 9, Index{1} << 30, 5);
  check(9, 9, Index{1} << 40, 66);
}

TEMPLATE_TEST_CASE("which elements are dropped depends on their places, the seed and the stream alone",
                   "[dropout][threads]", float, double) {
  using T = TestType;
  const Matrix<T> x = random_matrix<T>(300, 131, 1);
  const DropoutOptions options{0.25, 11, 12};
  const Matrix<T> out = dropout(x, options);
  // Any machine, any instruction set and scalar type: what this page computes itself.
  const auto threshold = static_cast<std::uint32_t>(0.25 * 0x1p32);
  for (Index i = 0; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) {
      const std::uint32_t number = number_at(11, 12, static_cast<std::uint64_t>(i * 131 + j));
      REQUIRE(out(i, j) == (number < threshold ? T(0) : x(i, j) * static_cast<T>(1 / 0.75)));
    }
  }
  for (const Index threads : {1, 4}) CHECK(same_bits(dropout(x, options, &pool_of(threads)), out));
  for (const Index block : {1, 7, 64, 299}) {
    Matrix<T> parts(300, 131);
    for (Index first = 0; first < 300; first += block) {
      const Index rows = std::min(block, 300 - first);
      RowFunctions<T>::dropout(options, view(x).block(first, 0, rows, 131),
                               mutable_view(parts).block(first, 0, rows, 131), first, &pool_of(4));
    }
    CHECK(same_bits(parts, out));
  }
  for (const auto layout :
       {Laid<T>::by_columns, Laid<T>::misaligned, Laid<T>::every_third, Laid<T>::backwards}) {
    const Laid<T> in(x, layout);
    const Laid<T> to(x, layout);
    RowFunctions<T>::dropout(options, in.view(), to.view());
    CHECK(same_bits(to.values(), out));
    CHECK(to.rest_untouched());
    RowFunctions<T>::dropout(options, in.view(), in.view());
    CHECK(same_bits(in.values(), out));
  }
  CHECK(dropout(Matrix<T>(0, 4), options).rows() == 0);
  CHECK(dropout(Matrix<T>(4, 0), options).cols() == 0);
}

TEST_CASE("dropout drops at its rate, others with another seed or stream, and keeps the mean", "[dropout]") {
  constexpr Index n = 1000;
  const Matrix<float> x = Matrix<float>::Ones(n, n);
  const auto drops = [&](const DropoutOptions& options) { return dropped(dropout(x, options)); };
  for (const double rate : {0.001, 0.1, 0.5, 0.9, 0.999}) {
    CAPTURE(rate);
    const double count = drops({rate, 1, 2}).sum();
    // Five standard deviations: once in two million seeds.
    CHECK(std::abs(count - rate * n * n) <= 5 * std::sqrt(rate * (1 - rate)) * n);
    const double mean = dropout(x, {rate, 1, 2}).cast<double>().mean();
    CHECK(std::abs(mean - 1) <= 5 * std::sqrt(rate / (1 - rate)) / n + 1e-6);
  }
  const auto agreed = [](const auto& a, const auto& b) {
    return static_cast<double>((a.array() == b.array()).count());
  };
  // Places that two patterns agree on are as many as chance has it: half, at a rate of a half.
  const Matrix<int> pattern = drops({0.5, 1, 2});
  for (const DropoutOptions& other : {DropoutOptions{0.5, 2, 2},
                                      {0.5, 1, 3},
                                      {0.5, 2, 1},
                                      {0.5, 1 + (std::uint64_t{1} << 32), 2},
                                      {0.5, 1, 2 + (std::uint64_t{1} << 32)}}) {
    CHECK(std::abs(agreed(pattern, drops(other)) - 0.5 * n * n) <= 5 * 0.5 * n);
  }
  // Neighbors in a row and in a column know nothing of each other.
  CHECK(std::abs(agreed(pattern.leftCols(n - 1), pattern.rightCols(n - 1)) - 0.5 * n * (n - 1)) <= 2.5 * n);
  CHECK(std::abs(agreed(pattern.topRows(n - 1), pattern.bottomRows(n - 1)) - 0.5 * n * (n - 1)) <= 2.5 * n);
}

TEMPLATE_TEST_CASE("a rate of 0 keeps everything, a rate outside [0, 1) is an error", "[dropout][errors]",
                   float, double) {
  using T = TestType;
  const Matrix<T> x = random_matrix<T>(20, 30, 1);
  CHECK(same_bits(dropout(x, {}), x));
  CHECK(same_bits(dropout(x, {0, 5, 6}), x));
  const double nearly = std::nextafter(1.0, 0.0);
  CHECK(dropout(x, {nearly, 1, 1}).isZero(0));
  for (const double rate : {1.0, -0.1, 2.0, -1e-300, kNaN<double>, kInf<double>}) {
    CHECK(contains(message_of<ArgumentError>([&] { (void)dropout(x, {rate, 1, 1}); }), "dropout rate"));
  }
  // What is dropped is gone, also where it is no number.
  Matrix<T> bad = Matrix<T>::Constant(1, 200, kNaN<T>);
  const Matrix<T> out = dropout(bad, {0.5, 1, 1});
  CHECK((out.array() == 0 || out.array().isNaN()).all());
  CHECK((out.array() == 0).any());
}

TEST_CASE("the gradient of dropout is dropout of the gradient", "[dropout][gradient]") {
  Matrix<double> x = random_matrix<double>(4, 9, 14);
  const Matrix<double> factors = random_matrix<double>(4, 9, 15);
  const DropoutOptions options{0.3, 5, 6};
  Matrix<double> grad = dropout(factors, options);
  check_gradient("x", mutable_view(x), mutable_view(grad), 0.0,
                 [&] { return weighted_sum(dropout(x, options), factors); });
}
