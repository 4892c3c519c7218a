// The layers around attention: their loops against long double, their gradients against differences, and what
// a row's bits may depend on.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "heed/core/isa.hpp"
#include "heed/layers/activation.hpp"
#include "heed/layers/dropout.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/linear.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/norm.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

using Exact = long double;

constexpr Activation kActivations[] = {Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                       Activation::relu};

/// A matrix in memory of its own, in any layout; the memory between and around its elements holds -7.
template <class T>
class Laid {
 public:
  enum Layout { by_rows, by_columns, misaligned, every_third, backwards };

  Laid(const Matrix<T>& values, Layout layout) {
    const Index rows = values.rows();
    const Index cols = values.cols();
    const Index step = layout == every_third ? 3 : 1;
    const Index row = layout == by_rows ? cols : step * cols + 3;
    memory_.assign(static_cast<std::size_t>(rows * row + cols * rows + 2), T(-7));
    view_ = {memory_.data(), rows, cols, row, step};
    if (layout == by_columns) view_ = {memory_.data() + 1, rows, cols, 1, rows};
    if (layout == misaligned || layout == every_third) ++view_.data;
    if (layout == backwards) view_ = {memory_.data() + rows * row, rows, cols, -row, -1};
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) view_(i, j) = values(i, j);
    }
  }
  Laid(const Laid&) = delete;
  Laid(Laid&&) noexcept = default;  // its memory stays where it is

  const MatrixView<T>& view() const { return view_; }

  Matrix<T> values() const {
    Matrix<T> m(view_.rows, view_.cols);
    for (Index i = 0; i < m.rows(); ++i) {
      for (Index j = 0; j < m.cols(); ++j) m(i, j) = view_(i, j);
    }
    return m;
  }

  /// Nothing but elements has been written.
  bool rest_untouched() const {
    std::vector<T> expected(memory_.size(), T(-7));
    for (Index i = 0; i < view_.rows; ++i) {
      for (Index j = 0; j < view_.cols; ++j)
        expected[static_cast<std::size_t>(&view_(i, j) - memory_.data())] = view_(i, j);
    }
    return std::memcmp(expected.data(), memory_.data(), expected.size() * sizeof(T)) == 0;
  }

 private:
  std::vector<T> memory_;
  MatrixView<T> view_;
};

template <class T>
using ReadViews = std::vector<MatrixView<const T>>;
template <class T>
using WriteViews = std::vector<MatrixView<T>>;

template <class T>
struct Operand {
  Matrix<T> values;
  bool by_row;  // row i belongs to row i of the result; else the matrix is the same for all rows
};

/// One function of RowFunctions, on operands.
template <class T>
struct Problem {
  Index rows;
  std::vector<Operand<T>> in;
  std::vector<Operand<T>> out;                // what is in them before
  std::vector<std::pair<int, int>> in_place;  // output, and the input that it may be
  std::vector<double> factors;                // errors allowed, in eps of an element's size, for each output
  double number_factor = 0;                   // the same for the numbers
};

template <class T>
struct Results {
  std::vector<Matrix<T>> out;
  std::vector<double> numbers;  // what a function returns beside matrices

  bool operator==(const Results& other) const {
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (!same_bits(out[k], other.out[k])) return false;
    }
    return numbers == other.numbers;
  }
};

/// call(functions, in, out, first_row, executor) returns numbers. shared: the output and the input that are
/// one matrix.
template <class T, class Call>
Results<T> run(const Problem<T>& p, const Call& call, typename Laid<T>::Layout layout, Executor* executor,
               std::pair<int, int> shared = {-1, -1}, Index row = -1) {
  const auto values = [&](const Operand<T>& operand) {
    const bool cut = row >= 0 && operand.by_row && operand.values.rows() > 0;
    return cut ? Matrix<T>(operand.values.row(row)) : operand.values;
  };
  std::vector<Laid<T>> in;
  std::vector<Laid<T>> out;
  ReadViews<T> in_views;
  WriteViews<T> out_views;
  for (const Operand<T>& operand : p.in) {
    in.emplace_back(values(operand), layout);
    in_views.push_back(in.back().view());
  }
  for (const Operand<T>& operand : p.out) {
    out.emplace_back(values(operand), layout);
    out_views.push_back(out.back().view());
  }
  const auto at = [](int index) { return static_cast<std::size_t>(index); };
  if (shared.first >= 0) out_views[at(shared.first)] = in[at(shared.second)].view();
  Results<T> results;
  results.numbers = call(RowFunctions<T>(), in_views, out_views, std::max<Index>(row, 0), executor);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const bool is_shared = shared.first == static_cast<int>(k);
    const Laid<T>& written = is_shared ? in[at(shared.second)] : out[k];
    REQUIRE(written.rest_untouched());
    results.out.push_back(written.values());
  }
  if (shared.first >= 0) return results;
  for (std::size_t k = 0; k < in.size(); ++k) REQUIRE(same_bits(in[k].values(), values(p.in[k])));
  return results;
}

template <class T>
std::vector<Matrix<Exact>> exactly(const std::vector<Operand<T>>& operands) {
  std::vector<Matrix<Exact>> result;
  result.reserve(operands.size());
  for (const Operand<T>& operand : operands) result.push_back(operand.values.template cast<Exact>());
  return result;
}

/// The largest error, in eps of `sizes`.
template <class T>
double error_in_eps(const Matrix<T>& x, const Matrix<Exact>& exact, const Matrix<Exact>& sizes) {
  Exact worst = 0;
  for (Index i = 0; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) {
      const Exact error = std::abs(x(i, j) - exact(i, j));
      if (error > 0) worst = std::max(worst, error / (sizes(i, j) * std::numeric_limits<T>::epsilon()));
      if (std::isnan(error)) return kInf<double>;
    }
  }
  return static_cast<double>(worst);
}

// Times 200 columns: enough for threads.
constexpr Index kManyRows = 170;

ThreadPool& pool_of(Index threads) {
  static ThreadPool one(1);
  static ThreadPool four(4);
  return threads == 1 ? one : four;
}

/// All laws of one function. size(in, outputs before, outputs) says for each element of each output how large
/// the numbers are that it is summed up from.
template <class T, class Call, class Size>
void check_function(const std::string& name, const Problem<T>& p, const Call& call, const Size& size) {
  CAPTURE(name);
  const Results<T> plain = run(p, call, Laid<T>::by_rows, nullptr);
  if (p.rows == kManyRows) {
    REQUIRE(run(p, call, Laid<T>::misaligned, &pool_of(1)) == plain);
    REQUIRE(run(p, call, Laid<T>::misaligned, &pool_of(4)) == plain);
    if (!p.in_place.empty()) REQUIRE(run(p, call, Laid<T>::by_rows, &pool_of(4), p.in_place.back()) == plain);
    return;
  }

  const std::vector<Matrix<Exact>> in = exactly(p.in);
  std::vector<Matrix<Exact>> exact = exactly(p.out);
  ReadViews<Exact> in_views;
  WriteViews<Exact> out_views;
  for (const auto& m : in) in_views.push_back(view(m));
  for (auto& m : exact) out_views.push_back(mutable_view(m));
  const std::vector<Matrix<Exact>> before = exact;
  const auto numbers = call(reference::RowFunctions<Exact>(), in_views, out_views, Index{0}, nullptr);
  const auto sizes = size(in, before, exact);
  for (std::size_t k = 0; k < exact.size(); ++k) {
    const double error = error_in_eps(plain.out[k], exact[k], sizes[k]);
    CAPTURE(k, error);
    REQUIRE(error <= p.factors[k]);
  }
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    CAPTURE(numbers[n], plain.numbers[n]);
    REQUIRE(std::abs(plain.numbers[n] - numbers[n]) <=
            p.number_factor * std::numeric_limits<T>::epsilon() * (1 + std::abs(numbers[n])));
  }

  for (const auto layout : {Laid<T>::by_rows, Laid<T>::by_columns, Laid<T>::misaligned, Laid<T>::every_third,
                            Laid<T>::backwards}) {
    CAPTURE(layout);
    REQUIRE(run(p, call, layout, nullptr) == plain);
    for (const auto& shared : p.in_place) REQUIRE(run(p, call, layout, nullptr, shared) == plain);
  }
  for (Index row = 0; row < p.rows; row += std::max<Index>(1, p.rows / 3)) {
    const Results<T> alone = run(p, call, Laid<T>::by_rows, nullptr, {-1, -1}, row);
    for (std::size_t k = 0; k < p.out.size(); ++k) {
      if (p.out[k].by_row) REQUIRE(same_bits(alone.out[k], plain.out[k].row(row)));
    }
    if (alone.numbers.size() == 1 && plain.numbers.size() > 1)
      REQUIRE(alone.numbers[0] == plain.numbers[static_cast<std::size_t>(row)]);
  }
}

// Around the lanes of every instruction set, and with tails behind several packets.
const std::vector<Index> kColumns = kSlowRun
                                        ? std::vector<Index>{0, 1, 3, 5, 9, 17, 65}
                                        : std::vector<Index>{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 65, 200};

template <class F>
void for_each_size(const F& f) {
  std::uint64_t seed = 1;
  for (const Index rows : {0, 1, 3}) {
    for (const Index cols : kColumns) {
      CAPTURE(rows, cols);
      f(rows, cols, seed += 10);
    }
  }
  f(kManyRows, Index{200}, seed += 10);
}

template <class T>
Operand<T> rows_operand(Index rows, Index cols, std::uint64_t seed, double bound = 1) {
  return {random_matrix<T>(rows, cols, seed, bound), true};
}
template <class T>
Operand<T> shared_operand(Index rows, Index cols, std::uint64_t seed) {
  return {random_matrix<T>(rows, cols, seed), false};
}

const std::vector<double> kNoNumbers;

Matrix<Exact> abs_of(const Matrix<Exact>& m) {
  return m.cwiseAbs();
}

/// Each row's mean, in all of its columns.
Matrix<Exact> mean_of_rows(const Matrix<Exact>& m) {
  return m.rowwise().mean().replicate(1, m.cols());
}

Matrix<Exact> normalized(const Matrix<Exact>& x, const NormOptions& options) {
  Matrix<Exact> n(x.rows(), x.cols());
  reference::RowFunctions<Exact>::norm(view(x), {}, {}, options, mutable_view(n));
  return n;
}

/// Row 0 of m for each row, or `otherwise` where there is none.
Matrix<Exact> for_all_rows(const Matrix<Exact>& m, Index rows, Index cols, Exact otherwise) {
  return m.size() > 0 ? Matrix<Exact>(m.replicate(rows, 1)) : Matrix<Exact>::Constant(rows, cols, otherwise);
}

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

TEMPLATE_TEST_CASE(
    "a norm is exact to a few roundings of its terms, and a row has the same bits in any place", "[threads]",
    float, double) {
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

TEMPLATE_TEST_CASE("an activation is exact to a few roundings, and an element has the same bits in any place",
                   "[threads]", float, double) {
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

TEMPLATE_TEST_CASE(
    "the loss of a row and its gradient are exact to a few roundings, with the same bits in any "
    "place",
    "[threads]", float, double) {
  using T = TestType;
  static constexpr double factor = 0.37;
  for_each_size([](Index rows, Index cols, std::uint64_t seed) {
    if (cols == 0) return;
    const Operand<T> logits = rows_operand<T>(rows, cols, seed, 4);
    const Operand<T> out = rows_operand<T>(rows, cols, seed + 1);
    std::vector<std::int32_t> targets;
    for (Index i = 0; i < rows; ++i)
      targets.push_back(i % 3 == 1 ? -1 : static_cast<std::int32_t>(i * 7 % cols));
    const auto call = [&](bool with_gradient) {
      return [&targets, with_gradient](auto functions, const auto& in, const auto& to, Index first_row,
                                       Executor* executor) {
        using View = std::decay_t<decltype(to[0])>;
        std::vector<double> losses(static_cast<std::size_t>(in[0].rows), -7);
        functions.cross_entropy(in[0], targets.data() + first_row, {-1, factor}, losses.data(),
                                with_gradient ? to[0] : View{}, executor);
        return losses;
      };
    };
    const Problem<T> p = {rows, {logits}, {out}, {{0, 0}}, {2}, 1};
    check_function<T>("cross_entropy", p, call(true), [&](const auto& in, const auto&, const auto&) {
      Matrix<Exact> size = Matrix<Exact>::Zero(rows, cols);
      for (Index i = 0; i < rows; ++i) {
        const auto target = targets[static_cast<std::size_t>(i)];
        if (target < 0) continue;
        // A difference of logits is rounded before it becomes an exponent.
        const Matrix<Exact> d = (in[0].row(i).array() - in[0].row(i).maxCoeff()).matrix();
        const Matrix<Exact> e = d.array().exp().matrix();
        size.row(i) = factor * e.cwiseProduct((d.array().abs() + 1).matrix()) / e.sum();
        size(i, target) += factor;
      }
      return std::vector<Matrix<Exact>>{size};
    });
    // Nobody who wants no gradient gets another loss.
    REQUIRE(run(p, call(false), Laid<T>::by_rows, nullptr).numbers ==
            run(p, call(true), Laid<T>::by_rows, nullptr).numbers);
  });
}

TEMPLATE_TEST_CASE(
    "sums, products, rows picked from a table and added to it, with the same bits in any place", "[threads]",
    float, double) {
  using T = TestType;
  for_each_size([](Index rows, Index cols, std::uint64_t seed) {
    const Operand<T> a = rows_operand<T>(rows, cols, seed);
    const Operand<T> b = rows_operand<T>(rows, cols, seed + 1);
    const Operand<T> out = rows_operand<T>(rows, cols, seed + 2);
    const Operand<T> sums = shared_operand<T>(1, cols, seed + 3);
    const Operand<T> table = shared_operand<T>(4, cols, seed + 4);
    const auto size_of_result = [](const auto&, const auto&, const auto& exact) {
      return std::vector<Matrix<Exact>>{abs_of(exact[0])};
    };
    const double chain = 0.5 * static_cast<double>(rows);  // it rounds once for each row
    std::vector<std::int32_t> ids;
    for (Index i = 0; i < rows; ++i) ids.push_back(static_cast<std::int32_t>(i * 5 % 3 + i % 2));

    check_function<T>(
        "add", {rows, {a, b}, {out}, {{0, 0}, {0, 1}}, {0.5}},
        [](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
          functions.add(in[0], in[1], to[0], executor);
          return kNoNumbers;
        },
        size_of_result);
    check_function<T>(
        "scale", {rows, {a}, {out}, {{0, 0}}, {0.5}},
        [](auto functions, const auto& in, const auto& to, Index, Executor* executor) {
          functions.scale(in[0], 0.7F, to[0], executor);
          return kNoNumbers;
        },
        size_of_result);
    check_function<T>(
        "column_sums", {rows, {a}, {sums}, {}, {chain}},
        [](auto functions, const auto& in, const auto& to, Index, Executor*) {
          functions.column_sums(in[0], to[0]);
          return kNoNumbers;
        },
        [](const auto& in, const auto& before, const auto&) {
          return std::vector<Matrix<Exact>>{abs_of(before[0]) + abs_of(in[0]).colwise().sum()};
        });
    check_function<T>(
        "gather", {rows, {table}, {out}, {}, {0}},
        [&](auto functions, const auto& in, const auto& to, Index first_row, Executor*) {
          functions.gather(in[0], ids.data() + first_row, to[0]);
          return kNoNumbers;
        },
        size_of_result);
    check_function<T>(
        "scatter_add", {rows, {a}, {table}, {}, {chain}},
        [&](auto functions, const auto& in, const auto& to, Index first_row, Executor*) {
          functions.scatter_add(in[0], ids.data() + first_row, to[0]);
          return kNoNumbers;
        },
        [&](const auto& in, const auto& before, const auto&) {
          Matrix<Exact> size = abs_of(before[0]);
          for (Index i = 0; i < rows; ++i) size.row(ids[static_cast<std::size_t>(i)]) += abs_of(in[0].row(i));
          return std::vector<Matrix<Exact>>{size};
        });
    check_function<T>(
        "sum_of_squares", {rows, {a}, {}, {}, {}, 2.5},
        [](auto functions, const auto& in, const auto&, Index, Executor*) {
          if constexpr (requires { functions.sum_of_squares(in[0]); }) {
            return std::vector<double>{functions.sum_of_squares(in[0])};
          } else {
            Exact sum = 0;
            for (Index i = 0; i < in[0].rows; ++i) {
              for (Index j = 0; j < in[0].cols; ++j) sum += in[0](i, j) * in[0](i, j);
            }
            return std::vector<double>{static_cast<double>(sum)};
          }
        },
        [](const auto&, const auto&, const auto&) { return std::vector<Matrix<Exact>>(); });
  });
}

TEMPLATE_TEST_CASE("a sum over rows is one chain, from the first row to the last", "", float, double) {
  using T = TestType;
  using Loops = reference::RowFunctions<T>;
  for (const Index cols : {1, 7, 33, 200}) {
    const Matrix<T> x = random_matrix<T>(1000, cols, 1);
    const Matrix<T> start = random_matrix<T>(3, cols, 2);
    std::vector<std::int32_t> ids;
    for (Index i = 0; i < x.rows(); ++i) ids.push_back(static_cast<std::int32_t>(i * i % 3));
    Matrix<T> sums = start.row(0);
    Matrix<T> expected = sums;
    RowFunctions<T>::column_sums(view(x), mutable_view(sums));
    Loops::column_sums(view(x), mutable_view(expected));
    CHECK(same_bits(sums, expected));
    sums = start.row(0);
    RowFunctions<T>::norm_weight_gradient(view(x), {}, view(x), {}, mutable_view(sums));
    CHECK(same_bits(sums, expected));
    Matrix<T> table = start;
    expected = start;
    RowFunctions<T>::scatter_add(view(x), ids.data(), mutable_view(table));
    Loops::scatter_add(view(x), ids.data(), mutable_view(expected));
    CHECK(same_bits(table, expected));
  }
}

TEMPLATE_TEST_CASE("GELU and SiLU have the measured error from -40 to 40, tails included", "", float,
                   double) {
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

TEMPLATE_TEST_CASE(
    "activations and their slopes at zeros, infinities, NaN, far out and at the smallest numbers", "", float,
    double, long double) {
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

namespace {

// Differences of a loss: the sum of the elements of a result, each with a factor of its own.

template <class M>
auto weighted_sum(const M& out, const Matrix<typename M::Scalar>& factors) {
  return out.cwiseProduct(factors).sum();
}

/// The derivative of f by the number x, from differences of two steps whose leading errors cancel (Richardson
/// 1911).
template <class T, class F>
T derivative(T& x, const F& f) {
  const T at = x;
  const auto difference = [&](T step) {
    x = at + step;
    const T above = f();
    x = at - step;
    const T below = f();
    x = at;
    return (above - below) / (2 * step);
  };
  constexpr T step = T(0x1p-13);
  return (4 * difference(step / 2) - difference(step)) / 3;
}

/// grad is what a backward pass says, plus before.
template <class T, class F>
void check_gradient(const std::string& name, const MatrixView<T>& numbers, const MatrixView<T>& grad,
                    T before, const F& loss) {
  CAPTURE(name);
  REQUIRE(size_text(numbers) == size_text(grad));
  Matrix<T> expected(numbers.rows, numbers.cols);
  for (Index i = 0; i < numbers.rows; ++i) {
    for (Index j = 0; j < numbers.cols; ++j) expected(i, j) = derivative(numbers(i, j), loss);
  }
  // What is small beside the largest is known as exactly as that.
  const T floor = expected.size() > 0 ? expected.cwiseAbs().maxCoeff() / 100 : T(0);
  REQUIRE(floor > 0);
  for (Index i = 0; i < numbers.rows; ++i) {
    for (Index j = 0; j < numbers.cols; ++j) {
      CAPTURE(i, j);
      const T error = std::abs(grad(i, j) - before - expected(i, j));
      REQUIRE(error <= 1e-8 * std::max(floor, std::abs(expected(i, j))));
    }
  }
}

/// forward(x) and backward(x, grad_out, gradients) of a layer against differences of all of its numbers.
template <template <class> class Layer, class T, class Forward, class Backward>
void check_layer(Layer<T>& layer, Matrix<T> x, const Forward& forward, const Backward& backward) {
  const Matrix<T> out = forward(x);
  const Matrix<T> factors = random_matrix<T>(out.rows(), out.cols(), 77);
  const auto loss = [&] { return weighted_sum(forward(x), factors); };
  Layer<T> gradients = layer;
  gradients.for_each_parameter([](const std::string&, auto& m) { m.setConstant(T(0.5)); });
  Matrix<T> grad_x = backward(x, factors, gradients);
  check_gradient("x", mutable_view(x), mutable_view(grad_x), T(0), loss);
  for (const Parameter<T>& p : parameters(layer, gradients))
    check_gradient(p.name, p.value, p.grad, T(0.5), loss);
}

/// Weights that a constructor leaves at 0 or 1 would hide what they are multiplied with.
template <template <class> class Layer, class T>
void draw_weights(Layer<T>& layer, std::uint64_t seed) {
  layer.for_each_parameter([&](const std::string&, auto& m) {
    m = random_matrix<T>(m.rows(), m.cols(), seed++).template cast<T>();
  });
}

template <template <class> class Layer, class T>
void check_plain_layer(Layer<T> layer, const Matrix<T>& x) {
  draw_weights(layer, 5);
  check_layer(
      layer, x, [&](const Matrix<T>& at) { return layer.forward(at); },
      [&](const Matrix<T>& at, const Matrix<T>& grad_out, Layer<T>& gradients) {
        return layer.backward(at, grad_out, gradients);
      });
}

Random& drawing() {
  static Random random(3);
  return random;
}

}  // namespace

TEMPLATE_TEST_CASE("gradients of a linear layer are those of differences", "", double, long double) {
  using T = TestType;
  for (const bool bias : {true, false}) {
    check_plain_layer(Linear<T>(5, 3, drawing(), bias), random_matrix<T>(4, 5, 1));
    check_plain_layer(Linear<T>(1, 19, drawing(), bias), random_matrix<T>(1, 1, 1));
  }
}

TEMPLATE_TEST_CASE("gradients of a norm are those of differences", "", double, long double) {
  using T = TestType;
  for (const Index cols : {2, 3, 11, 18}) {
    for (const bool bias : {true, false}) {
      check_plain_layer(layer_norm<T>(cols, bias), random_matrix<T>(3, cols, 2));
      check_plain_layer(Norm<T>(cols, bias, {false, 0.25}), random_matrix<T>(3, cols, 3));
    }
    check_plain_layer(rms_norm<T>(cols), random_matrix<T>(3, cols, 4));
  }
}

TEMPLATE_TEST_CASE("gradients of a feed-forward layer are those of differences", "", double, long double) {
  using T = TestType;
  for (const Activation activation : kActivations) {
    for (const bool gated : {false, true}) {
      for (const bool bias : {false, true}) {
        CAPTURE(activation, gated, bias);
        FeedForward<T> layer(3, 5, drawing(), {activation, gated, bias});
        draw_weights(layer, 11);
        const Matrix<T> x = random_matrix<T>(4, 3, 6);
        typename FeedForward<T>::Tape tape;
        (void)layer.forward(x, tape);
        // A step across the corner of ReLU would measure neither side.
        const Matrix<T>& bent = gated ? tape.gate : tape.up;
        REQUIRE(bent.cwiseAbs().minCoeff() > 0x1p-12);
        check_layer(
            layer, x, [&](const Matrix<T>& at) { return layer.forward(at); },
            [&](const Matrix<T>& at, const Matrix<T>& grad_out, FeedForward<T>& gradients) {
              typename FeedForward<T>::Tape own;
              (void)layer.forward(at, own);
              return layer.backward(at, own, grad_out, gradients);
            });
      }
    }
  }
}

TEMPLATE_TEST_CASE("gradients of activations and gated units are those of differences", "", double,
                   long double) {
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

TEMPLATE_TEST_CASE("gradients of an embedding are those of differences, of a token that comes again too", "",
                   double, long double) {
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

TEMPLATE_TEST_CASE("the gradient of the loss is that of differences, where rows are ignored too", "", double,
                   long double) {
  using T = TestType;
  Matrix<T> logits = random_matrix<T>(5, 9, 13, 3);
  const std::vector<TokenId> targets = {3, ignored_target, 0, 8, 3};
  auto result = cross_entropy_with_gradient(logits, targets);
  CHECK(result.counted == 4);
  CHECK(result.loss == cross_entropy(logits, targets));
  // The loss of long double is a double.
  const auto loss = [&] {
    T sum = 0;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] == ignored_target) continue;
      const auto row = logits.row(static_cast<Index>(i)).array();
      sum += std::log(row.exp().sum()) - row(targets[i]);
    }
    return sum / 4;
  };
  CHECK(std::abs(static_cast<double>(loss()) - result.loss) <= 1e-15 * result.loss);
  check_gradient("logits", mutable_view(logits), mutable_view(result.grad_logits), T(0), loss);
}

TEST_CASE("the gradient of dropout is dropout of the gradient") {
  Matrix<double> x = random_matrix<double>(4, 9, 14);
  const Matrix<double> factors = random_matrix<double>(4, 9, 15);
  const DropoutOptions options{0.3, 5, 6};
  Matrix<double> grad = dropout(factors, options);
  check_gradient("x", mutable_view(x), mutable_view(grad), 0.0,
                 [&] { return weighted_sum(dropout(x, options), factors); });
}

TEMPLATE_TEST_CASE("layers are as exact as their loops in long double", "", float, double) {
  using T = TestType;
  // Sums of 130 products: the largest of all instruction sets is 4.9.
  const auto close = [](const MatrixView<const T>& x, const MatrixView<const Exact>& exact) {
    Exact largest = 0;
    Exact error = 0;
    for (Index i = 0; i < exact.rows; ++i) {
      for (Index j = 0; j < exact.cols; ++j) {
        largest = std::max(largest, std::abs(exact(i, j)));
        error = std::max(error, std::abs(x(i, j) - exact(i, j)));
      }
    }
    return error <= 5.5 * std::numeric_limits<T>::epsilon() * largest;
  };
  for (const bool gated : {false, true}) {
    FeedForward<T> layer(70, 130, drawing(), {Activation::gelu_tanh, gated, true});
    draw_weights(layer, 20);
    FeedForward<Exact> exact(70, 130, drawing(), {Activation::gelu_tanh, gated, true});
    const std::vector<Parameter<T>> weights = parameters(layer);
    const std::vector<Parameter<Exact>> exact_weights = parameters(exact);
    REQUIRE(weights.size() == exact_weights.size());
    for (std::size_t n = 0; n < weights.size(); ++n) {
      const auto& to = exact_weights[n].value;
      for (Index i = 0; i < to.rows; ++i) {
        for (Index j = 0; j < to.cols; ++j) to(i, j) = weights[n].value(i, j);
      }
    }
    const Matrix<T> x = random_matrix<T>(9, 70, 21);
    const Matrix<T> grad_out = random_matrix<T>(9, 70, 22);
    const Matrix<Exact> exact_x = x.template cast<Exact>();
    const Matrix<Exact> exact_grad_out = grad_out.template cast<Exact>();
    typename FeedForward<T>::Tape tape;
    FeedForward<Exact>::Tape exact_tape;
    const Matrix<T> out = layer.forward(x, tape);
    const Matrix<Exact> exact_out = exact.forward(exact_x, exact_tape);
    CHECK(close(view(out), view(exact_out)));
    FeedForward<T> gradients = zeros_like(layer);
    FeedForward<Exact> exact_gradients = zeros_like(exact);
    const Matrix<T> grad_x = layer.backward(x, tape, grad_out, gradients);
    const Matrix<Exact> exact_grad_x = exact.backward(exact_x, exact_tape, exact_grad_out, exact_gradients);
    CHECK(close(view(grad_x), view(exact_grad_x)));
    const std::vector<Parameter<T>> grads = parameters(gradients);
    const std::vector<Parameter<Exact>> exact_grads = parameters(exact_gradients);
    for (std::size_t n = 0; n < grads.size(); ++n) {
      CAPTURE(grads[n].name);
      CHECK(close(grads[n].value, exact_grads[n].value));
    }
  }
}

namespace {

template <class T>
Matrix<T> row_of(std::initializer_list<double> numbers) {
  Matrix<T> m(1, static_cast<Index>(numbers.size()));
  Index j = 0;
  for (const double number : numbers) m(0, j++) = static_cast<T>(number);
  return m;
}

/// Within half of the last digit of the expected numbers, which have seven behind the point, and a few
/// roundings.
template <class T>
bool near(const Matrix<T>& x, std::initializer_list<double> expected) {
  const Matrix<Exact> difference = x.template cast<Exact>() - row_of<Exact>(expected);
  const double largest = static_cast<double>(row_of<Exact>(expected).cwiseAbs().maxCoeff());
  return x.allFinite() && static_cast<double>(difference.cwiseAbs().maxCoeff()) <=
                              0.51e-7 + 2 * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest;
}

}  // namespace

TEMPLATE_TEST_CASE("the loss of a sure model is finite, and right", "", float, double, long double) {
  using T = TestType;
  const auto of = [](std::initializer_list<double> logits, TokenId target) {
    return cross_entropy_with_gradient(row_of<T>(logits), std::vector{target});
  };
  const auto wrong = of({1000, 0, -1000}, 2);
  CHECK(wrong.loss == 2000);
  CHECK(near(wrong.grad_logits, {1, 0, -1}));
  const auto right = of({1000, 0, -1000}, 0);
  CHECK(right.loss == 0);
  CHECK(near(right.grad_logits, {0, 0, 0}));
  const auto some = of({2, 1, 0.1}, 1);
  CHECK(near(row_of<T>({some.loss}), {1.4170300}));
  CHECK(near(some.grad_logits, {0.6590011, -0.7575670, 0.0985659}));
  const auto equal = of({3, 3, 3, 3, 3}, 4);
  CHECK(near(row_of<T>({equal.loss}), {1.6094379}));
  CHECK(near(equal.grad_logits, {0.2, 0.2, 0.2, 0.2, -0.8}));
  CHECK(of({-7}, 0).loss == 0);
  CHECK(of({-7}, 0).grad_logits == row_of<T>({0}));

  // A hidden class costs nothing; one that is hidden and the target, everything.
  const T hidden = -kInf<T>;
  Matrix<T> logits = row_of<T>({1, 0, 1});
  logits(0, 1) = hidden;
  const auto result = cross_entropy_with_gradient(logits, std::vector<TokenId>{0});
  CHECK(near(row_of<T>({result.loss}), {0.6931472}));
  CHECK(near(result.grad_logits, {-0.5, 0, 0.5}));
  CHECK(cross_entropy(logits, std::vector<TokenId>{1}) == kInf<double>);

  // Far out, where a sum of exponentials would overflow, or be nothing.
  for (const double far : {1e30, -1e30}) {
    const auto all = of({far, far, far, far}, 0);
    CHECK(near(row_of<T>({all.loss}), {1.3862944}));
    CHECK(near(all.grad_logits, {-0.75, 0.25, 0.25, 0.25}));
  }
}

TEMPLATE_TEST_CASE("NaN in a row of logits is in its loss and gradient, and in no other row's", "", float,
                   double, long double) {
  using T = TestType;
  const Matrix<T> clean = random_matrix<T>(3, 21, 1);
  const std::vector<TokenId> targets = {4, 5, 6};
  const auto expected = cross_entropy_with_gradient(clean, targets);
  for (const Index col : {0, 3, 20}) {
    Matrix<T> logits = clean;
    logits(1, col) = kNaN<T>;
    const auto result = cross_entropy_with_gradient(logits, targets);
    CHECK(std::isnan(result.loss));
    CHECK(result.grad_logits.row(1).array().isNaN().all());
    CHECK(result.grad_logits.row(0) == expected.grad_logits.row(0));
    CHECK(result.grad_logits.row(2) == expected.grad_logits.row(2));
  }
}

TEMPLATE_TEST_CASE("rows that are ignored count for nothing, whatever is in them", "", float, double,
                   long double) {
  using T = TestType;
  Matrix<T> logits = random_matrix<T>(4, 6, 1);
  const auto two = cross_entropy_with_gradient(logits.middleRows(1, 2).eval(), std::vector<TokenId>{3, 0});
  logits.row(0).setConstant(kNaN<T>);
  logits.row(3).setConstant(kInf<T>);
  const std::vector<TokenId> targets = {ignored_target, 3, 0, ignored_target};
  const auto result = cross_entropy_with_gradient(logits, targets);
  CHECK(result.counted == 2);
  CHECK(result.loss == two.loss);
  CHECK(result.grad_logits.middleRows(1, 2) == two.grad_logits);
  CHECK(result.grad_logits.row(0).isZero(0));
  CHECK(result.grad_logits.row(3).isZero(0));

  const auto none = cross_entropy_with_gradient(logits, std::vector<TokenId>(4, ignored_target));
  CHECK(none.loss == 0);
  CHECK(none.counted == 0);
  CHECK(none.grad_logits.isZero(0));
  // Also where there is nothing at all.
  CHECK(cross_entropy(Matrix<T>(0, 6), std::vector<TokenId>()) == 0);
  CHECK(cross_entropy(Matrix<T>(2, 0), std::vector<TokenId>(2, ignored_target)) == 0);
}

TEMPLATE_TEST_CASE("targets outside the vocabulary are named with their place, before any work", "", float,
                   double, long double) {
  const Matrix<TestType> logits = random_matrix<TestType>(3, 6, 1);
  const auto message = [&](std::vector<TokenId> targets) {
    return message_of<RangeError>([&] { (void)cross_entropy_with_gradient(logits, targets); });
  };
  CHECK(message({0, 5, ignored_target}) == "nothing");
  CHECK(message({0, 6, 7}) == "target 6 at position 1 is no column of the logits, which have 6");
  CHECK(message({0, 5, -1}) == "target -1 at position 2 is no column of the logits, which have 6");
  CHECK(message({-99, 5, 0}) == "target -99 at position 0 is no column of the logits, which have 6");
  CHECK(message_of<ShapeError>([&] { (void)cross_entropy(logits, std::vector<TokenId>(2)); }) ==
        "logits is 3 x 6, there are 2 targets: one for each row is needed");
}

TEMPLATE_TEST_CASE("a norm divides by the number of columns, and has epsilon under the root", "", float,
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

TEMPLATE_TEST_CASE("NaN in a row is in all that a norm makes of it, and in no other row", "", float, double,
                   long double) {
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

TEMPLATE_TEST_CASE("a norm of wide rows far from 0 keeps its digits", "", float, double) {
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

TEMPLATE_TEST_CASE("a forward pass leaves its input, and a backward pass belongs to the input it is handed",
                   "", float, double, long double) {
  using T = TestType;
  const Matrix<T> a = random_matrix<T>(6, 8, 1);
  const Matrix<T> b = random_matrix<T>(3, 8, 2);
  const Matrix<T> a_before = a;
  const Matrix<T> grad_a = random_matrix<T>(6, 8, 3);
  const auto same = [](const auto& x, const auto& y) { return x == y; };
  const auto same_weights = [](auto& x, auto& y) {
    const auto ours = parameters(x);
    const auto others = parameters(y);
    bool all = ours.size() == others.size();
    for (std::size_t n = 0; all && n < ours.size(); ++n) {
      for (Index i = 0; i < ours[n].value.rows; ++i) {
        for (Index j = 0; j < ours[n].value.cols; ++j)
          all = all && ours[n].value(i, j) == others[n].value(i, j);
      }
    }
    return all;
  };
  const auto check = [&](auto layer) {
    draw_weights(layer, 4);
    const auto layer_before = layer;
    auto alone = zeros_like(layer);
    auto after_another = zeros_like(layer);
    const Matrix<T> grad = layer.backward(a, grad_a, alone);
    (void)layer.forward(a);
    const Matrix<T> out_b = layer.forward(b);
    CHECK(same(layer.backward(a, grad_a, after_another), grad));
    CHECK(same_weights(alone, after_another));
    auto unchanged = layer_before;
    CHECK(same_weights(layer, unchanged));
    // A result may take the place of its input.
    Matrix<T> x = b;
    x = layer.forward(x);
    CHECK(same(x, out_b));
  };
  check(Linear<T>(8, 8, drawing()));
  check(layer_norm<T>(8));
  check(rms_norm<T>(8));
  for (const bool gated : {false, true}) {
    FeedForward<T> layer(8, 12, drawing(), {Activation::silu, gated, true});
    typename FeedForward<T>::Tape tape_a;
    typename FeedForward<T>::Tape tape_b;
    FeedForward<T> alone = zeros_like(layer);
    FeedForward<T> after_another = zeros_like(layer);
    const Matrix<T> out_a = layer.forward(a, tape_a);
    CHECK(same(out_a, layer.forward(a)));
    const Matrix<T> grad = layer.backward(a, tape_a, grad_a, alone);
    const Matrix<T> out_b = layer.forward(b, tape_b);
    CHECK(same(layer.backward(a, tape_a, grad_a, after_another), grad));
    CHECK(same_weights(alone, after_another));
    // A tape serves again, for other sizes too.
    CHECK(same(layer.forward(b, tape_a), out_b));
    CHECK(same(tape_a.hidden, tape_b.hidden));
    CHECK(contains(message_of<ShapeError>([&] { (void)layer.backward(a, tape_a, grad_a, after_another); }),
                   "tape.up is 3 x 12, x needs 6 x 12"));
  }
  CHECK(same(a, a_before));
}

TEMPLATE_TEST_CASE("layers have the same bits on any threads, and a row alone has those it has among others",
                   "[threads]", float, double) {
  using T = TestType;
  const Matrix<T> x = random_matrix<T>(200, 96, 1);
  const Matrix<T> grad_out = random_matrix<T>(200, 96, 2);
  for (const bool gated : {false, true}) {
    FeedForward<T> layer(96, 200, drawing(), {Activation::gelu, gated, true});
    draw_weights(layer, 3);
    typename FeedForward<T>::Tape tape;
    FeedForward<T> gradients = zeros_like(layer);
    const Matrix<T> out = layer.forward(x, tape);
    const Matrix<T> grad_x = layer.backward(x, tape, grad_out, gradients);
    const std::vector<Parameter<T>> grads = parameters(gradients);
    for (const Index threads : {1, 4}) {
      typename FeedForward<T>::Tape other_tape;
      FeedForward<T> other = zeros_like(layer);
      CHECK(same_bits(layer.forward(x, other_tape, &pool_of(threads)), out));
      CHECK(same_bits(layer.backward(x, other_tape, grad_out, other, &pool_of(threads)), grad_x));
      const std::vector<Parameter<T>> other_grads = parameters(other);
      for (std::size_t n = 0; n < grads.size(); ++n) {
        CHECK(std::memcmp(grads[n].value.data, other_grads[n].value.data,
                          sizeof(T) * static_cast<std::size_t>(grads[n].value.rows * grads[n].value.cols)) ==
              0);
      }
    }
    const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> by_columns = x;
    CHECK(same_bits(layer.forward(by_columns), out));
    typename FeedForward<T>::Tape row_tape;
    CHECK(same_bits(layer.forward(x.row(117), row_tape), out.row(117)));
    FeedForward<T> other = zeros_like(layer);
    CHECK(same_bits(layer.backward(x.row(117), row_tape, grad_out.row(117), other), grad_x.row(117)));
  }
}

namespace {

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

TEST_CASE("dropout has the numbers of Philox4x32-10, known answers first") {
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
                   "[threads]", float, double) {
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

TEST_CASE("dropout drops at its rate, others with another seed or stream, and keeps the mean") {
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

TEMPLATE_TEST_CASE("a rate of 0 keeps everything, a rate outside [0, 1) is an error", "", float, double) {
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

TEST_CASE("layers have their weights' names, in their order") {
  const auto names = [](auto layer, const std::string& prefix) {
    std::string all;
    layer.for_each_parameter([&](const std::string& name, const auto&) { all += name + " "; }, prefix);
    const auto& constant = layer;
    std::string again;
    constant.for_each_parameter([&](const std::string& name, const auto&) { again += name + " "; }, prefix);
    CHECK(all == again);
    return all;
  };
  Random random(1);
  CHECK(names(Linear<float>(2, 3, random), "") == "w b ");
  CHECK(names(Linear<float>(2, 3, random, false), "out.") == "out.w ");
  CHECK(names(layer_norm<double>(4), "norm1.") == "norm1.weight norm1.bias ");
  CHECK(names(rms_norm<double>(4), "") == "weight ");
  CHECK(names(TokenEmbedding<float>(5, 2, random), "tokens.") == "tokens.table ");
  CHECK(names(FeedForward<float>(2, 3, random), "ff.") == "ff.up.w ff.up.b ff.down.w ff.down.b ");
  CHECK(names(FeedForward<float>(2, 3, random, {Activation::silu, true, false}), "") ==
        "up.w gate.w down.w ");

  FeedForward<float> layer(2, 3, random);
  FeedForward<float> gradients = zeros_like(layer);
  const auto list = parameters(layer, gradients);
  REQUIRE(list.size() == 4);
  CHECK(num_parameters(layer) == 2 * 3 + 3 + 3 * 2 + 2);
  CHECK(list[0].decays);
  CHECK_FALSE(list[1].decays);
  CHECK(list[2].value.data == layer.down.w.data());
  CHECK(list[2].grad.data == gradients.down.w.data());
  CHECK(parameters(layer)[2].value.data == layer.down.w.data());
  CHECK(parameters(layer)[2].grad.data == nullptr);
  set_zero(layer);
  CHECK(layer.up.w.isZero(0));
  Norm<float> norm = layer_norm<float>(4);
  CHECK_FALSE(parameters(norm)[0].decays);
}

TEST_CASE("gradients of another model are refused") {
  Random random(1);
  const auto message = [](auto layer, auto gradients) {
    return message_of<ShapeError>([&] { (void)parameters(layer, gradients); });
  };
  const Linear<float> layer(2, 3, random);
  CHECK(message(layer, layer) == "nothing");
  CHECK(message(layer, Linear<float>(3, 2, random)) == "the gradient w (3 x 2) belongs to no weight");
  CHECK(message(layer, Linear<float>(2, 3, random, false)) == "the weight b has no gradient");
  CHECK(message(Linear<float>(2, 3, random, false), layer) == "the gradient b (1 x 3) belongs to no weight");
  CHECK(
      message(FeedForward<float>(2, 3, random), FeedForward<float>(2, 3, random, {Activation::relu, true})) ==
      "the gradient gate.w (2 x 3) belongs to no weight");
  CHECK(message(layer_norm<float>(4), rms_norm<float>(4)) == "the weight bias has no gradient");
}

namespace {

/// call(gradients) throws a ShapeError with `text` in it, and has written nothing.
template <template <class> class Layer, class T, class Call>
void check_refused(const Layer<T>& like, const std::string& text, const Call& call) {
  Layer<T> gradients = like;
  gradients.for_each_parameter([](const std::string&, auto& m) { m.setConstant(T(7)); });
  const std::string message = message_of<ShapeError>([&] { call(gradients); });
  CAPTURE(message, text);
  CHECK(contains(message, text));
  gradients.for_each_parameter([](const std::string& name, const auto& m) {
    CAPTURE(name);
    CHECK((m.array() == T(7)).all());
  });
}

}  // namespace

TEMPLATE_TEST_CASE("sizes that do not fit a layer are named before anything is written", "", float,
                   long double) {
  using T = TestType;
  Random random(1);
  const Matrix<T> x = random_matrix<T>(4, 3, 1);
  const Matrix<T> wide = random_matrix<T>(4, 6, 2);
  const Matrix<T> few = random_matrix<T>(2, 5, 3);
  const Matrix<T> grad_out = random_matrix<T>(4, 5, 4);

  const Linear<T> linear(3, 5, random);
  const auto backward = [](const auto& layer, const Matrix<T>& at, const Matrix<T>& grad) {
    return [&](auto& gradients) { (void)layer.backward(at, grad, gradients); };
  };
  CHECK(message_of<ShapeError>([&] { (void)linear.forward(wide); }) ==
        "x is 4 x 6, w is 3 x 5: as many columns as rows are needed");
  check_refused(linear, "x is 4 x 6, w is 3 x 5", backward(linear, wide, grad_out));
  check_refused(linear, "grad_out is 4 x 6, a layer of 5 columns on 4 rows needs 4 x 5",
                backward(linear, x, wide));
  check_refused(linear, "grad_out is 2 x 5", backward(linear, x, few));
  check_refused(Linear<T>(3, 6, random), "gradients.w is 3 x 6, w needs 3 x 5",
                backward(linear, x, grad_out));
  check_refused(Linear<T>(3, 5, random, false), "gradients.b is 1 x 0, b needs 1 x 5",
                backward(linear, x, grad_out));
  Linear<T> uneven = linear;
  uneven.b.setZero(4);
  CHECK(message_of<ShapeError>([&] { (void)uneven.forward(x); }) == "b is 1 x 4, w is 3 x 5");
  CHECK(contains(message_of<ShapeError>([&] { Linear<T>(0, 3, random); }), "in is 0, out is 3"));
  CHECK(contains(message_of<ShapeError>([&] { Linear<T>(3, -1, random); }), "in is 3, out is -1"));

  const Norm<T> norm = layer_norm<T>(3);
  CHECK(message_of<ShapeError>([&] { (void)norm.forward(wide); }) ==
        "x is 4 x 6, weight is 1 x 3, bias is 1 x 3: as many columns are needed");
  check_refused(norm, "x is 4 x 6, weight is 1 x 3", backward(norm, wide, wide));
  check_refused(norm, "grad_out is 4 x 6, x needs 4 x 3", backward(norm, x, wide));
  check_refused(layer_norm<T>(4), "gradients.weight is 1 x 4, weight needs 1 x 3", backward(norm, x, x));
  check_refused(rms_norm<T>(3), "gradients.bias is 1 x 0, bias needs 1 x 3", backward(norm, x, x));
  CHECK(message_of<ShapeError>([] { layer_norm<T>(0); }) == "a norm of 0 columns, it needs at least 1");
  for (const double epsilon : {0.0, -1e-5, kNaN<double>, kInf<double>})
    CHECK(contains(message_of<ArgumentError>([&] { rms_norm<T>(3, epsilon); }), "epsilon"));

  for (const bool gated : {false, true}) {
    CAPTURE(gated);
    const FeedForwardOptions options{Activation::gelu, gated, true};
    const FeedForward<T> layer(3, 5, random, options);
    typename FeedForward<T>::Tape tape;
    (void)layer.forward(x, tape);
    const auto refused = [&](const FeedForward<T>& like, const std::string& text, const Matrix<T>& at,
                             const typename FeedForward<T>::Tape& with, const Matrix<T>& grad) {
      check_refused(like, text, [&](auto& gradients) { (void)layer.backward(at, with, grad, gradients); });
    };
    CHECK(contains(message_of<ShapeError>([&] { (void)layer.forward(wide); }), "x is 4 x 6, w is 3 x 5"));
    refused(layer, "x is 4 x 6, w is 3 x 5", wide, tape, x);
    refused(layer, "grad_out is 4 x 6, a layer of 3 columns on 4 rows needs 4 x 3", x, tape, wide);
    refused(layer, "grad_out is 2 x 5", x, tape, few);
    refused(layer, "tape.up is 4 x 5, x needs 2 x 5", x.topRows(2), tape, x.topRows(2));
    auto other = tape;
    other.hidden.resize(4, 6);
    refused(layer, "tape.hidden is 4 x 6, x needs 4 x 5", x, other, x);
    other = tape;
    other.gate.resize(3, 5);
    if (gated) refused(layer, "tape.gate is 3 x 5, x needs 4 x 5", x, other, x);
    other.up.resize(0, 0);
    refused(layer, "tape.up is 0 x 0, x needs 4 x 5", x, other, x);
    FeedForward<T> gradients = layer;
    gradients.up = Linear<T>(3, 6, random);
    refused(gradients, "gradients.up.w is 3 x 6, w needs 3 x 5", x, tape, x);
    gradients = layer;
    gradients.up.b.resize(0);
    refused(gradients, "gradients.up.b is 1 x 0, b needs 1 x 5", x, tape, x);
    gradients = layer;
    gradients.down = Linear<T>(5, 4, random);
    refused(gradients, "gradients.down.w is 5 x 4, w needs 5 x 3", x, tape, x);
    if (gated) {
      gradients = layer;
      gradients.gate->w.resize(2, 5);
      refused(gradients, "gradients.gate.w is 2 x 5, w needs 3 x 5", x, tape, x);
    }
    refused(FeedForward<T>(3, 5, random, {Activation::gelu, !gated, true}), "one of both is gated", x, tape,
            x);
    CHECK(contains(message_of<ShapeError>([&] { FeedForward<T>(3, 0, random, options); }), "out is 0"));
  }

  const TokenEmbedding<T> embedding(6, 5, random);
  const auto scatter = [&](std::vector<TokenId> ids, const Matrix<T>& grad) {
    return [&embedding, &grad, ids](auto& gradients) { embedding.backward(ids, grad, gradients); };
  };
  check_refused(embedding, "grad_out is 4 x 5", scatter({1, 2, 3}, grad_out));
  check_refused(embedding, "grad_out is 4 x 6", scatter({1, 2, 3, 4}, wide));
  check_refused(TokenEmbedding<T>(5, 5, random), "gradients.table is 5 x 5", scatter({1, 2, 3, 4}, grad_out));
  TokenEmbedding<T> gradients = zeros_like(embedding);
  CHECK(contains(message_of<RangeError>([&] {
                   scatter({1, 2, 6, 4}, grad_out)(gradients);
                 }),
                 "id 6 at position 2 is not in the embedding table"));
  CHECK(contains(message_of<RangeError>([&] {
                   scatter({-1, 2, 5, 4}, grad_out)(gradients);
                 }),
                 "id -1 at position 0 is not in the embedding table"));
  CHECK(gradients.table.isZero(0));

  CHECK(message_of<ShapeError>([&] { (void)activate_backward(Activation::relu, x, wide); }) ==
        "grad_out is 4 x 6, x needs 4 x 3");
  CHECK(message_of<ShapeError>([&] { (void)heed::gated(Activation::relu, x, wide); }) ==
        "up is 4 x 6, gate needs 4 x 3");
  CHECK(message_of<ShapeError>([&] { (void)gated_backward(Activation::relu, x, wide, x); }) ==
        "up is 4 x 6, gate needs 4 x 3");
  CHECK(message_of<ShapeError>([&] { (void)gated_backward(Activation::relu, x, x, few); }) ==
        "grad_out is 2 x 5, gate needs 4 x 3");
}
