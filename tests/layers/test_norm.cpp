// Norms: exact to a few roundings, the same bits in any place, their numbers by hand, NaN in its own row,
// digits kept far from 0, and gradients as differences have them.

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/rows.hpp"
#include "helpers.hpp"
#include "layer_laws.hpp"

namespace {

using namespace heed;
using namespace heed::test;

}  // namespace

TEMPLATE_TEST_CASE("a norm is exact to a few roundings, and a row has the same bits in any place",
                   "[norm][threads][bits]", float, double) {
  using T = TestType;
  for_each_size([](Index rows, Index cols, std::uint64_t seed) {
    for (const bool centered : {true, false}) {
      for (const bool weighted : {true, false}) {
        CAPTURE(centered, weighted);
        const NormOptions options{centered, 1e-5};
        const Index weights = weighted ? 1 : 0;
        const Operand<T> x = rows_operand<T>(rows, cols, seed);
        const Operand<T> weight = shared_operand<T>(weights, weights * cols, seed + 1);
        const Operand<T> bias = shared_operand<T>(weights, weights * cols, seed + 2);
        const Operand<T> grad_out = rows_operand<T>(rows, cols, seed + 3);
        const Operand<T> out = rows_operand<T>(rows, cols, seed + 4);

        check_function<T>(
            "norm", {rows, {x, weight, bias}, {out}, {{0, 0}}, {1.6}},
            [&](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
              functions.norm(in[0], in[1], in[2], options, to[0], executor);
              return kNoNumbers;
            },
            [&](const auto& in, const auto&, const auto&) {
              const Matrix<Exact> n = normalized(in[0], options).cwiseAbs();
              const Matrix<Exact> w = for_all_rows(abs_of(in[1]), rows, cols, 1);
              const Matrix<Exact> b = for_all_rows(abs_of(in[2]), rows, cols, 0);
              return std::vector<Matrix<Exact>>{(n + mean_of_rows(n)).cwiseProduct(w) + b};
            });

        for (const bool with_base : {true, false}) {
          CAPTURE(with_base);
          Operand<T> base = rows_operand<T>(rows, cols, seed + 5);
          std::vector<std::pair<int, int>> in_place = {{0, 0}, {0, 2}};
          if (with_base) in_place.emplace_back(0, 3);
          if (!with_base) base.values.resize(0, 0);
          check_function<T>(
              "norm_backward", {rows, {x, weight, grad_out, base}, {out}, in_place, {1.6}},
              [&](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
                functions.norm_backward(in[0], in[1], options, in[2], in[3], to[0], executor);
                return kNoNumbers;
              },
              [&](const auto& in, const auto&, const auto&) {
                const Matrix<Exact> n = normalized(in[0], options).cwiseAbs();
                const Matrix<Exact> g =
                    in[2].cwiseAbs().cwiseProduct(for_all_rows(abs_of(in[1]), rows, cols, 1));
                const Matrix<Exact> slope = mean_of_rows(g.cwiseProduct(n));
                Matrix<Exact> size = g + mean_of_rows(g) + (n + mean_of_rows(n)).cwiseProduct(slope);
                for (Index i = 0; i < rows; ++i) {
                  using Scale = typename reference::RowFunctions<Exact>::RowScale;
                  if (cols > 0) size.row(i) *= Scale(view(in[0]), options, i).factor;
                }
                if (with_base) size += abs_of(in[3]);
                return std::vector<Matrix<Exact>>{size};
              });
        }

        const Operand<T> grad_weight = shared_operand<T>(1, cols, seed + 6);
        const Operand<T> grad_bias = shared_operand<T>(weights, weights * cols, seed + 7);
        check_function<T>(
            "norm_weight_gradient", {rows, {x, grad_out}, {grad_weight, grad_bias}, {}, {1.6, 1.5}},
            [&](auto functions, const auto& in, const auto& to, Index, Executor*) {
              functions.norm_weight_gradient(in[0], options, in[1], to[0], to[1]);
              return kNoNumbers;
            },
            [&](const auto& in, const auto& before, const auto&) {
              const Matrix<Exact> n = normalized(in[0], options).cwiseAbs();
              const Matrix<Exact> g = abs_of(in[1]);
              std::vector<Matrix<Exact>> sizes = {abs_of(before[0]), abs_of(before[1])};
              sizes[0] += (n + mean_of_rows(n)).cwiseProduct(g).colwise().sum();
              if (weighted) sizes[1] += g.colwise().sum();
              return sizes;
            });
      }
    }
  });
}

TEMPLATE_TEST_CASE("gradients of a norm are those of differences", "[norm][gradient]", double, long double) {
  using T = TestType;
  for (const Index cols : {2, 3, 11, 18}) {
    for (const bool bias : {true, false}) {
      check_plain_layer(layer_norm<T>(cols, bias), random_matrix<T>(3, cols, 2));
      check_plain_layer(Norm<T>(cols, bias, {false, 0.25}), random_matrix<T>(3, cols, 3));
    }
    check_plain_layer(rms_norm<T>(cols), random_matrix<T>(3, cols, 4));
  }
}

TEMPLATE_TEST_CASE("a norm divides by the number of columns, and has epsilon under the root", "[norm]", float,
                   double, long double) {
  using T = TestType;
  const auto norm = [](std::initializer_list<double> x) {
    return layer_norm<T>(static_cast<Index>(x.size())).forward(row_of<T>(x));
  };
  CHECK(near(norm({1, 0, 0, 0}), {1.7320046, -0.5773349, -0.5773349, -0.5773349}));
  CHECK(near(norm({2, 4, 4, 6}), {-1.4142100, 0, 0, 1.4142100}));
  CHECK(near(norm({1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3}), {-1.3416354, -0.4472118, 0.4472118, 1.3416354}));
  for (const double one : {0.0, 5.0, -1e30}) CHECK(norm({one}) == row_of<T>({0}));
  // The mean square of (3, 4) is 12.5.
  CHECK(near(rms_norm<T>(2).forward(row_of<T>({3, 4})), {0.8485278, 1.1313704}));

  // A constant row has no direction: it is 0, and its gradient is finite. (The loops' mean is rounded.)
  if (!has_kernels<T>) return;
  for (const double constant : {0.0, 0.1, 1e6, -3.3e9}) {
    for (const Index cols : {2, 3, 7, 100}) {
      const Norm<T> layer = layer_norm<T>(cols);
      Norm<T> gradients = zeros_like(layer);
      const Matrix<T> x = Matrix<T>::Constant(2, cols, static_cast<T>(constant));
      CHECK(layer.forward(x).isZero(0));
      const Matrix<T> grad_out = random_matrix<T>(2, cols, 1);
      const Matrix<T> grad_x = layer.backward(x, grad_out, gradients);
      const Matrix<T> expected =
          (grad_out.colwise() - grad_out.rowwise().mean()) / std::sqrt(static_cast<T>(1e-5));
      CHECK((grad_x - expected).cwiseAbs().maxCoeff() <=
            8 * std::numeric_limits<T>::epsilon() * expected.cwiseAbs().maxCoeff());
      CHECK(gradients.weight.isZero(0));
    }
  }
}

TEMPLATE_TEST_CASE("NaN in a row is in all that a norm makes of it, and in no other row", "[norm][nan]",
                   float, double, long double) {
  using T = TestType;
  const Norm<T> layer = layer_norm<T>(21);
  const Matrix<T> clean = random_matrix<T>(3, 21, 1);
  const Matrix<T> grad_out = random_matrix<T>(3, 21, 2);
  Norm<T> gradients = zeros_like(layer);
  const Matrix<T> out = layer.forward(clean);
  const Matrix<T> grad_x = layer.backward(clean, grad_out, gradients);
  for (const Index col : {0, 3, 20}) {
    Matrix<T> x = clean;
    x(1, col) = kNaN<T>;
    const Matrix<T> with_nan = layer.forward(x);
    const Matrix<T> grad_with_nan = layer.backward(x, grad_out, gradients);
    CHECK(with_nan.row(1).array().isNaN().all());
    CHECK(grad_with_nan.row(1).array().isNaN().all());
    for (const Index row : {0, 2}) {
      CHECK(with_nan.row(row) == out.row(row));
      CHECK(grad_with_nan.row(row) == grad_x.row(row));
    }
  }
}

TEMPLATE_TEST_CASE("a norm of wide rows far from 0 keeps its digits", "[norm]", float, double) {
  using T = TestType;
  for (const double mean : {1000.0, -1e5}) {
    const Matrix<T> x = (random_matrix<T>(2, 4096, 1).array() + static_cast<T>(mean)).matrix();
    // The loops' mean would have too few digits even in long double; these differences are exact.
    const Matrix<Exact> n = normalized((x.template cast<Exact>().array() - mean).matrix(), {});
    const Matrix<Exact> size = abs_of(n) + mean_of_rows(abs_of(n));
    const double error = error_in_eps(layer_norm<T>(4096).forward(x), n, size);
    CAPTURE(mean, error);
    CHECK(error <= 3.3);  // a lane sums up 2048 numbers where a register has two
  }
}
