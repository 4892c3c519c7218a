// Optimizers against plain loops in long double, and what a step may depend on.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/optimizer.hpp"
#include "heed/layers/parameters.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

using Exact = long double;

constexpr int kSteps = kSlowRun ? 6 : 20;

/// Matrices of weights and their gradients, in memory of their own.
template <class T, int Order = Eigen::RowMajor>
struct Weights {
  using M = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>;
  std::vector<M> values;
  std::vector<M> grads;

  std::vector<Parameter<T>> list() {
    std::vector<Parameter<T>> all;
    for (std::size_t n = 0; n < values.size(); ++n) {
      all.push_back({"w" + std::to_string(n), mutable_view(values[n]), mutable_view(grads[n]), n % 3 != 2});
    }
    return all;
  }
};

// Around the lanes of every instruction set, and empty ones; every third does not decay. The last two are cut
// into pieces, between rows and at each row.
const std::pair<Index, Index> kSizes[] = {{1, 1}, {3, 1},  {1, 17},  {0, 5}, {5, 33},   {4, 16},
                                          {7, 0}, {9, 65}, {1, 200}, {3, 8}, {90, 200}, {2, 8300}};
constexpr std::size_t kSmallSizes = 10;

template <class T, int Order = Eigen::RowMajor>
Weights<T, Order> draw_weights(std::size_t count = std::size(kSizes)) {
  Weights<T, Order> weights;
  for (std::size_t n = 0; n < count; ++n) {
    const auto [rows, cols] = kSizes[n];
    weights.values.push_back(random_matrix<T>(rows, cols, n));
    weights.grads.push_back(Matrix<T>::Zero(rows, cols));
  }
  return weights;
}

/// The gradients of step t, in weights of any layout. Those of some elements are 0 for a while.
template <class T>
void draw_gradients(const std::vector<Parameter<T>>& weights, int t) {
  for (std::size_t n = 0; n < weights.size(); ++n) {
    const MatrixView<T>& grad = weights[n].grad;
    const Matrix<T> drawn = random_matrix<T>(grad.rows, grad.cols, 1000 * (n + 1) + static_cast<unsigned>(t));
    for (Index i = 0; i < grad.rows; ++i) {
      for (Index j = 0; j < grad.cols; ++j) grad(i, j) = (i + j + t) % 7 == 0 ? T(0) : drawn(i, j);
    }
  }
}

double rate_of(int t) {
  return 0.02 / (1 + 0.1 * t);
}

/// One weight of a plain loop.
struct ExactAdam {
  Exact first = 0;
  Exact second = 0;

  void step(Exact& w, Exact g, int t, double rate, double decay, const AdamWOptions& o) {
    first = o.beta1 * first + (1 - Exact(o.beta1)) * g;
    second = o.beta2 * second + (1 - Exact(o.beta2)) * g * g;
    const Exact m = first / (1 - std::pow(Exact(o.beta1), t));
    const Exact v = second / (1 - std::pow(Exact(o.beta2), t));
    w = w * (1 - Exact(rate) * decay) - rate * m / (std::sqrt(v) + o.epsilon);
  }
};

struct ExactSgd {
  Exact velocity = 0;

  void step(Exact& w, Exact g, double rate, double decay, double momentum) {
    velocity = momentum * velocity + g + decay * w;
    w -= rate * velocity;
  }
};

/// The largest error of all weights after kSteps, in eps, of weights below 2 in size. exact_step(state, w, g,
/// t, decays) moves one weight of the loop.
template <class T, class State, class Optimizer, class ExactStep>
double error_after_steps(Optimizer& optimizer, double grad_factor, const ExactStep& exact_step) {
  Weights<T> weights = draw_weights<T>(kSmallSizes);
  const std::vector<Parameter<T>> list = weights.list();
  std::vector<Matrix<Exact>> exact;
  std::vector<std::vector<State>> states;
  for (const auto& m : weights.values) {
    exact.push_back(m.template cast<Exact>());
    states.emplace_back(static_cast<std::size_t>(m.size()));
  }
  for (int t = 1; t <= kSteps; ++t) {
    draw_gradients(list, t);
    optimizer.step(list, rate_of(t), grad_factor);
    for (std::size_t n = 0; n < exact.size(); ++n) {
      for (Index i = 0; i < exact[n].size(); ++i) {
        exact_step(states[n][static_cast<std::size_t>(i)], exact[n].data()[i],
                   static_cast<T>(grad_factor) * Exact(weights.grads[n].data()[i]), t, list[n].decays);
      }
    }
  }
  Exact worst = 0;
  for (std::size_t n = 0; n < exact.size(); ++n) {
    if (exact[n].size() == 0) continue;
    worst = std::max(worst, (weights.values[n].template cast<Exact>() - exact[n]).cwiseAbs().maxCoeff());
  }
  return static_cast<double>(worst / std::numeric_limits<T>::epsilon());
}

template <class T>
Matrix<T> copy_of(const MatrixView<T>& view) {
  Matrix<T> copy(view.rows, view.cols);
  for (Index i = 0; i < view.rows; ++i) {
    for (Index j = 0; j < view.cols; ++j) copy(i, j) = view(i, j);
  }
  return copy;
}

template <class T>
bool same_values(const std::vector<Parameter<T>>& a, const std::vector<Parameter<T>>& b) {
  bool same = a.size() == b.size();
  for (std::size_t n = 0; same && n < a.size(); ++n)
    same = same_bits(copy_of(a[n].value), copy_of(b[n].value));
  return same;
}

/// All steps with weights in matrices by rows, and in others, on threads, and one by one: the same bits.
template <class T, class MakeOptimizer>
void check_same_bits(const MakeOptimizer& make) {
  Weights<T> weights = draw_weights<T>();
  const std::vector<Parameter<T>> list = weights.list();
  auto plain = make(list);
  for (int t = 1; t <= kSteps; ++t) {
    draw_gradients(list, t);
    plain.step(list, rate_of(t), 0.7);
  }
  const auto check = [&](const std::vector<Parameter<T>>& other, Executor* executor) {
    auto optimizer = make(other);
    for (int t = 1; t <= kSteps; ++t) {
      draw_gradients(other, t);
      optimizer.step(other, rate_of(t), 0.7, executor);
    }
    CHECK(same_values(list, other));
  };
  for (const Index threads : {1, 4}) {
    CAPTURE(threads);
    ThreadPool pool(threads);
    Weights<T> other = draw_weights<T>();
    check(other.list(), &pool);
    Weights<T, Eigen::ColMajor> by_columns = draw_weights<T, Eigen::ColMajor>();
    check(by_columns.list(), &pool);
  }
  for (const Index step : {1, 3}) {
    CAPTURE(step);
    const Weights<T> drawn = draw_weights<T>();
    std::vector<AwkwardMatrix<T>> values;
    std::vector<AwkwardMatrix<T>> grads;
    for (const auto& m : drawn.values) values.emplace_back(m, step);
    for (const auto& m : drawn.grads) grads.emplace_back(m, step);
    std::vector<Parameter<T>> strided = list;
    for (std::size_t n = 0; n < strided.size(); ++n) {
      auto value = values[n].map();
      auto grad = grads[n].map();
      strided[n].value = mutable_view(value);
      strided[n].grad = mutable_view(grad);
    }
    check(strided, nullptr);
  }
  // Each weight for itself, with an optimizer of its own.
  for (std::size_t n = 0; n < list.size(); ++n) {
    Weights<T> drawn = draw_weights<T>();
    const std::vector<Parameter<T>> all = drawn.list();
    const std::vector<Parameter<T>> alone = {all[n]};
    auto optimizer = make(alone);
    for (int t = 1; t <= kSteps; ++t) {
      draw_gradients(all, t);
      optimizer.step(alone, rate_of(t), 0.7);
    }
    CHECK(same_values({list[n]}, alone));
  }
}

/// One number as a weight.
template <class T>
struct Number {
  Matrix<T> value;
  Matrix<T> grad;

  explicit Number(double x) : value(Matrix<T>::Constant(1, 1, static_cast<T>(x))), grad(1, 1) {}
  Parameter<T> parameter(const std::string& name, bool decays) {
    return {name, mutable_view(value), mutable_view(grad), decays};
  }
};

constexpr AdamWOptions kNoDecay{.weight_decay = 0};

}  // namespace

TEMPLATE_TEST_CASE("Adam moves as its paper says, with the bias taken off", "[optimizer]", float, double) {
  using T = TestType;
  // Eight digits are expected; float has seven.
  const double allowed = std::max(0.6e-8, 2.5 * static_cast<double>(std::numeric_limits<T>::epsilon()));
  const auto walk = [&](const std::vector<double>& gradients, const std::vector<double>& expected) {
    Number<T> w(1);
    const std::vector<Parameter<T>> list = {w.parameter("w", true)};
    AdamW<T> optimizer(list, kNoDecay);
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      w.grad(0, 0) = static_cast<T>(gradients[t]);
      optimizer.step(list, 0.1);
      CAPTURE(t, w.value(0, 0), expected[t]);
      CHECK(optimizer.steps() == static_cast<Index>(t) + 1);
      CHECK(std::abs(static_cast<double>(w.value(0, 0)) - expected[t]) <= allowed);
    }
  };
  walk({0.1, -0.2, 0.3}, {0.90000001, 0.93661036, 0.90228625});
  walk({0.1, 0.1, 0.1}, {0.90000001, 0.80000002, 0.70000003});
}

TEMPLATE_TEST_CASE("weights with equal gradients move equally, however many there are",
                   "[optimizer][gradient]", float, double) {
  using T = TestType;
  Number<T> a(0.5);
  Number<T> b(0.5);
  Matrix<T> row = Matrix<T>::Constant(1, 37, T(0.5));
  Matrix<T> row_grad(1, 37);
  const std::vector<Parameter<T>> list = {a.parameter("a", true),
                                          {"row", mutable_view(row), mutable_view(row_grad), true},
                                          b.parameter("b", true)};
  AdamW<T> adam(list);
  Sgd<T> sgd(list, {0.9, 0.1});
  for (int t = 1; t <= kSteps; ++t) {
    const T g = random_matrix<T>(1, 1, static_cast<unsigned>(t))(0, 0);
    a.grad(0, 0) = g;
    b.grad(0, 0) = g;
    row_grad.setConstant(g);
    adam.step(list, 0.01);
    sgd.step(list, 0.01);
    REQUIRE(same_bits(a.value, b.value));
    REQUIRE(same_bits(row, Matrix<T>::Constant(1, 37, a.value(0, 0))));
  }
  CHECK(adam.steps() == kSteps);
}

TEMPLATE_TEST_CASE("a state that is saved and taken up again goes on with the same bits", "[optimizer][bits]",
                   float, double) {
  using T = TestType;
  Weights<T> weights = draw_weights<T>();
  const std::vector<Parameter<T>> list = weights.list();
  AdamW<T> optimizer(list);
  for (int t = 1; t <= 2; ++t) {
    draw_gradients(list, t);
    optimizer.step(list, rate_of(t));
  }
  Weights<T> saved = weights;
  const std::vector<T> first(optimizer.first_moments().begin(), optimizer.first_moments().end());
  const std::vector<T> second(optimizer.second_moments().begin(), optimizer.second_moments().end());
  draw_gradients(list, 3);
  optimizer.step(list, rate_of(3));
  const std::vector<Parameter<T>> again = saved.list();
  AdamW<T> other(again);
  other.restore(2, first, second);
  CHECK(other.steps() == 2);
  draw_gradients(again, 3);
  other.step(again, rate_of(3));
  CHECK(same_values(list, again));
  CHECK(other.steps() == 3);

  const auto refused = [&](Index steps, std::span<const T> m, std::span<const T> v) {
    return message_of<Error>([&] { other.restore(steps, m, v); });
  };
  const std::span<const T> all(first);
  CHECK(refused(-1, first, second) == "steps is -1, it must not be negative");
  CHECK(
      contains(refused(2, all.first(7), second), "7 first and " + std::to_string(first.size()) + " second"));
  CHECK(contains(refused(2, first, {}), "0 second moments"));
  CHECK(other.steps() == 3);
  CHECK(std::equal(first.begin(), first.end(), other.first_moments().begin()) == false);
}

TEMPLATE_TEST_CASE("momentum that is saved and taken up again goes on with the same bits",
                   "[optimizer][bits]", float, double) {
  using T = TestType;
  Weights<T> weights = draw_weights<T>();
  const std::vector<Parameter<T>> list = weights.list();
  Sgd<T> optimizer(list, {.momentum = 0.9});
  draw_gradients(list, 1);
  optimizer.step(list, 0.1);
  Weights<T> saved = weights;
  const std::vector<T> velocity(optimizer.velocity().begin(), optimizer.velocity().end());
  const std::vector<Parameter<T>> again = saved.list();
  Sgd<T> other(again, {.momentum = 0.9});
  other.restore(velocity);
  for (const auto& [own, step] : {std::pair{&list, &optimizer}, {&again, &other}}) {
    draw_gradients(*own, 2);
    step->step(*own, 0.1);
  }
  CHECK(same_values(list, again));
  const std::string message = message_of<ShapeError>([&] { other.restore({}); });
  CHECK(contains(message, "0 velocities"));
  CHECK(Sgd<T>(list).velocity().empty());
}

TEMPLATE_TEST_CASE("only what decays decays, and it does so apart from its gradient", "[optimizer][gradient]",
                   float, double) {
  using T = TestType;
  constexpr double eps = std::numeric_limits<T>::epsilon();
  Number<T> matrix(2);
  Number<T> bias(2);
  matrix.grad.setZero();
  bias.grad.setZero();
  const std::vector<Parameter<T>> list = {matrix.parameter("w", true), bias.parameter("b", false)};
  AdamW<T> optimizer(list, {.weight_decay = 0.5});
  for (int t = 0; t < 3; ++t) optimizer.step(list, 0.1);
  CHECK(std::abs(static_cast<double>(matrix.value(0, 0)) - 2 * 0.95 * 0.95 * 0.95) <= 4 * eps);
  CHECK(bias.value(0, 0) == 2);
  // Decay added to the gradient would vanish in the quotient: this one does not.
  AdamW<T> steep(list, {.weight_decay = 0.5});
  matrix.value.setConstant(2);
  matrix.grad.setConstant(T(1000));
  steep.step(list, 0.1);
  CHECK(std::abs(static_cast<double>(matrix.value(0, 0)) - (2 * 0.95 - 0.1)) <= 4 * eps + 1e-11);

  // What is a bias or the weights of a norm is known from the layer.
  Random random(1);
  FeedForward<T> layer(3, 4, random);
  layer.up.b.setConstant(2);
  FeedForward<T> gradients = zeros_like(layer);
  const FeedForward<T> before = layer;
  const auto weights = parameters(layer, gradients);
  AdamW<T> of_layer(weights, {.weight_decay = 0.5});
  Sgd<T> plain(weights, {.weight_decay = 0.5});
  of_layer.step(weights, 0.1);
  plain.step(weights, 0.1);
  CHECK(same_bits(layer.up.b, before.up.b));
  const T kept = static_cast<T>(0.95 * 0.95);
  CHECK((layer.up.w - kept * before.up.w).cwiseAbs().maxCoeff() <= 4 * eps);
  CHECK((layer.down.w - kept * before.down.w).cwiseAbs().maxCoeff() <= 4 * eps);
  Norm<T> norm = layer_norm<T>(5);
  Norm<T> norm_gradients = zeros_like(norm);
  const auto norm_weights = parameters(norm, norm_gradients);
  AdamW<T>(norm_weights, {.weight_decay = 0.5}).step(norm_weights, 0.1);
  CHECK((norm.weight.array() == 1).all());
}

TEMPLATE_TEST_CASE("many steps of Adam with decay are those of a plain loop", "[optimizer]", float, double) {
  using T = TestType;
  for (const AdamWOptions& options :
       {AdamWOptions{}, AdamWOptions{0.8, 0.99, 1e-3, 0.5}, AdamWOptions{0, 0, 1e-8, 0}}) {
    CAPTURE(options.beta1);
    for (const double grad_factor : {1.0, 0.3}) {
      AdamW<T> optimizer(draw_weights<T>(kSmallSizes).list(), options);
      const double error = error_after_steps<T, ExactAdam>(
          optimizer, grad_factor, [&](ExactAdam& state, Exact& w, Exact g, int t, bool decays) {
            state.step(w, g, t, rate_of(t), decays ? options.weight_decay : 0, options);
          });
      CAPTURE(error);
      CHECK(error <= 6.6);  // two roundings of a weight below 2 in each step
      CHECK(optimizer.steps() == kSteps);
    }
  }
}

TEMPLATE_TEST_CASE("many steps of gradient descent are those of a plain loop", "[optimizer][gradient]", float,
                   double) {
  using T = TestType;
  for (const SgdOptions& options :
       {SgdOptions{}, SgdOptions{0.9, 0}, SgdOptions{0, 0.3}, SgdOptions{0.95, 0.1}}) {
    CAPTURE(options.momentum, options.weight_decay);
    for (const double grad_factor : {1.0, 0.3}) {
      Sgd<T> optimizer(draw_weights<T>(kSmallSizes).list(), options);
      const double error = error_after_steps<T, ExactSgd>(
          optimizer, grad_factor, [&](ExactSgd& state, Exact& w, Exact g, int t, bool decays) {
            state.step(w, g, rate_of(t), decays ? options.weight_decay : 0, options.momentum);
          });
      CAPTURE(error);
      CHECK(error <= 3.9);
    }
  }
}

TEMPLATE_TEST_CASE("steps have the same bits on any threads, in any storage order, and for a weight alone",
                   "[optimizer][threads][bits]", float, double) {
  using T = TestType;
  check_same_bits<T>(
      [](const std::vector<Parameter<T>>& list) { return AdamW<T>(list, {.weight_decay = 0.1}); });
  check_same_bits<T>([](const std::vector<Parameter<T>>& list) { return Sgd<T>(list, {0.9, 0.1}); });
  check_same_bits<T>([](const std::vector<Parameter<T>>& list) { return Sgd<T>(list); });
}

TEMPLATE_TEST_CASE("moments stand weight after weight, row by row, in any storage order", "[optimizer]",
                   float, double) {
  using T = TestType;
  Weights<T, Eigen::ColMajor> weights = draw_weights<T, Eigen::ColMajor>();
  const std::vector<Parameter<T>> list = weights.list();
  AdamW<T> optimizer(list);
  CHECK(optimizer.steps() == 0);
  draw_gradients(list, 1);
  optimizer.step(list, 0.1);
  std::size_t at = 0;
  for (const Parameter<T>& w : list) {
    for (Index i = 0; i < w.value.rows; ++i) {
      for (Index j = 0; j < w.value.cols; ++j, ++at) {
        const Exact g = w.grad(i, j);
        REQUIRE(std::abs(optimizer.first_moments()[at] - 0.1L * g) <=
                std::numeric_limits<T>::epsilon() * std::abs(g));
        REQUIRE(std::abs(optimizer.second_moments()[at] - 0.001L * g * g) <=
                std::numeric_limits<T>::epsilon() * g * g);
      }
    }
  }
  CHECK(at == optimizer.first_moments().size());
  CHECK(at == optimizer.second_moments().size());
}

TEMPLATE_TEST_CASE("the norm of all gradients is exact to a few roundings, in one order on any threads",
                   "[optimizer][threads][gradient]", float, double) {
  using T = TestType;
  Weights<T> weights = draw_weights<T>();
  const std::vector<Parameter<T>> list = weights.list();
  draw_gradients(list, 1);
  Exact sum = 0;
  for (const auto& grad : weights.grads) sum += grad.template cast<Exact>().squaredNorm();
  const double norm = gradient_norm(list);
  const double error = std::abs(norm / static_cast<double>(std::sqrt(sum)) - 1);
  CAPTURE(error);
  // 64 terms of a lane are summed up in the weights' type, all others in double.
  CHECK(error <= std::numeric_limits<T>::epsilon());
  ThreadPool pool(4);
  CHECK(gradient_norm(list, &pool) == norm);
  Weights<T, Eigen::ColMajor> by_columns = draw_weights<T, Eigen::ColMajor>();
  const std::vector<Parameter<T>> others = by_columns.list();
  draw_gradients(others, 1);
  CHECK(gradient_norm(others, &pool) == norm);
  CHECK(gradient_norm(std::vector<Parameter<T>>()) == 0);
}

TEMPLATE_TEST_CASE("gradients are clipped to a norm, and left alone below it",
                   "[optimizer][threads][gradient]", float, double) {
  using T = TestType;
  constexpr double eps = std::numeric_limits<T>::epsilon();
  ThreadPool pool(4);
  Weights<T> weights = draw_weights<T>();
  const std::vector<Parameter<T>> list = weights.list();
  draw_gradients(list, 1);
  const auto before = weights.grads;
  const auto values_before = weights.values;
  const double norm = gradient_norm(list);
  const auto unchanged = [&] {
    bool same = true;
    for (std::size_t n = 0; n < before.size(); ++n) same = same && same_bits(weights.grads[n], before[n]);
    return same;
  };
  for (const double most : {norm, 1.5 * norm, kInf<double>}) {
    CHECK(clip_gradients(list, most) == norm);
    CHECK(unchanged());
    CHECK(clip_factor(norm, most) == 1);
  }
  for (const double most : {norm / 2, 1.0, 1e-3}) {
    for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
      weights.grads = before;
      const std::vector<Parameter<T>> anew = weights.list();
      CHECK(clip_gradients(anew, most, executor) == norm);
      CHECK(std::abs(gradient_norm(anew) - most) <= eps * most);
      const auto factor = static_cast<T>(clip_factor(norm, most));
      CHECK(std::abs(static_cast<double>(factor) - most / norm) <= eps * most / norm);
      for (std::size_t n = 0; n < before.size(); ++n)
        REQUIRE(same_bits(weights.grads[n], (before[n] * factor).eval()));
    }
  }
  for (std::size_t n = 0; n < before.size(); ++n) CHECK(same_bits(weights.values[n], values_before[n]));

  // A norm that is no number, or infinite, is returned, and nothing is made of it.
  for (const T bad : {kInf<T>, -kInf<T>, kNaN<T>}) {
    weights.grads = before;
    weights.grads[4](3, 20) = bad;
    const auto with_bad = weights.grads;
    const std::vector<Parameter<T>> anew = weights.list();
    const double result = clip_gradients(anew, 1);
    CHECK((std::isnan(bad) ? std::isnan(result) : result == kInf<double>));
    for (std::size_t n = 0; n < before.size(); ++n) CHECK(same_bits(weights.grads[n], with_bad[n]));
  }
  for (const double most : {0.0, -1.0, kNaN<double>}) {
    CHECK(contains(message_of<ArgumentError>([&] { (void)clip_gradients(weights.list(), most); }),
                   "max_norm is "));
  }
  weights.grads = before;
  for (auto& grad : weights.grads) grad.setZero();
  CHECK(clip_gradients(weights.list(), 1) == 0);
}

TEMPLATE_TEST_CASE("a step with a factor is a step on gradients times the factor", "[optimizer][gradient]",
                   float, double) {
  using T = TestType;
  constexpr double factor = 0.37;
  const auto check = [](auto with_factor, auto scaled) {
    Weights<T> a = draw_weights<T>();
    Weights<T> b = draw_weights<T>();
    const std::vector<Parameter<T>> a_list = a.list();
    const std::vector<Parameter<T>> b_list = b.list();
    for (int t = 1; t <= 5; ++t) {
      draw_gradients(a_list, t);
      draw_gradients(b_list, t);
      for (auto& grad : b.grads) grad *= static_cast<T>(factor);
      with_factor.step(a_list, rate_of(t), factor);
      scaled.step(b_list, rate_of(t));
    }
    CHECK(same_values(a_list, b_list));
  };
  const std::vector<Parameter<T>> sizes = draw_weights<T>().list();
  check(AdamW<T>(sizes), AdamW<T>(sizes));
  check(Sgd<T>(sizes, {0.9, 0.1}), Sgd<T>(sizes, {0.9, 0.1}));
}

TEST_CASE("the cosine schedule rises in a line, falls along half a cosine, and stays on its floor",
          "[optimizer]") {
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-15; };
  const CosineSchedule schedule{.peak = 1e-2, .floor = 1e-3, .warm_up = 10, .steps = 110};
  CHECK(near(schedule.at(0), 1e-3));
  CHECK(near(schedule.at(4), 5e-3));
  CHECK(schedule.at(9) == 1e-2);
  CHECK(near(schedule.at(10), 1e-2));
  CHECK(near(schedule.at(60), 5.5e-3));
  CHECK(near(schedule.at(35), 1e-3 + 9e-3 * (1 + std::numbers::sqrt2 / 2) / 2));
  CHECK(schedule.at(109) > 1e-3);
  for (const Index step : {110, 111, 100000}) CHECK(schedule.at(step) == 1e-3);
  for (Index step = 10; step < 110; ++step) CHECK(schedule.at(step + 1) < schedule.at(step));
  for (Index step = 0; step < 9; ++step) CHECK(schedule.at(step + 1) > schedule.at(step));

  // Without a rise; without a fall; both.
  CHECK(near(CosineSchedule{1e-2, 1e-3, 0, 100}.at(0), 1e-2));
  CHECK(near(CosineSchedule{1e-2, 1e-3, 0, 100}.at(50), 5.5e-3));
  const CosineSchedule rise{1e-2, 1e-3, 10, 10};
  CHECK(rise.at(9) == 1e-2);
  CHECK(rise.at(10) == 1e-3);
  CHECK((CosineSchedule{1e-2, 1e-3, 0, 0}.at(0) == 1e-3));
  CHECK((CosineSchedule{1e-2, 1e-2, 3, 50}.at(20) == 1e-2));
  // Before the first step and after the last, whatever the warm-up is.
  CHECK((CosineSchedule{1, 0.1, 10, 50}.at(-7) == CosineSchedule{1, 0.1, 10, 50}.at(0)));
  CHECK((CosineSchedule{1, 0.1, 100, 50}.at(60) == 0.1));
}

TEMPLATE_TEST_CASE("options out of range are named", "[optimizer][errors]", float, double) {
  using T = TestType;
  const std::vector<Parameter<T>> none;
  const auto adam = [&](const AdamWOptions& options) {
    return message_of<ArgumentError>([&] { AdamW<T>(none, options); });
  };
  CHECK(adam({}) == "nothing");
  CHECK(adam({0, 0, std::numeric_limits<T>::min(), 0}) == "nothing");
  // What is within range as a double alone.
  if constexpr (std::is_same_v<T, float>) {
    CHECK(contains(adam({.beta1 = 0.99999999}), "beta1 is 0.99999999"));
    CHECK(contains(adam({.beta2 = 0.99999999}), "beta2 is 0.99999999"));
    CHECK(contains(adam({.epsilon = 1e-46}), "epsilon is 1e-46"));
    CHECK(contains(adam({.weight_decay = 1e39}), "weight_decay is 1e+39"));
    AdamW<T> optimizer(none, {.weight_decay = 1e30});
    CHECK(contains(message_of<ArgumentError>([&] { optimizer.step(none, 1e39); }), "rate is 1e+39"));
    CHECK(contains(message_of<ArgumentError>([&] { optimizer.step(none, 1, 1e39); }), "grad_factor is "));
    CHECK(
        contains(message_of<ArgumentError>([&] { optimizer.step(none, 1e30); }), "rate * weight_decay is "));
  }
  for (const double bad : {1.0, -0.1, 2.0, kNaN<double>, kInf<double>}) {
    CHECK(contains(adam({.beta1 = bad}), "beta1 is "));
    CHECK(contains(adam({.beta2 = bad}), "beta2 is "));
    CHECK(contains(message_of<ArgumentError>([&] { Sgd<T>(none, {.momentum = bad}); }), "momentum is "));
  }
  for (const double bad : {0.0, -1e-8, kNaN<double>, kInf<double>})
    CHECK(contains(adam({.epsilon = bad}), "epsilon is "));
  for (const double bad : {-1e-9, kNaN<double>, kInf<double>}) {
    CHECK(contains(adam({.weight_decay = bad}), "weight_decay is "));
    CHECK(contains(message_of<ArgumentError>([&] { Sgd<T>(none, {.weight_decay = bad}); }),
                   "weight_decay is "));
  }
}

TEMPLATE_TEST_CASE("a step that is refused changes nothing", "[optimizer][errors]", float, double) {
  using T = TestType;
  Weights<T> weights = draw_weights<T>();
  const std::vector<Parameter<T>> list = weights.list();
  AdamW<T> adam(list);
  Sgd<T> sgd(list, {0.9, 0.1});
  draw_gradients(list, 1);
  adam.step(list, 0.1);
  sgd.step(list, 0.1);
  const auto values = weights.values;
  const std::vector<T> first(adam.first_moments().begin(), adam.first_moments().end());
  const std::vector<T> second(adam.second_moments().begin(), adam.second_moments().end());
  const auto unchanged = [&] {
    bool same = adam.steps() == 1;
    for (std::size_t n = 0; n < values.size(); ++n) same = same && same_bits(weights.values[n], values[n]);
    return same && std::equal(first.begin(), first.end(), adam.first_moments().begin()) &&
           std::equal(second.begin(), second.end(), adam.second_moments().begin());
  };
  const auto check = [&](const std::vector<Parameter<T>>& other, const std::string& text) {
    CAPTURE(text);
    CHECK(contains(message_of<ShapeError>([&] { adam.step(other, 0.1); }), text));
    CHECK(contains(message_of<ShapeError>([&] { sgd.step(other, 0.1); }), text));
    CHECK(unchanged());
  };
  auto other = list;
  other.pop_back();
  check(other, "there are 11 weights, the optimizer is for 12");
  other = list;
  std::swap(other[7], other[8]);
  check(other, "the weight w8 is 1 x 200, its gradient 1 x 200, the optimizer is for 9 x 65");
  other = list;
  other.back().grad = {};
  check(other, "the weight w11 is 2 x 8300, its gradient 0 x 0, the optimizer is for 2 x 8300");
  other = list;
  other.back().value = other.back().value.transposed();
  other.back().grad = other.back().grad.transposed();
  check(other, "the weight w11 is 8300 x 2, its gradient 8300 x 2, the optimizer is for 2 x 8300");

  // Also for a norm, which needs gradients.
  other = list;
  other.back().grad = {};
  CHECK(contains(message_of<ShapeError>([&] { (void)gradient_norm(other); }), "its gradient 0 x 0"));
  CHECK(contains(message_of<ShapeError>([&] { (void)clip_gradients(other, 1); }), "its gradient 0 x 0"));

  for (const double bad : {-1e-3, kNaN<double>, kInf<double>}) {
    CHECK(contains(message_of<ArgumentError>([&] { adam.step(list, bad); }), "rate is "));
    CHECK(contains(message_of<ArgumentError>([&] { sgd.step(list, bad); }), "rate is "));
  }
  for (const double bad : {-kInf<double>, kNaN<double>}) {
    CHECK(contains(message_of<ArgumentError>([&] { adam.step(list, 0.1, bad); }), "grad_factor is "));
    CHECK(contains(message_of<ArgumentError>([&] { sgd.step(list, 0.1, bad); }), "grad_factor is "));
  }
  CHECK(unchanged());
  // A rate of 0 moves no weight.
  adam.step(list, 0);
  sgd.step(list, 0);
  for (std::size_t n = 0; n < values.size(); ++n) CHECK(same_bits(weights.values[n], values[n]));
}
