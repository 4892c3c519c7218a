// Cross-entropy: exact to a few roundings and the same bits in any place, its gradient as differences have
// it, numbers by hand, NaN in its own row, ignored rows, targets that are no column; and its options, against
// a plain evaluation in long double and numbers of PyTorch's definition.

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/rows.hpp"
#include "helpers.hpp"
#include "layer_laws.hpp"

namespace {

using namespace heed;
using namespace heed::test;

struct ExactLoss {
  std::vector<Exact> rows;
  Exact loss = 0;
  Matrix<Exact> grad;
};

/// The definition, one term after another: probabilities first.
template <class T>
ExactLoss exact_loss(const Matrix<T>& logits, const std::vector<TokenId>& targets,
                     const CrossEntropyOptions& options) {
  const Index classes = logits.cols();
  const auto weight = [&](Index c) -> Exact {
    return options.class_weights.empty() ? 1 : options.class_weights[static_cast<std::size_t>(c)];
  };
  const Exact e = options.label_smoothing;
  ExactLoss result;
  result.grad = Matrix<Exact>::Zero(logits.rows(), classes);
  Exact divisor = 0;
  for (Index i = 0; i < logits.rows(); ++i) {
    const TokenId target = targets[static_cast<std::size_t>(i)];
    result.rows.push_back(0);
    if (target == options.ignored) continue;
    divisor += weight(target);
    Exact sum = 0;
    for (Index c = 0; c < classes; ++c) sum += std::exp(Exact(logits(i, c)));
    for (Index c = 0; c < classes; ++c) {
      const Exact counts = (c == target ? (1 - e) * weight(c) : 0) + e / classes * weight(c);
      result.rows.back() -= counts * (Exact(logits(i, c)) - std::log(sum));
      for (Index k = 0; k < classes; ++k)
        result.grad(i, k) += counts * (std::exp(Exact(logits(i, k))) / sum - (k == c ? 1 : 0));
    }
    result.loss += result.rows.back();
  }
  if (options.reduction == LossReduction::mean) {
    result.loss = divisor > 0 ? result.loss / divisor : 0;
    result.grad *= divisor > 0 ? 1 / divisor : 0;
  }
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("a row's loss and gradient are exact to a few roundings, with the same bits in any place",
                   "[loss][threads][gradient][bits]", float, double) {
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

TEMPLATE_TEST_CASE("the gradient of the loss is that of differences, where rows are ignored too",
                   "[loss][gradient]", double, long double) {
  using T = TestType;
  Matrix<T> logits = random_matrix<T>(5, 9, 13, 3);
  const std::vector<TokenId> targets = {3, kIgnoredTarget, 0, 8, 3};
  auto result = cross_entropy_with_gradient(logits, targets);
  CHECK(result.counted == 4);
  CHECK(result.loss == cross_entropy(logits, targets));
  // The loss of long double is a double.
  const auto loss = [&] {
    T sum = 0;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] == kIgnoredTarget) continue;
      const auto row = logits.row(static_cast<Index>(i)).array();
      sum += std::log(row.exp().sum()) - row(targets[i]);
    }
    return sum / 4;
  };
  CHECK(std::abs(static_cast<double>(loss()) - result.loss) <= 1e-15 * result.loss);
  check_gradient("logits", mutable_view(logits), mutable_view(result.grad_logits), T(0), loss);
}

TEMPLATE_TEST_CASE("the loss of a sure model is finite, and right", "[loss]", float, double, long double) {
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

TEMPLATE_TEST_CASE("NaN in a row of logits is in its loss and gradient, and in no other row's",
                   "[loss][gradient][nan]", float, double, long double) {
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

TEMPLATE_TEST_CASE("rows that are ignored count for nothing, whatever is in them", "[loss]", float, double,
                   long double) {
  using T = TestType;
  Matrix<T> logits = random_matrix<T>(4, 6, 1);
  const auto two = cross_entropy_with_gradient(logits.middleRows(1, 2).eval(), std::vector<TokenId>{3, 0});
  logits.row(0).setConstant(kNaN<T>);
  logits.row(3).setConstant(kInf<T>);
  const std::vector<TokenId> targets = {kIgnoredTarget, 3, 0, kIgnoredTarget};
  const auto result = cross_entropy_with_gradient(logits, targets);
  CHECK(result.counted == 2);
  CHECK(result.loss == two.loss);
  CHECK(result.grad_logits.middleRows(1, 2) == two.grad_logits);
  CHECK(result.grad_logits.row(0).isZero(0));
  CHECK(result.grad_logits.row(3).isZero(0));

  const auto none = cross_entropy_with_gradient(logits, std::vector<TokenId>(4, kIgnoredTarget));
  CHECK(none.loss == 0);
  CHECK(none.counted == 0);
  CHECK(none.grad_logits.isZero(0));
  // Also where there is nothing at all.
  CHECK(cross_entropy(Matrix<T>(0, 6), std::vector<TokenId>()) == 0);
  CHECK(cross_entropy(Matrix<T>(2, 0), std::vector<TokenId>(2, kIgnoredTarget)) == 0);
}

TEMPLATE_TEST_CASE("targets outside the vocabulary are named with their place, before any work",
                   "[loss][errors]", float, double, long double) {
  const Matrix<TestType> logits = random_matrix<TestType>(3, 6, 1);
  const auto message = [&](std::vector<TokenId> targets) {
    return message_of<RangeError>([&] { (void)cross_entropy_with_gradient(logits, targets); });
  };
  CHECK(message({0, 5, kIgnoredTarget}) == "nothing");
  CHECK(message({0, 6, 7}) == "target 6 at position 1 is no column of the logits, which have 6");
  CHECK(message({0, 5, -1}) == "target -1 at position 2 is no column of the logits, which have 6");
  CHECK(message({-99, 5, 0}) == "target -99 at position 0 is no column of the logits, which have 6");
  CHECK(message_of<ShapeError>([&] { (void)cross_entropy(logits, std::vector<TokenId>(2)); }) ==
        "logits is 3 x 6, there are 2 targets: one for each row is needed");
}

TEMPLATE_TEST_CASE("weights, smoothing, ignored targets and reductions are those of the definition", "[loss]",
                   float, double, long double) {
  using T = TestType;
  const Matrix<T> logits = random_matrix<T>(6, 5, 1, 3);
  ThreadPool pool(2);
  for (const TokenId ignored : {kIgnoredTarget, 0, 7}) {
    std::vector<TokenId> targets = {3, 0, 4, 2, 3, 1};
    if (ignored != 0) targets[1] = ignored;
    for (const bool weighted : {false, true}) {
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        for (const LossReduction reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
          CrossEntropyOptions options{
              .ignored = ignored, .label_smoothing = smoothing, .reduction = reduction};
          if (weighted) options.class_weights = {0.5, 2, 0, 1.25, 3};
          CAPTURE(ignored, weighted, smoothing, static_cast<int>(reduction));
          const ExactLoss exact = exact_loss(logits, targets, options);
          const auto result = cross_entropy_with_gradient(logits, targets, options);
          const double tolerance = 8 * static_cast<double>(std::max<T>(std::numeric_limits<T>::epsilon(),
                                                                       static_cast<T>(0x1p-52)));
          CHECK(result.counted == 5);
          for (std::size_t i = 0; i < targets.size(); ++i)
            CHECK(std::abs(result.losses[i] - static_cast<double>(exact.rows[i])) <= 16 * tolerance);
          CHECK(std::abs(result.loss - static_cast<double>(exact.loss)) <= 64 * tolerance);
          const Matrix<Exact> error = result.grad_logits.template cast<Exact>() - exact.grad;
          CHECK(static_cast<double>(error.cwiseAbs().maxCoeff()) <= tolerance);
          if (reduction != LossReduction::none) CHECK(cross_entropy(logits, targets, options) == result.loss);
          const auto shared = cross_entropy_with_gradient(logits, targets, options, &pool);
          CHECK(shared.grad_logits == result.grad_logits);
          CHECK(shared.losses == result.losses);
        }
      }
    }
  }
}

TEST_CASE("the losses of a worked example are PyTorch's", "[loss]") {
  // torch.nn.functional.cross_entropy(logits, targets, weight, ignore_index=2, label_smoothing), by hand:
  // p = (1, 3) / 4 in row 0, (1, 1) / 2 in row 1; row 2 is ignored.
  Matrix<double> logits(3, 2);
  logits << 0, std::log(3.0), 1, 1, 5, -5;
  const std::vector<TokenId> targets = {0, 1, 2};
  const double row0 = std::log(4.0);
  const double row1 = std::log(2.0);
  const double smooth0 = 0.8 * row0 + 0.1 * (std::log(4.0) + std::log(4.0 / 3));
  const auto difference = [&](const CrossEntropyOptions& options, double expected) {
    return std::abs(cross_entropy(logits, targets, options) - expected);
  };
  CHECK(difference({.ignored = 2}, (row0 + row1) / 2) <= 1e-15);
  CHECK(difference({.ignored = 2, .class_weights = {3, 1}}, (3 * row0 + row1) / 4) <= 1e-15);
  CHECK(difference({.ignored = 2, .reduction = LossReduction::sum}, row0 + row1) <= 1e-15);
  CHECK(difference({.ignored = 2, .label_smoothing = 0.2}, (smooth0 + row1) / 2) <= 1e-15);
}

TEMPLATE_TEST_CASE("plain options have the bits of no options", "[loss][bits]", float, double) {
  using T = TestType;
  const Matrix<T> logits = random_matrix<T>(5, 33, 2, 4);
  const std::vector<TokenId> targets = {3, 32, kIgnoredTarget, 0, 7};
  const auto plain = cross_entropy_with_gradient(logits, targets);
  const auto given = cross_entropy_with_gradient(logits, targets, CrossEntropyOptions{});
  CHECK(plain.loss == given.loss);
  CHECK(same_bits(plain.grad_logits, given.grad_logits));
}

TEMPLATE_TEST_CASE("rows that count for nothing reach nothing, and where none counts the loss is 0", "[loss]",
                   float, double, long double) {
  using T = TestType;
  Matrix<T> logits = random_matrix<T>(3, 4, 3);
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions{.ignored = 2}, CrossEntropyOptions{.class_weights = {1, 1, 0, 1}},
        CrossEntropyOptions{.ignored = 2, .class_weights = {1, 2, 3, 4}, .label_smoothing = 0.3}}) {
    const std::vector<TokenId> targets = {1, 2, 3};
    const auto clean = cross_entropy_with_gradient(logits, targets, options);
    for (const T bad : {kNaN<T>, kInf<T>, -kInf<T>}) {
      Matrix<T> padded = logits;
      padded.row(1).setConstant(bad);
      const auto result = cross_entropy_with_gradient(padded, targets, options);
      CHECK(result.loss == clean.loss);
      CHECK(result.grad_logits == clean.grad_logits);
      CHECK(result.grad_logits.row(1).isZero(0));
      // The mean of nothing: PyTorch has NaN, Heed 0.
      const auto none = cross_entropy_with_gradient(padded, std::vector<TokenId>(3, 2), options);
      CHECK(none.loss == 0);
      CHECK(none.grad_logits.isZero(0));
      CHECK(none.losses == std::vector<double>(3, 0));
    }
  }
  // A class that is impossible and weighs nothing is no part of the smoothing.
  logits(0, 3) = -kInf<T>;
  CHECK(std::isfinite(cross_entropy(logits, std::vector<TokenId>{1, 2, 0},
                                    {.class_weights = {1, 1, 1, 0}, .label_smoothing = 0.5})));
}

TEST_CASE("options of the loss that make no sense are named", "[loss][errors]") {
  const Matrix<float> logits = Matrix<float>::Zero(2, 3);
  const std::vector<TokenId> targets = {0, 2};
  const auto argument = [&](const CrossEntropyOptions& options) {
    return message_of<ArgumentError>([&] { cross_entropy_with_gradient(logits, targets, options); });
  };
  CHECK(argument({.label_smoothing = 1.5}) == "label_smoothing is 1.5, it must be in [0, 1]");
  CHECK(argument({.label_smoothing = -0.1}) == "label_smoothing is -0.1, it must be in [0, 1]");
  CHECK(argument({.label_smoothing = kNaN<double>}) == "label_smoothing is nan, it must be in [0, 1]");
  CHECK(argument({.class_weights = {1, -2, 1}}) ==
        "class_weights[1] is -2, it must be finite and not negative");
  CHECK(argument({.class_weights = {1, 1, kInf<double>}}) ==
        "class_weights[2] is inf, it must be finite and not negative");
  CHECK(argument({.reduction = static_cast<LossReduction>(9)}) ==
        "reduction is 9, it must be mean, sum or none");
  CHECK(message_of<ShapeError>([&] {
          cross_entropy(logits, targets, {.class_weights = {1, 1}});
        }) == "there are 2 class_weights, logits have 3 columns: one for each is needed");
  CHECK(message_of<ArgumentError>([&] {
          cross_entropy(logits, targets, {.reduction = LossReduction::none});
        }) == "reduction is none: call cross_entropy_with_gradient(), whose losses has one for each row");
  CHECK(message_of<RangeError>([&] {
          cross_entropy(logits, std::vector<TokenId>{0, -100}, {.ignored = -1});
        }) == "target -100 at position 1 is no column of the logits, which have 3");
}
