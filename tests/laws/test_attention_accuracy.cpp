// Every result against the long double oracle, by the bound of the contract.

#include <algorithm>

#include "catch.hpp"
#include "helpers.hpp"

// clang-format off: it needs Eigen's core before it
#include <unsupported/Eigen/AutoDiff>
// clang-format on

namespace {

using namespace heed;
using namespace heed::test;

/// The contract's bound: for each element, error <= 2 x the error of the naive loops in the same type + 4 eps
/// * max|value| over the visible keys. Returns the largest excess over it.
template <class Scalar>
double excess_error(const AttentionShape& s, const Inputs<Scalar>& in, const Mask& mask,
                    const Mask& exact_mask, const AttentionResult<Scalar>& result) {
  const auto exact = naive<long double>(s, in.template cast<long double>(), exact_mask);
  const auto loops = naive<Scalar>(s, in, mask);
  long double excess = 0;
  for (Index b = 0; b < s.batch_size; ++b) {
    for (Index h = 0; h < s.num_heads; ++h) {
      const Index kv_head = h / (s.num_heads / s.num_kv_heads);
      for (Index i = 0; i < s.query_len; ++i) {
        long double largest = 0;
        for (Index j = 0; j < s.kv_len; ++j) {
          if (exact.weights.head(h, b)(i, j) == 0) continue;
          for (Index c = 0; c < s.value_dim; ++c) {
            largest = std::max(
                largest,
                std::abs(static_cast<long double>(in.value(b * s.kv_len + j, kv_head * s.value_dim + c))));
          }
        }
        const long double slack =
            4 * static_cast<long double>(std::numeric_limits<Scalar>::epsilon()) * largest;
        const auto error_of = [&](const AttentionResult<Scalar>& of, Index c) {
          const Index row = b * s.query_len + i;
          const Index col = h * s.value_dim + c;
          return std::abs(static_cast<long double>(of.out(row, col)) - exact.out(row, col));
        };
        for (Index c = 0; c < s.value_dim; ++c) {
          excess = std::max(excess, error_of(result, c) - 2 * error_of(loops, c) - slack);
        }
      }
    }
  }
  return static_cast<double>(excess);
}

// Around every edge of the tiling: lanes, register tile, key tile, query block.
#if defined(HEED_SANITIZED) || defined(HEED_EMULATED)
// The long double loops take minutes under a sanitizer or an emulator; test_same_bits and
// test_attention_contract walk the edges there.
const Index kLengths[] = {0, 1, 9, 65, 129};
const Index kDims[] = {1, 7, 33};
const double kScoreSizes[] = {30.0, 1e12};
#else
const Index kLengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 95, 96, 97, 127, 128, 129, 300};
const Index kDims[] = {1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 80, 128};
const double kScoreSizes[] = {10.0, 30.0, 100.0, 1e3, 1e6, 1e12};
#endif

}  // namespace

TEMPLATE_TEST_CASE("an element is as exact as the contract says, for every length and head size",
                   "[accuracy]", float, double) {
  for (std::size_t n = 0; n < std::size(kLengths); ++n) {
    for (std::size_t d = 0; d < std::size(kDims); ++d) {
      // Every length meets every dimension as query_len and as kv_len, without the full product.
      AttentionShape s;
      s.query_len = kLengths[n];
      s.kv_len = kLengths[(n * 7 + d * 3) % std::size(kLengths)];
      s.head_dim = kDims[d];
      s.value_dim = kDims[(d * 5 + n) % std::size(kDims)];
      const auto in = random_inputs<TestType>(s, 100 * n + d);
      for (const Mask& mask :
           {Mask(), causal() & bottom_right(), causal() & top_left(), causal() & query_offset(-2)}) {
        const auto result =
            scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options_for(s, mask));
        CAPTURE(s.query_len, s.kv_len, s.head_dim, s.value_dim, mask.to_string());
        REQUIRE(excess_error(s, in, mask, mask, result) <= 0);
      }
    }
  }
}

TEMPLATE_TEST_CASE("weights and logsumexp agree with the oracle", "[accuracy][logsumexp]", float, double) {
  const auto eps = static_cast<double>(std::numeric_limits<TestType>::epsilon());
  for (const AttentionShape& s :
       {AttentionShape{2, 4, 2, 37, 133, 24, 40}, AttentionShape{1, 1, 1, 1, 1, 1, 1},
        AttentionShape{3, 2, 1, 97, 129, 7, 3}}) {
    const auto in = random_inputs<TestType>(s, 5, 2.0);
    for (const Mask& mask : {Mask(), causal() & bottom_right()}) {
      const auto result =
          scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options_for(s, mask));
      const auto exact = naive<long double>(s, in.template cast<long double>(), mask);
      const Matrix<long double> weights = result.weights.stacked.template cast<long double>();
      const Matrix<long double> logsumexp = result.logsumexp.template cast<long double>();
      CHECK(static_cast<double>((weights - exact.weights.stacked).cwiseAbs().maxCoeff()) <= 40 * eps);
      CHECK(static_cast<double>((logsumexp - exact.logsumexp).cwiseAbs().maxCoeff()) <= 40 * eps);
    }
  }
}

TEMPLATE_TEST_CASE("a bias is added to the scores, and -inf in it hides the key", "[accuracy][mask][bias]",
                   float, double) {
  // More queries than one block has rows.
  const AttentionShape s{2, 2, 2, 310, 131, 16, 24};
  const auto in = random_inputs<TestType>(s, 9);
  Matrix<TestType> added = random_matrix<TestType>(s.query_len, s.kv_len, 77, 3.0);
  for (Index i = 0; i < s.query_len; ++i) {
    for (Index j = 0; j < s.kv_len; ++j) {
      if ((i * 31 + j * 17) % 5 == 0) added(i, j) = -kInf<TestType>;
    }
  }
  added.row(7).setConstant(-kInf<TestType>);
  const Matrix<long double> exact_added = added.template cast<long double>();
  const Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic> by_columns = added;
  for (const Mask& part : {Mask(), causal() & bottom_right()}) {
    const auto result = scaled_dot_product_attention_with_weights(in.query, in.key, in.value,
                                                                  options_for(s, part & bias(added)));
    CHECK(excess_error(s, in, part & bias(added), part & bias(exact_added), result) <= 0);
    CHECK(result.out.row(7).isZero(0));
    CHECK(result.weights.head(1, 1).row(7).isZero(0));
    CHECK(result.logsumexp(7, 0) == -kInf<TestType>);
    CHECK(same_bits(result.out, scaled_dot_product_attention(in.query, in.key, in.value,
                                                             options_for(s, part & bias(by_columns)))));
  }
}

TEMPLATE_TEST_CASE("scores of any finite size neither overflow nor lose the largest", "[accuracy]", float,
                   double) {
  // Scores in the thousands carry rounding errors of eps * |score|: where two keys nearly tie, the error of
  // one element is a matter of luck, the loops' as much as the engine's. So here the bound is on the root of
  // the mean square over many problems.
  const AttentionShape s{1, 2, 2, 40, 150, 8, 8};
  for (const double size : kScoreSizes) {
    long double squares = 0;
    long double naive_squares = 0;
    constexpr int problems = 12;
    for (std::uint64_t seed = 0; seed < problems; ++seed) {
      const auto in = random_inputs<TestType>(s, 10 * seed, size);
      const Matrix<TestType> out = scaled_dot_product_attention(in.query, in.key, in.value, options_for(s));
      REQUIRE(out.allFinite());
      const Matrix<long double> exact = naive<long double>(s, in.template cast<long double>()).out;
      squares += (out.template cast<long double>() - exact).squaredNorm();
      naive_squares += (naive<TestType>(s, in).out.template cast<long double>() - exact).squaredNorm();
    }
    const auto elements = static_cast<long double>(problems * s.query_len * s.num_heads * s.value_dim);
    const long double slack = 4 * static_cast<long double>(std::numeric_limits<TestType>::epsilon()) * size;
    CAPTURE(size);
    CHECK(static_cast<double>(std::sqrt(squares / elements)) <=
          static_cast<double>(2 * std::sqrt(naive_squares / elements) + slack));
  }
}

TEST_CASE("long double runs through the same functions, on the reference loops", "[accuracy]") {
  const AttentionShape s{2, 2, 1, 9, 12, 5, 4};
  const auto in = random_inputs<double>(s, 21);
  const auto wide = in.cast<long double>();
  const auto options = options_for(s, causal() & bottom_right());
  const Matrix<long double> exact = scaled_dot_product_attention(wide.query, wide.key, wide.value, options);
  const Matrix<double> engine = scaled_dot_product_attention(in.query, in.key, in.value, options);
  CHECK(static_cast<double>((exact - engine.cast<long double>()).cwiseAbs().maxCoeff()) < 1e-15);
}

TEST_CASE("automatic differentiation runs through the same functions", "[accuracy]") {
  using Dual = Eigen::AutoDiffScalar<Eigen::Vector2d>;
  Random random(22);
  const auto dual_matrix = [&](Index rows, Index cols) {
    Matrix<Dual> m(rows, cols);
    for (Index i = 0; i < m.size(); ++i) m.data()[i] = Dual(random.uniform(-1, 1));
    return m;
  };
  Matrix<Dual> query = dual_matrix(3, 4);
  Matrix<Dual> key = dual_matrix(3, 4);
  const Matrix<Dual> value = dual_matrix(3, 2);
  query(2, 1).derivatives() = Eigen::Vector2d(1, 0);
  key(0, 3).derivatives() = Eigen::Vector2d(0, 1);
  AttentionOptions options;
  options.mask = causal();
  const Matrix<Dual> out = scaled_dot_product_attention(query, key, value, options);

  // Against central differences of the engine in double.
  const auto values_of = [](const Matrix<Dual>& m) {
    return Matrix<double>(m.unaryExpr([](const Dual& x) { return x.value(); }));
  };
  const auto moved = [&](double by, bool query_moves) {
    Matrix<double> q = values_of(query);
    Matrix<double> k = values_of(key);
    (query_moves ? q(2, 1) : k(0, 3)) += by;
    return Matrix<double>(scaled_dot_product_attention(q, k, values_of(value), options));
  };
  constexpr double step = 1e-5;
  for (const bool query_moves : {true, false}) {
    const Matrix<double> slope = (moved(step, query_moves) - moved(-step, query_moves)) / (2 * step);
    for (Index i = 0; i < 3; ++i) {
      for (Index c = 0; c < 2; ++c) {
        const auto& derivatives = out(i, c).derivatives();
        const double exact = derivatives.size() == 0 ? 0.0 : derivatives(query_moves ? 0 : 1);
        CHECK(std::abs(exact - slope(i, c)) < 1e-9);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a scale other than the default is used as given", "[accuracy]", float, double) {
  const AttentionShape s{1, 1, 1, 5, 7, 4, 4};
  const auto in = random_inputs<TestType>(s, 1);
  for (const double scale : {0.0, 1.0, -0.5, 2.5}) {
    AttentionOptions options;
    options.scale = scale;
    const Matrix<long double> out =
        scaled_dot_product_attention(in.query, in.key, in.value, options).template cast<long double>();
    const auto exact = naive<long double>(s, in.template cast<long double>(), Mask(), scale);
    CHECK(static_cast<double>((out - exact.out).cwiseAbs().maxCoeff()) <
          8 * std::numeric_limits<TestType>::epsilon());
  }
}
