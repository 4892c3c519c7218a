// Activations and gated units: exact to a few roundings and the same bits in any place, their error from -40
// to 40, what they are at the ends of their type, and gradients as differences have them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/core/isa.hpp"
#include "heed/layers/activation.hpp"
#include "heed/layers/rows.hpp"
#include "helpers.hpp"
#include "layer_laws.hpp"

namespace {

using namespace heed;
using namespace heed::test;

// The oracle of the activations. The loops of layers/reference.hpp take differences from 1, which costs them
// digits in the tails; here nothing does.
Exact sigmoid(Exact x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

struct ExactActivation {
  Exact value;
  Exact slope;
  Exact value_size;  // value, times how many roundings its exponent takes
  Exact slope_size;  // the same, of all terms of the slope
};

/// fused: a multiply-add rounds once, which Heed's normal distribution makes use of.
ExactActivation exact_activation(Activation kind, Exact x, bool fused) {
  constexpr Exact root = 0.79788456080286535587989211986876373695L;  // sqrt(2 / pi)
  switch (kind) {
    case Activation::gelu: {
      const Exact weight = std::erfc(-x / std::sqrt(Exact(2))) / 2;
      const Exact density = x * std::exp(-x * x / 2) * root / 2;
      const Exact in_exponent = fused ? 1 : 1 + x * x / 2;
      const Exact size = x < 0 ? in_exponent : 1;
      return {x * weight, weight + density, std::abs(x * weight) * size,
              weight * size + std::abs(density) * in_exponent};
    }
    case Activation::gelu_tanh: {
      const Exact u = 2 * root * (x + 0.044715L * x * x * x);
      const Exact du = 2 * root * (x + 3 * 0.044715L * x * x * x);
      const Exact weight = sigmoid(u);
      const Exact in_exponent = 1 + std::abs(u);
      const Exact size = x < 0 ? in_exponent : 1;
      return {x * weight, weight + du * weight * sigmoid(-u), std::abs(x * weight) * size,
              weight * size + std::abs(du) * weight * sigmoid(-u) * in_exponent};
    }
    case Activation::silu: {
      const Exact weight = sigmoid(x);
      const Exact density = x * weight * sigmoid(-x);
      return {x * weight, weight + density, std::abs(x * weight), weight + std::abs(density)};
    }
    case Activation::relu:
      break;
  }
  return {x > 0 ? x : 0, Exact(x > 0 ? 1 : 0), std::abs(x), 1};
}

}  // namespace

TEMPLATE_TEST_CASE("an activation is exact to a few roundings, and an element has the same bits in any place",
                   "[activation][threads][bits]", float, double) {
  using T = TestType;
  const bool fused = std::string(isa()) != "baseline";
  for_each_size([&](Index rows, Index cols, std::uint64_t seed) {
    for (const Activation kind : kActivations) {
      CAPTURE(kind);
      const Operand<T> x = rows_operand<T>(rows, cols, seed, 4);
      const Operand<T> up = rows_operand<T>(rows, cols, seed + 1);
      const Operand<T> grad_out = rows_operand<T>(rows, cols, seed + 2);
      const Operand<T> out = rows_operand<T>(rows, cols, seed + 3);
      const Operand<T> other = rows_operand<T>(rows, cols, seed + 4);
      const auto value_size = [&](Exact a) { return exact_activation(kind, a, fused).value_size; };
      const auto slope_size = [&](Exact a) { return exact_activation(kind, a, fused).slope_size; };

      check_function<T>(
          "activation", {rows, {x}, {out}, {{0, 0}}, {3.6}},
          [&](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
            functions.activation(kind, in[0], to[0], executor);
            return kNoNumbers;
          },
          [&](const auto& in, const auto&, const auto&) {
            return std::vector<Matrix<Exact>>{in[0].unaryExpr(value_size)};
          });
      check_function<T>(
          "activation_backward", {rows, {x, grad_out}, {out}, {{0, 0}, {0, 1}}, {4.1}},
          [&](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
            functions.activation_backward(kind, in[0], in[1], to[0], executor);
            return kNoNumbers;
          },
          [&](const auto& in, const auto&, const auto&) {
            return std::vector<Matrix<Exact>>{in[0].unaryExpr(slope_size).cwiseProduct(abs_of(in[1]))};
          });
      check_function<T>(
          "gated", {rows, {x, up}, {out}, {{0, 0}, {0, 1}}, {4.1}},
          [&](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
            functions.gated(kind, in[0], in[1], to[0], executor);
            return kNoNumbers;
          },
          [&](const auto& in, const auto&, const auto&) {
            return std::vector<Matrix<Exact>>{in[0].unaryExpr(value_size).cwiseProduct(abs_of(in[1]))};
          });
      check_function<T>(
          "gated_backward",
          {rows,
           {x, up, grad_out},
           {out, other},
           {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}},
           {4.6, 4.1}},
          [&](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
            functions.gated_backward(kind, in[0], in[1], in[2], to[0], to[1], executor);
            return kNoNumbers;
          },
          [&](const auto& in, const auto&, const auto&) {
            const Matrix<Exact> g = abs_of(in[2]);
            return std::vector<Matrix<Exact>>{
                in[0].unaryExpr(slope_size).cwiseProduct(g).cwiseProduct(abs_of(in[1])),
                in[0].unaryExpr(value_size).cwiseProduct(g)};
          });
    }
  });
}

TEMPLATE_TEST_CASE("GELU and SiLU have the measured error from -40 to 40, tails included", "[activation]",
                   float, double) {
  using T = TestType;
  // In units of eps, the largest of all instruction sets plus a tenth at most:
  //   value  of x;  slope  of the sizes of its terms;  tail  of the value
  // The exponential in a tail has an argument that rounds: where that is not made up for (GELU by tanh; GELU
  // without fused multiply-adds) the tail's relative error grows with it, which the oracle's sizes count.
  struct Bound {
    Activation kind;
    double value;
    double tail;
    double slope;
  };
  const Bound bounds[] = {{Activation::gelu, 2.1, 4.2, 4.1},
                          {Activation::gelu_tanh, 1.3, 1.9, 1.9},
                          {Activation::silu, 1.3, 2.2, 3.1}};
  constexpr T tiny = std::numeric_limits<T>::min();
  constexpr Exact eps = std::numeric_limits<T>::epsilon();
  const bool fused = std::string(isa()) != "baseline";
  std::vector<T> numbers;
  constexpr int dense = kSlowRun ? 20000 : 200000;
  for (int i = 0; i <= dense; ++i) numbers.push_back(static_cast<T>(-40 + 80.0 * i / dense));
  Random random(1);
  for (int i = 0; i < dense; ++i) numbers.push_back(static_cast<T>(random.uniform(-6, 6)));
  for (int i = 0; i < 3000; ++i) {
    for (const double sign : {-1.0, 1.0}) numbers.push_back(static_cast<T>(sign * std::exp2(5 - 0.035 * i)));
  }
  const auto x = Eigen::Map<const Matrix<T>>(numbers.data(), 1, static_cast<Index>(numbers.size()));
  const Matrix<T> ones = Matrix<T>::Ones(1, x.cols());
  for (const Bound& bound : bounds) {
    const Matrix<T> value = activate(bound.kind, x);
    const Matrix<T> slope = activate_backward(bound.kind, x, ones);
    Exact worst_value = 0;
    Exact worst_tail = 0;
    Exact worst_slope = 0;
    for (Index i = 0; i < x.cols(); ++i) {
      const Exact at = x(0, i);
      const ExactActivation exact = exact_activation(bound.kind, at, fused);
      const Exact error = std::abs(value(0, i) - exact.value);
      const Exact slope_error = std::abs(slope(0, i) - exact.slope);
      // Where the exponential is no normal number any more, it may be 0.
      const Exact cube = 1 + std::abs(at * at * at);
      worst_value = std::max(worst_value, error / (eps * std::max<Exact>(std::abs(at), tiny)));
      worst_tail = std::max(worst_tail, (error - std::abs(at) * tiny) / (eps * exact.value_size));
      worst_slope = std::max(worst_slope, (slope_error - cube * tiny) / (eps * exact.slope_size));
    }
    CAPTURE(bound.kind);
    CHECK(static_cast<double>(worst_value) <= bound.value);
    CHECK(static_cast<double>(worst_tail) <= bound.tail);
    CHECK(static_cast<double>(worst_slope) <= bound.slope);
  }
}

TEMPLATE_TEST_CASE("activations and slopes at zeros, infinities, NaN, far out and at the smallest numbers",
                   "[activation][nan]", float, double, long double) {
  using T = TestType;
  constexpr T smallest = std::numeric_limits<T>::denorm_min();
  constexpr T most = std::numeric_limits<T>::max();
  // In one packet, and alone: a lane's neighbor is nothing to it.
  for (const Index copies : {1, 67}) {
    const auto value = [&](Activation kind, T x) {
      const Matrix<T> all = activate(kind, Matrix<T>::Constant(1, copies, x).eval());
      REQUIRE((all.array() == all(0, 0) || all.array().isNaN()).all());
      return all(0, 0);
    };
    const auto slope = [&](Activation kind, T x) {
      const Matrix<T> ones = Matrix<T>::Ones(1, copies);
      return activate_backward(kind, Matrix<T>::Constant(1, copies, x).eval(), ones)(0, copies - 1);
    };
    for (const Activation kind : kActivations) {
      CAPTURE(kind, copies);
      const bool relu = kind == Activation::relu;
      const T eps = std::numeric_limits<T>::epsilon();
      for (const T zero : {T(0), -T(0)}) {
        CHECK(value(kind, zero) == 0);
        CHECK(std::abs(slope(kind, zero) - (relu ? T(0) : T(0.5))) <= 2 * eps);
      }
      CHECK(value(kind, kInf<T>) == kInf<T>);
      CHECK(slope(kind, kInf<T>) == 1);
      for (const T far : {T(1000), most}) {
        CHECK(value(kind, far) == far);
        CHECK(slope(kind, far) == 1);
      }
      for (const T far : {T(-1000), -most, -kInf<T>}) {
        CAPTURE(far);
        // exp(-1000) is a number for long double.
        CHECK(std::abs(value(kind, far)) <= std::numeric_limits<double>::denorm_min());
        CHECK(std::abs(slope(kind, far)) <= std::numeric_limits<double>::denorm_min());
      }
      for (const T nan : {kNaN<T>, -kNaN<T>}) {
        CHECK(std::isnan(value(kind, nan)));
        CHECK(std::isnan(slope(kind, nan)));
      }
      for (const T tiny : {smallest, 5 * smallest, std::numeric_limits<T>::min()}) {
        CHECK(std::abs(value(kind, tiny) - (relu ? tiny : tiny / 2)) <= smallest);
        CHECK(std::abs(value(kind, -tiny) + (relu ? T(0) : tiny / 2)) <= smallest);
        CHECK(std::abs(slope(kind, tiny) - (relu ? T(1) : T(0.5))) <= 2 * eps);
        CHECK(std::abs(slope(kind, -tiny) - (relu ? T(0) : T(0.5))) <= 2 * eps);
      }
    }
  }
}

TEMPLATE_TEST_CASE("gradients of activations and gated units are those of differences",
                   "[activation][gradient]", double, long double) {
  using T = TestType;
  for (const Activation kind : kActivations) {
    CAPTURE(kind);
    Matrix<T> x = random_matrix<T>(3, 7, 8, 4);
    REQUIRE(x.cwiseAbs().minCoeff() > 0x1p-12);
    Matrix<T> up = random_matrix<T>(3, 7, 9);
    const Matrix<T> factors = random_matrix<T>(3, 7, 10);
    Matrix<T> grad = activate_backward(kind, x, factors);
    check_gradient("x", mutable_view(x), mutable_view(grad), T(0),
                   [&] { return weighted_sum(activate(kind, x), factors); });
    auto grads = gated_backward(kind, x, up, factors);
    const auto loss = [&] { return weighted_sum(gated(kind, x, up), factors); };
    check_gradient("gate", mutable_view(x), mutable_view(grads.gate), T(0), loss);
    check_gradient("up", mutable_view(up), mutable_view(grads.up), T(0), loss);
  }
}
