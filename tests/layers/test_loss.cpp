// The options of cross-entropy: against a plain evaluation in long double, numbers of PyTorch's definition,
// and what is refused.

#include <cmath>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/layers/loss.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

using Exact = long double;

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

TEMPLATE_TEST_CASE("weights, smoothing, ignored targets and reductions are those of the definition", "",
                   float, double, long double) {
  using T = TestType;
  const Matrix<T> logits = random_matrix<T>(6, 5, 1, 3);
  ThreadPool pool(2);
  for (const TokenId ignored : {ignored_target, 0, 7}) {
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

TEST_CASE("the losses of a worked example are PyTorch's") {
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

TEMPLATE_TEST_CASE("plain options have the bits of no options", "", float, double) {
  using T = TestType;
  const Matrix<T> logits = random_matrix<T>(5, 33, 2, 4);
  const std::vector<TokenId> targets = {3, 32, ignored_target, 0, 7};
  const auto plain = cross_entropy_with_gradient(logits, targets);
  const auto given = cross_entropy_with_gradient(logits, targets, CrossEntropyOptions{});
  CHECK(plain.loss == given.loss);
  CHECK(same_bits(plain.grad_logits, given.grad_logits));
}

TEMPLATE_TEST_CASE("rows that count for nothing reach nothing, and where none counts the loss is 0", "",
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

TEST_CASE("options of the loss that make no sense are named") {
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
