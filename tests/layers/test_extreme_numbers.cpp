// Numbers whose squares or exponentials are none: norms, gradients' norms and Adam do not depend on the scale
// of what they get, and activations are exact over the whole range of their type.

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/core/isa.hpp"
#include "heed/layers/activation.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/optimizer.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

using Exact = long double;

/// Powers of two, from the smallest number on (subnormal ones included) to the largest.
template <class T>
std::vector<T> powers_of_two(int step = 1) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> powers;
  for (int e = Limits::min_exponent - Limits::digits; e < Limits::max_exponent; e += step)
    powers.push_back(std::ldexp(T(1), e));
  return powers;
}

template <class T>
struct NormRun {
  Matrix<T> out;
  Matrix<T> grad_x;
  RowVector<T> grad_weight;
};

/// A norm of x forward and backward, with weights of 1.
template <class T>
NormRun<T> run_norm(const Matrix<T>& x, const Matrix<T>& grad_out, const NormOptions& options) {
  const Norm<T> norm(x.cols(), options.centered, options);
  Norm<T> gradients = zeros_like(norm);
  NormRun<T> run{norm.forward(x), {}, {}};
  run.grad_x = norm.backward(x, grad_out, gradients);
  run.grad_weight = gradients.weight;
  return run;
}

template <class T>
bool close(T a, Exact b, Exact scale) {
  return std::abs(static_cast<Exact>(a) - b) <=
         16 * std::numeric_limits<T>::epsilon() * scale + std::numeric_limits<T>::denorm_min();
}

}  // namespace

TEMPLATE_TEST_CASE("a norm of s (1, -1, 1, -1) is (1, -1, 1, -1) up to the largest number, with its gradient",
                   "[numbers][gradient]", float, double, long double) {
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  // 37 columns: whole packets and a rest. RMSNorm has the same rows.
  for (const Index cols : {4, 38}) {
    for (const bool centered : {true, false}) {
      Matrix<T> pattern(1, cols);
      for (Index j = 0; j < cols; ++j) pattern(0, j) = j % 2 == 0 ? T(1) : T(-1);
      const Matrix<T> grad_out = random_matrix<T>(1, cols, 3);
      const NormOptions options{centered, 1e-5};
      const auto at_one = run_norm<T>(pattern, grad_out, {centered, 1e-30});
      std::vector<T> scales = {T(1e19F), T(3e38F), Limits::max(), Limits::max() / 4, Limits::max() / 3};
      for (const T power : powers_of_two<T>(std::is_same_v<T, long double> ? 1001 : 1))
        scales.push_back(power);
      for (const T s : scales) {
        CAPTURE(cols, centered, static_cast<Exact>(s));
        const auto run = run_norm<T>(pattern * s, grad_out, options);
        // s / sqrt(s^2 + epsilon), as a quotient that does not overflow.
        const Exact root = std::sqrt(Exact(1e-5));
        const Exact ratio = root / s;
        const Exact size =
            s >= 1 ? 1 / std::sqrt(1 + ratio * ratio) : s / std::sqrt(Exact(s) * s + Exact(1e-5));
        for (Index j = 0; j < cols; ++j) {
          REQUIRE(close<T>(run.out(0, j), size * pattern(0, j), size));
          if (s < T(1e15F)) continue;
          // Without epsilon the gradient falls as 1 / s.
          REQUIRE(close<T>(run.grad_x(0, j), at_one.grad_x(0, j) / Exact(s), 4 / Exact(s)));
          REQUIRE(close<T>(run.grad_weight(j), Exact(grad_out(0, j)) * pattern(0, j), 1));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("rows at both ends of a type have the norm of the same row in the middle", "[numbers]",
                   float, double) {
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  for (const Index cols : {3, 40}) {
    const Matrix<T> row = random_matrix<T>(1, cols, 5) + Matrix<T>::Constant(1, cols, T(0.25));
    const Matrix<T> grad_out = random_matrix<T>(1, cols, 6);
    for (const bool centered : {true, false}) {
      // Epsilon is small beside the large rows and, where it is the smallest number, beside the small ones.
      const auto middle = run_norm<T>(row, grad_out, {centered, 1e-30});
      const auto large =
          run_norm<T>(row * std::ldexp(T(1), Limits::max_exponent - 1), grad_out, {centered, 1e-5});
      const T tiny = std::ldexp(T(1), Limits::min_exponent / 2 + 8);
      const auto small =
          run_norm<T>(row * tiny, grad_out, {centered, static_cast<double>(Limits::denorm_min())});
      for (Index j = 0; j < cols; ++j) {
        CAPTURE(cols, centered, j);
        REQUIRE(close<T>(large.out(0, j), middle.out(0, j), 4));
        REQUIRE(close<T>(small.grad_weight(j), middle.grad_weight(j), 4));
        REQUIRE(close<T>(small.out(0, j), middle.out(0, j), 4));
        REQUIRE(close<T>(small.grad_x(0, j) * tiny, middle.grad_x(0, j), 8));
      }
    }
  }
}

TEMPLATE_TEST_CASE("LayerNorm of equal elements is 0, and an ordinary row has its bits beside them",
                   "[numbers]", float, double, long double) {
  using T = TestType;
  const Matrix<T> ordinary = random_matrix<T>(1, 13, 8);
  const auto alone = run_norm<T>(ordinary, ordinary, {});
  for (const T value : {T(1e18F), T(0.1F) * T(1e25F), T(0.1F), std::numeric_limits<T>::max()}) {
    Matrix<T> x(2, 13);
    x.row(0).setConstant(-value);
    x.row(1) = ordinary;
    Matrix<T> grad = Matrix<T>::Zero(2, 13);
    grad.row(1) = ordinary;
    const auto run = run_norm<T>(x, grad, {});
    CAPTURE(static_cast<Exact>(value));
    CHECK(run.out.row(0).cwiseAbs().maxCoeff() <= 64 * std::numeric_limits<T>::epsilon());
    CHECK(run.out.row(1) == alone.out);
    CHECK(run.grad_x.row(1) == alone.grad_x);
  }
}

TEMPLATE_TEST_CASE("gradients of any size have their norm, and are clipped to it", "[numbers][gradient]",
                   float, double) {
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  Matrix<T> value = Matrix<T>::Zero(3, 50);
  const Matrix<T> pattern = random_matrix<T>(3, 50, 9);
  const Exact expected = pattern.template cast<Exact>().norm();
  for (const T power : powers_of_two<T>(sizeof(T) == 4 ? 1 : 7)) {
    if (power < Limits::min() / Limits::epsilon()) continue;  // the pattern itself has lost digits there
    if (power > Limits::max() / 16) continue;  // the norm of doubles is beyond all doubles there
    Matrix<T> grad = pattern * power;
    const std::vector<Parameter<T>> weights = {{"w", mutable_view(value), mutable_view(grad)}};
    CAPTURE(static_cast<double>(power));
    const double norm = gradient_norm(weights);
    REQUIRE(std::abs(norm / static_cast<double>(power) - static_cast<double>(expected)) <=
            1e-6 * static_cast<double>(expected));
    if (norm <= 1) continue;
    REQUIRE(clip_gradients(weights, 1.0) == norm);
    REQUIRE(std::abs(gradient_norm(weights) - 1) <= 1e-5);
  }
  Matrix<T> grad = pattern * Limits::max();
  grad(2, 3) = kInf<T>;
  CHECK(gradient_norm(std::vector<Parameter<T>>{{"w", mutable_view(value), mutable_view(grad)}}) ==
        kInf<double>);
  grad(2, 3) = kNaN<T>;
  grad(1, 3) = Limits::max();
  CHECK(std::isnan(gradient_norm(std::vector<Parameter<T>>{{"w", mutable_view(value), mutable_view(grad)}})));
  grad.setZero();
  CHECK(gradient_norm(std::vector<Parameter<T>>{{"w", mutable_view(value), mutable_view(grad)}}) == 0);
}

TEMPLATE_TEST_CASE("Adam's first step is the rate for a gradient of any size, and its weight learns on",
                   "[numbers][gradient]", float, double) {
  using T = TestType;
  for (const T size :
       {T(1), T(1e18F), T(1e25F), std::numeric_limits<T>::max() / 2, std::numeric_limits<T>::max()}) {
    CAPTURE(static_cast<double>(size));
    Matrix<T> value = Matrix<T>::Zero(2, 19);
    Matrix<T> grad = Matrix<T>::Constant(2, 19, T(0.5));
    grad(1, 7) = -size;
    const std::vector<Parameter<T>> weights = {{"w", mutable_view(value), mutable_view(grad)}};
    AdamW<T> adam(weights, {.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0});
    adam.step(weights, 0.25);
    CHECK(std::abs(value(1, 7) - T(0.25)) <= T(1e-5F));
    CHECK(std::abs(value(0, 0) + T(0.25)) <= T(1e-5F));
    for (const T v : adam.second_moments()) CHECK(std::isfinite(v));
    const T before = value(1, 7);
    adam.step(weights, 0.25);
    CHECK(value(1, 7) > before + T(0.15F));
    CHECK(value(1, 7) < before + T(0.3F));
  }
  // What is no number is not made one.
  for (const T bad : {kInf<T>, kNaN<T>}) {
    Matrix<T> value = Matrix<T>::Zero(1, 9);
    Matrix<T> grad = Matrix<T>::Ones(1, 9);
    grad(0, 4) = bad;
    const std::vector<Parameter<T>> weights = {{"w", mutable_view(value), mutable_view(grad)}};
    AdamW<T> adam(weights);
    adam.step(weights, 0.25);
    CHECK(std::isnan(value(0, 4)));
    CHECK(std::isfinite(value(0, 3)));
  }
}

TEMPLATE_TEST_CASE("losses of any finite logits have finite gradients, and their mean does not overflow",
                   "[numbers][gradient]", float, double) {
  using T = TestType;
  constexpr T most = std::numeric_limits<T>::max();
  Matrix<T> logits(3, 3);
  logits << most, -most, 0, most / 2, 0, -most / 2, -most, -most, -most;
  for (const double smoothing : {0.0, 0.1}) {
    const auto result = cross_entropy_with_gradient(logits, std::vector<TokenId>{0, 1, 2},
                                                    CrossEntropyOptions{.label_smoothing = smoothing});
    CAPTURE(smoothing);
    CHECK(std::isfinite(result.loss));
    CHECK(result.grad_logits.allFinite());
  }
  // Two losses of half the largest number and more: their sum is none, their mean is.
  Matrix<double> huge = Matrix<double>::Zero(2, 2);
  huge.col(1).setConstant(1.2e308);
  CHECK(cross_entropy(huge, std::vector<TokenId>{0, 0}) == 1.2e308);
}

namespace {

struct ExactValue {
  Exact value;
  Exact slope;
  Exact slope_terms;  // the sizes of what the slope is the sum of: it has a root, where its digits cancel
  Exact argument;     // of the exponential: its rounding counts as often in a tail
};

Exact sigmoid(Exact x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

ExactValue exact_activation_at(Activation kind, Exact x) {
  switch (kind) {
    case Activation::gelu: {
      const Exact phi = std::erfc(-x / std::sqrt(Exact(2))) / 2;
      const Exact density = std::exp(-x * x / 2) * 0.39894228040143267793994605993438187L;
      return {x * phi, phi + x * density, phi + std::abs(x) * density, std::min<Exact>(x * x / 2, 11000)};
    }
    case Activation::gelu_tanh: {
      const Exact c = 2 * 0.79788456080286535587989211986876373L;
      const Exact u = std::clamp<Exact>(c * (x + 0.044715L * x * x * x), -11000, 11000);
      const Exact du = c * (1 + 3 * 0.044715L * x * x);
      const Exact bend = std::abs(u) < 11000 ? x * du * sigmoid(u) * sigmoid(-u) : 0;
      return {x * sigmoid(u), sigmoid(u) + bend, sigmoid(u) + std::abs(bend), std::abs(u)};
    }
    case Activation::silu: {
      const Exact bounded = std::clamp<Exact>(x, -11000, 11000);
      const Exact bend = bounded * sigmoid(bounded) * sigmoid(-bounded);
      return {x * sigmoid(bounded), sigmoid(bounded) + bend, sigmoid(bounded) + std::abs(bend), 0};
    }
    case Activation::relu:
      break;
  }
  return {std::max<Exact>(x, 0), x > 0 ? Exact(1) : Exact(0), x > 0 ? Exact(1) : Exact(0), 0};
}

/// Every exponent with several mantissas, both signs, subnormal numbers, and the tails densely.
template <class T>
std::vector<T> whole_range() {
  std::vector<T> numbers;
  for (const T power : powers_of_two<T>()) {
    for (const double mantissa : {1.0, 1.1, 1.3333333333333333, 1.5, 1.7, 1.9999999999})
      numbers.push_back(power * static_cast<T>(mantissa));
  }
  numbers.push_back(std::numeric_limits<T>::max());
  const double end = sizeof(T) == 4 ? 112 : 760;
  const int dense = kSlowRun ? 4000 : 60000;
  for (int i = 0; i < dense; ++i) numbers.push_back(static_cast<T>(end * (i + 0.5) / dense));
  for (int i = 0; i < dense / 4; ++i) numbers.push_back(static_cast<T>(45.0 * (i + 0.5) / (dense / 4)));
  for (const T whole : {T(88), T(89), T(103)}) numbers.push_back(whole);
  const std::size_t positive = numbers.size();
  for (std::size_t i = 0; i < positive; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

}  // namespace

TEST_CASE("silu has its values where the exponential alone is no number any more", "[numbers]") {
  Matrix<float> x(1, 3);
  x << -88, -89, -103;
  const Matrix<float> y = activate(Activation::silu, x);
  CHECK(std::abs(y(0, 0) / -5.32805e-37F - 1) < 1e-4F);
  CHECK(std::abs(y(0, 1) / -1.982354e-37F - 1) < 1e-4F);
  CHECK(y(0, 2) == -1.9e-43F);
}

TEMPLATE_TEST_CASE("activations, their slopes and gates are exact over the whole range of their type",
                   "[numbers]", float, double) {
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  // In eps of the value, or of the terms of a slope; in the tail of a GELU, which is an exponential of a
  // large argument, the argument's own roundings count, once for each of its units.
  struct Bound {
    Activation kind;
    Exact value, slope, value_argument, slope_argument;
  };
  const bool fused = std::string(isa()) != "baseline";
  const Bound bounds[] = {
      {Activation::gelu, 5, 5, fused ? Exact(0) : Exact(0.6L), fused ? Exact(0) : Exact(0.6L)},
      {Activation::gelu_tanh, 4, 4, 2, 2},
      {Activation::silu, 4, 4, 0, 0},
      {Activation::relu, 0, 0, 0, 0}};
  const std::vector<T> numbers = whole_range<T>();
  const auto x = Eigen::Map<const Matrix<T>>(numbers.data(), 1, static_cast<Index>(numbers.size()));
  const Matrix<T> ones = Matrix<T>::Ones(1, x.cols());
  constexpr Exact eps = Limits::epsilon();
  constexpr Exact smallest = Limits::denorm_min();
  for (const Bound& bound : bounds) {
    const Matrix<T> value = activate(bound.kind, x);
    const Matrix<T> slope = activate_backward(bound.kind, x, ones);
    const Matrix<T> through_gate = gated(bound.kind, x, ones);
    const auto gate_gradients = gated_backward(bound.kind, x, ones, ones);
    CHECK(same_bits(through_gate, value));
    CHECK(same_bits(gate_gradients.gate, slope));
    CHECK(same_bits(gate_gradients.up, value));
    Exact worst_value = 0;
    Exact worst_slope = 0;
    Exact at_value = 0;
    Exact at_slope = 0;
    for (Index i = 0; i < x.cols(); ++i) {
      const Exact at = x(0, i);
      const ExactValue exact = exact_activation_at(bound.kind, at);
      const Exact counted = at < 0 ? exact.argument : 0;
      // The result is rounded to the nearest number there is: where those are subnormal, to a whole one.
      const Exact value_error = std::max<Exact>(std::abs(value(0, i) - exact.value) - smallest, 0);
      const Exact slope_error = std::max<Exact>(std::abs(slope(0, i) - exact.slope) - smallest, 0);
      const Exact value_unit = eps * std::abs(exact.value) * (bound.value + bound.value_argument * counted);
      const Exact slope_unit = eps * exact.slope_terms * (bound.slope + bound.slope_argument * counted);
      const Exact v = value_error == 0 ? 0 : value_error / value_unit;
      const Exact s = slope_error == 0 ? 0 : slope_error / slope_unit;
      if (!(v <= worst_value)) {
        worst_value = v;
        at_value = at;
      }
      if (!(s <= worst_slope)) {
        worst_slope = s;
        at_slope = at;
      }
    }
    CAPTURE(bound.kind, at_value, at_slope);
    CHECK(static_cast<double>(worst_value) <= 1);
    CHECK(static_cast<double>(worst_slope) <= 1);
  }
}
