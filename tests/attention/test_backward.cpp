// Gradients of attention over random combinations of all options. A failure prints the seed and the options.

#include <algorithm>
#include <cstring>

#include "catch.hpp"
#include "option_gradients.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr std::uint64_t kProblems = kSlowRun ? 12 : 250;
constexpr Index kMaxWork = kSlowRun ? 100'000 : 500'000;

}  // namespace

TEST_CASE("the naive loops agree with differences of the loss", "[gradient]") {
  using T = long double;
  constexpr T step = 1e-6L;
  int checked = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Problem p = Draw(seed).problem(2000);
    CAPTURE(p.to_string());
    Loss<T> loss(p);
    const AttentionGradients<T> grads = loss.backward();
    const auto check = [&](const char* name, auto& input, const auto& grad) {
      CAPTURE(name);
      const T size = std::max<T>(1, static_cast<T>(largest(grad)));
      for (Index n = 0; n < std::min<Index>(input.size(), 12); ++n) {
        T& x = input.data()[n * 7919 % input.size()];
        const T at = x;
        if (std::isinf(at)) continue;
        x = at + step;
        const T above = loss.value();
        x = at - step;
        const T below = loss.value();
        x = at;
        const T expected = (above - below) / (2 * step);
        REQUIRE(std::abs(grad.data()[n * 7919 % input.size()] - expected) <= 1e-8L * size);
        ++checked;
      }
    };
    check("query", loss.in.query, grads.query);
    check("key", loss.in.key, grads.key);
    check("value", loss.in.value, grads.value);
    for (std::size_t i = 0; i < grads.biases.size(); ++i) check("bias", loss.in.biases[i], grads.biases[i]);
    for (std::size_t h = 0; h < loss.in.options.sinks.size(); ++h) {
      double& sink = loss.in.options.sinks[h];
      const double at = sink;
      sink = at + 0x1p-20;
      const T above = loss.value();
      sink = at - 0x1p-20;
      const T below = loss.value();
      sink = at;
      REQUIRE(std::abs(grads.sinks(0, static_cast<Index>(h)) - (above - below) / 0x1p-19L) <= 1e-8L);
      ++checked;
    }
  }
  CHECK(checked > 500);
}

TEMPLATE_TEST_CASE("with any options, gradients are as exact as those of the naive loops", "[gradient]",
                   float, double) {
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWork);
    CAPTURE(p.to_string());
    REQUIRE(gradient_excess(p, Loss<TestType>(p).backward()) <= 1);
  }
}

TEMPLATE_TEST_CASE("with any options, gradients have the same bits on any threads, in any storage order",
                   "[gradient][threads][bits]", float, double) {
  ThreadPool pools[] = {ThreadPool(2), ThreadPool(3), ThreadPool(8)};
  for (std::uint64_t seed = 1000; seed < 1000 + kProblems; ++seed) {
    const Problem p = Draw(seed).problem(10 * kMaxWork);
    CAPTURE(p.to_string());
    Loss<TestType> loss(p);
    const auto grads = loss.backward();
    for (ThreadPool& pool : pools) {
      loss.in.options.executor = &pool;
      REQUIRE(same_gradients(loss.backward(), grads));
    }
    REQUIRE(same_gradients(Loss<TestType, Eigen::ColMajor>(p).backward(), grads));
  }
}

TEMPLATE_TEST_CASE("the gradient of a query depends on what its row sees alone", "[gradient]", float,
                   double) {
  for (std::uint64_t seed = 2000; seed < 2000 + kProblems / 2; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWork);
    CAPTURE(p.to_string());
    const Loss<TestType> whole(p);
    const auto grads = whole.backward();
    const Index b = p.shape.batch_size - 1;
    const Index rows = p.shape.query_len_of(b);
    const Index first = rows / 3;
    const Problem part = p.part(b, std::nullopt, first, rows - first);
    Loss<TestType> alone(part);
    const Index row = p.shape.query_start(b) + first;
    alone.grad_out = whole.grad_out.middleRows(row, rows - first);
    REQUIRE(same_bits(alone.backward().query, grads.query.middleRows(row, rows - first)));
  }
}

TEMPLATE_TEST_CASE("what nobody sees reaches no gradient, and rows that see nothing have none", "[gradient]",
                   float, double) {
  int hidden_keys = 0;
  int empty_rows = 0;
  for (std::uint64_t seed = 3000; seed < 3000 + kProblems; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWork / 4);
    CAPTURE(p.to_string());
    const AttentionShape& s = p.shape;
    Loss<TestType> loss(p);
    const auto clean = loss.backward();
    const Index group = s.num_heads / s.num_kv_heads;
    for (Index b = 0; b < s.batch_size; ++b) {
      for (Index h = 0; h < s.num_heads; ++h) {
        for (Index i = 0; i < s.query_len_of(b); ++i) {
          bool any = false;
          for (Index j = 0; j < s.kv_len_of(b) && !any; ++j) any = p.sees(b, h, i, j);
          if (any) continue;
          ++empty_rows;
          const Index row = s.query_start(b) + i;
          REQUIRE(clean.query.block(row, h * s.head_dim, 1, s.head_dim).isZero(0));
          loss.in.query.block(row, h * s.head_dim, 1, s.head_dim).setConstant(kNaN<TestType>);
          loss.grad_out.block(row, h * s.value_dim, 1, s.value_dim).setConstant(kNaN<TestType>);
        }
      }
      for (Index k = 0; k < s.num_kv_heads; ++k) {
        for (Index j = 0; j < s.kv_len_of(b); ++j) {
          bool any = false;
          for (Index h = k * group; h < (k + 1) * group; ++h) {
            for (Index i = 0; i < s.query_len_of(b) && !any; ++i) any = p.sees(b, h, i, j);
          }
          if (any) continue;
          ++hidden_keys;
          const Index row = s.kv_start(b) + j;
          REQUIRE(clean.key.block(row, k * s.head_dim, 1, s.head_dim).isZero(0));
          REQUIRE(clean.value.block(row, k * s.value_dim, 1, s.value_dim).isZero(0));
          loss.in.key.block(row, k * s.head_dim, 1, s.head_dim).setConstant(kNaN<TestType>);
          loss.in.value.block(row, k * s.value_dim, 1, s.value_dim).setConstant(-kInf<TestType>);
        }
      }
    }
    loss.run_forward();
    REQUIRE(same_gradients(loss.backward(), clean));
  }
  CHECK(hidden_keys > 20);
  CHECK(empty_rows > 20);
}

TEMPLATE_TEST_CASE("NaN reaches the gradients of the rows that see it, of what they see, and of nothing else",
                   "[gradient][nan]", float, double) {
  for (const Index n : {5, 130, 300}) {
    Problem p;
    p.seed = static_cast<std::uint64_t>(n);
    p.shape = {1, 1, 1, n, n, 8, 8, {}, {}};
    p.in = random_inputs<float>(p.shape, p.seed);
    p.causal = true;
    Loss<TestType> loss(p);
    const auto clean = loss.backward();
    const Index bad = n / 2;

    // In grad_out: its own query, and the keys and values before it.
    loss.grad_out(bad, 3) = kNaN<TestType>;
    const auto grads = loss.backward();
    CHECK(grads.query.row(bad).array().isNaN().all());
    CHECK(same_bits(grads.query.topRows(bad), clean.query.topRows(bad)));
    CHECK(same_bits(grads.query.bottomRows(n - bad - 1), clean.query.bottomRows(n - bad - 1)));
    CHECK(grads.key.topRows(bad + 1).array().isNaN().all());
    CHECK(grads.value.topRows(bad + 1).col(3).array().isNaN().all());
    CHECK(same_bits(grads.key.bottomRows(n - bad - 1), clean.key.bottomRows(n - bad - 1)));
    CHECK(same_bits(grads.value.bottomRows(n - bad - 1), clean.value.bottomRows(n - bad - 1)));

    // In a value: the queries from there on.
    Loss<TestType> other(p);
    other.in.value(bad, 3) = kNaN<TestType>;
    other.run_forward();
    const auto later = other.backward();
    CHECK(same_bits(later.query.topRows(bad), clean.query.topRows(bad)));
    CHECK(later.query.bottomRows(n - bad).array().isNaN().all());
  }
}

TEMPLATE_TEST_CASE("scratch memory may hold anything, and a run stays within it", "[gradient][memory]", float,
                   double) {
  for (std::uint64_t seed = 4000; seed < 4000 + kProblems / 2; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWork);
    CAPTURE(p.to_string());
    const Loss<TestType> loss(p);
    const auto grads = loss.backward();
    for (const Index threads : {1, 5}) {
      auto tensors = loss.tensors();
      const detail::GradientRoom<TestType> room(loss.in.options, tensors);
      const AttentionBackwardPlan<TestType> plan(p.shape, loss.in.options.mask,
                                                 detail::score_options(loss.in.options), threads);
      const std::size_t bytes = plan.workspace_bytes();
      Workspace workspace(bytes + Workspace::alignment);
      std::memset(workspace.data(), 0xFF, bytes + Workspace::alignment);  // NaN
      plan.run(tensors, workspace.data());
      REQUIRE(same_gradients(room.grads, grads));
      const auto* guard = static_cast<const unsigned char*>(workspace.data()) + bytes;
      for (std::size_t i = 0; i < Workspace::alignment; ++i) REQUIRE(guard[i] == 0xFF);
    }
  }
}

TEMPLATE_TEST_CASE("gradients may go into matrices of any storage order and stride", "[gradient]", float,
                   double) {
  for (std::uint64_t seed = 5000; seed < 5000 + kProblems / 4; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWork);
    CAPTURE(p.to_string());
    const Loss<TestType> loss(p);
    const auto grads = loss.backward();
    const auto transposed = [](const auto& m) { return Matrix<TestType>(m.transpose()); };
    // Column-major, and every other element of rows that are further apart.
    Matrix<TestType> query = transposed(grads.query);
    Matrix<TestType> key = Matrix<TestType>::Zero(grads.key.rows(), 2 * grads.key.cols() + 1);
    Matrix<TestType> value = transposed(grads.value);
    query.setZero();
    value.setZero();
    auto tensors = loss.tensors();
    tensors.grad_query = {query.data(), query.cols(), query.rows(), 1, query.cols()};
    tensors.grad_key = {key.data(), grads.key.rows(), grads.key.cols(), key.cols(), 2};
    tensors.grad_value = {value.data(), value.cols(), value.rows(), 1, value.cols()};
    detail::run_backward(p.shape, loss.in.options, tensors);
    REQUIRE(same_bits(query, transposed(grads.query)));
    REQUIRE(same_bits(value, transposed(grads.value)));
    for (Index col = 0; col < grads.key.cols(); ++col)
      REQUIRE(same_bits(key.col(2 * col), grads.key.col(col)));
  }
}

TEST_CASE("a plan has no more threads than work, and refuses sizes that no memory holds",
          "[gradient][threads][errors][plan][memory]") {
  const AttentionBackwardPlan<float> one({1, 1, 1, 1, 1, 8, 8});
  const AttentionBackwardPlan<float> many({1, 1, 1, 1, 1, 8, 8}, {}, {}, 64);
  CHECK(many.workspace_bytes() == one.workspace_bytes());
  const Index large = Index{1} << 32;
  CHECK(contains(message_of<ShapeError>([&] {
                   AttentionBackwardPlan<float>({1, 1, 1, large, 1, large, 1});
                 }),
                 "query_len * head_dim"));
}

TEST_CASE("one gradient asked for alone has the bits that it has among all", "[gradient][bits]") {
  const Problem p = Draw(4).problem(kMaxWork);
  const Loss<float> loss(p);
  const auto grads = loss.backward();
  auto tensors = loss.tensors();
  Matrix<float> value(loss.in.value.rows(), loss.in.value.cols());
  tensors.grad_value = mutable_view(value);
  detail::run_backward(p.shape, loss.in.options, tensors);
  CHECK(same_bits(value, grads.value));
}

TEST_CASE("sizes that do not fit are named before anything is written", "[gradient][errors]") {
  Problem p;
  p.shape = {1, 2, 2, 5, 7, 8, 4, {}, {}};
  p.in = random_inputs<float>(p.shape, 1);
  Loss<float> loss(p);
  const auto message = [&] { return message_of<ShapeError>([&] { (void)loss.backward(); }); };
  loss.grad_out.resize(5, 9);
  CHECK(message() == "grad_out is 5 x 9, out is 5 x 8, its gradients need 5 x 8");
  loss.grad_out.resize(5, 8);
  loss.forward.logsumexp.resize(0, 0);
  CHECK(message() == "logsumexp is 0 x 0, 5 query rows and 2 heads need 5 x 2");
  loss.run_forward();
  loss.forward.out.resize(4, 8);
  CHECK(contains(message(), "out is 4 x 8"));

  loss.run_forward();
  auto tensors = loss.tensors();
  Matrix<float> grad(5, 16);
  tensors.grad_query = mutable_view(grad);
  tensors.grad_key = mutable_view(grad);
  CHECK(contains(message_of<ShapeError>([&] { detail::run_backward(p.shape, loss.in.options, tensors); }),
                 "grad_key is 5 x 16"));
  tensors.grad_key = {};
  tensors.grad_out = view(grad).block(0, 0, 5, 8);
  CHECK(contains(message_of<ArgumentError>([&] { detail::run_backward(p.shape, loss.in.options, tensors); }),
                 "grad_query (5 x 16) overlaps grad_out (5 x 8)"));
  tensors.grad_out = view(loss.grad_out);
  Matrix<float> sinks(1, 2);
  tensors.grad_sinks = mutable_view(sinks);
  CHECK(message_of<ArgumentError>([&] { detail::run_backward(p.shape, loss.in.options, tensors); }) ==
        "grad_sinks is wanted, there are no sinks");
}
