// The contract over random combinations of all options. A failure prints the seed and the options.

#include <algorithm>

#include "catch.hpp"
#include "heed/attention/observe_attention.hpp"
#include "option_accuracy.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr std::uint64_t kProblems = kSlowRun ? 12 : 350;
constexpr Index kMaxWork = kSlowRun ? 100'000 : 1'000'000;
constexpr Index kMaxWorkWithoutOracle = 20 * kMaxWork;

}  // namespace

TEMPLATE_TEST_CASE("with any options, an element is as exact as the contract says", "[options]", float,
                   double) {
  for (std::uint64_t seed = 0; seed < kProblems; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWork);
    CAPTURE(p.to_string());
    const AttentionResult<TestType> result = Poured<TestType>(p).run();
    const Excess excess = excess_of(p, result);
    REQUIRE(excess.out <= 1);
    REQUIRE(excess.weights <= 1);
    REQUIRE(excess.logsumexp <= 1);
    // Columns beyond the keys of a short sequence are zero.
    for (Index b = 0; b < p.shape.batch_size; ++b) {
      const Index keys = p.shape.kv_len_of(b);
      REQUIRE(result.weights.stacked
                  .block(p.shape.query_start(b) * p.shape.num_heads, keys,
                         p.shape.query_len_of(b) * p.shape.num_heads, p.shape.kv_len - keys)
                  .isZero(0));
    }
  }
}

TEMPLATE_TEST_CASE("with any options, the same bits on any threads, with weights, observers or nothing",
                   "[options][threads][bits]", float, double) {
  ThreadPool pools[] = {ThreadPool(2), ThreadPool(3), ThreadPool(4)};
  for (std::uint64_t seed = 1000; seed < 1000 + kProblems; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWorkWithoutOracle);
    CAPTURE(p.to_string());
    Poured<TestType> in(p);
    const AttentionResult<TestType> alone = in.run();
    REQUIRE(same_bits(alone.out, in.run_alone()));
    TopWeights<TestType> top(2);
    ColumnSums<TestType> sums;
    REQUIRE(same_bits(alone.out, observe_attention(in.query, in.key, in.value, in.options, {&top})));
    REQUIRE(same_bits(alone.out, observe_attention(in.query, in.key, in.value, in.options, {&sums, &top})));
    for (ThreadPool& pool : pools) {
      in.options.executor = &pool;
      REQUIRE(same_results(alone, in.run()));
      REQUIRE(same_bits(alone.out, in.run_alone()));
    }
  }
}

TEMPLATE_TEST_CASE("with any options, the same bits for every storage order, stride and alignment",
                   "[options][bits]", float, double) {
  for (std::uint64_t seed = 2000; seed < 2000 + kProblems; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWorkWithoutOracle);
    CAPTURE(p.to_string());
    Poured<TestType> in(p);
    const AttentionResult<TestType> plain = in.run();
    REQUIRE(same_results(plain, Poured<TestType, Eigen::ColMajor>(p).run()));

    const Index step = 1 + static_cast<Index>(seed % 3);
    AwkwardMatrix<TestType> query(in.query, step);
    AwkwardMatrix<TestType> key(in.key, step);
    AwkwardMatrix<TestType> value(in.value, step);
    AwkwardMatrix<TestType> sheet(Matrix<TestType>::Zero(plain.out.rows(), plain.out.cols()), step);
    auto out = sheet.map();
    scaled_dot_product_attention_into(query.map(), key.map(), value.map(), out, in.options);
    REQUIRE(same_bits(plain.out, out));
  }
}

TEMPLATE_TEST_CASE("with any options, a sequence, head or chunk has the same bits alone as in the whole",
                   "[options][bits]", float, double) {
  for (std::uint64_t seed = 3000; seed < 3000 + kProblems; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWorkWithoutOracle);
    CAPTURE(p.to_string());
    Draw draw(seed + 1);
    const AttentionResult<TestType> whole = Poured<TestType>(p).run();
    for (Index b = 0; b < p.shape.batch_size; ++b) {
      const Index rows = p.shape.query_len_of(b);
      CAPTURE(b);
      REQUIRE(part_has_same_bits(p, whole, b, std::nullopt, 0, rows));
      REQUIRE(part_has_same_bits(p, whole, b, draw.below(p.shape.num_heads), 0, rows));
      for (Index first = 0; first < rows;) {
        const Index chunk = std::min(rows - first, draw.pick({1, 2, 7, 50, 300}));
        CAPTURE(first, chunk);
        REQUIRE(part_has_same_bits(p, whole, b, std::nullopt, first, chunk));
        first += chunk + draw.pick({0, 0, rows / 4});
      }
      if (rows > 0)
        REQUIRE(part_has_same_bits(p, whole, b, draw.below(p.shape.num_heads), draw.below(rows), 1));
    }
  }
}

TEMPLATE_TEST_CASE("with any options, NaN, Inf or garbage in a key that no row sees changes no bit",
                   "[options][bits][nan]", float, double) {
  for (std::uint64_t seed = 4000; seed < 4000 + kProblems; ++seed) {
    Problem p = Draw(seed).problem(kMaxWorkWithoutOracle);
    CAPTURE(p.to_string());
    const AttentionResult<TestType> clean = Poured<TestType>(p).run();
    poison_hidden(p);
    REQUIRE(same_results(clean, Poured<TestType>(p).run()));
  }
}

TEMPLATE_TEST_CASE("with any options, NaN in a value or a key reaches exactly the rows that see it",
                   "[options][nan]", float, double) {
  for (std::uint64_t seed = 5000; seed < 5000 + kProblems; ++seed) {
    const Problem p = Draw(seed).problem(kMaxWorkWithoutOracle);
    const AttentionShape& s = p.shape;
    CAPTURE(p.to_string());
    Draw draw(seed + 1);
    const Index b = draw.below(s.batch_size);
    if (s.kv_len_of(b) == 0) continue;
    const Index j = draw.below(s.kv_len_of(b));
    const Index kv_head = draw.below(s.num_kv_heads);
    const Index column = draw.below(s.value_dim);
    const Matrix<TestType> clean = Poured<TestType>(p).run_alone();
    Problem with_value = p;
    with_value.in.value(s.kv_start(b) + j, kv_head * s.value_dim + column) = kNaN<float>;
    const Matrix<TestType> of_value = Poured<TestType>(with_value).run_alone();
    Problem with_key = p;
    with_key.in.key(s.kv_start(b) + j, kv_head * s.head_dim + draw.below(s.head_dim)) = kNaN<float>;
    const Matrix<TestType> of_key = Poured<TestType>(with_key).run_alone();

    Matrix<TestType> expected_of_value = clean;
    Matrix<TestType> expected_of_key = clean;
    const Index group = s.num_heads / s.num_kv_heads;
    for (Index h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      for (Index i = 0; i < s.query_len_of(b); ++i) {
        if (!p.sees(b, h, i, j)) continue;
        const Index row = s.query_start(b) + i;
        expected_of_value(row, h * s.value_dim + column) = kNaN<TestType>;
        expected_of_key.block(row, h * s.value_dim, 1, s.value_dim).setConstant(kNaN<TestType>);
      }
    }
    CAPTURE(b, j, kv_head, column);
    REQUIRE(same_bits(of_value, expected_of_value));
    REQUIRE(same_bits(of_key, expected_of_key));
  }
}

TEST_CASE("the draws reach every option, and the sizes where tiles end", "[options][rotary][ragged]") {
  int ragged = 0, causal = 0, windows = 0, padded = 0, biases = 0, flags = 0, shared_rows = 0, sloping = 0,
      caps = 0;
  int sinking = 0, rotary = 0, negative = 0, tile_edges = 0, nothing = 0, grouped = 0, many_heads_apart = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Problem p = Draw(seed).problem(1'000'000);
    ragged += !p.shape.query_starts.empty() || !p.shape.kv_starts.empty();
    causal += p.causal;
    windows += p.window.left != kUnlimited || p.window.right != kUnlimited;
    padded += !p.lengths.empty();
    for (const MaskMatrixCase& m : p.matrices) {
      ++(m.kind == MaskMatrix::Kind::bias ? biases : flags);
      shared_rows += m.row_for_all;
      many_heads_apart += m.per_head() && m.per_sequence() && p.shape.num_heads > 1 && p.shape.batch_size > 1;
    }
    sloping += !p.slopes.empty();
    caps += p.softcap > 0;
    sinking += !p.sinks.empty();
    rotary += p.rotary.has_value();
    negative += p.shape.query_len > 0 && p.position(0, 0) < 0;
    tile_edges += p.shape.kv_len >= 127 && p.shape.kv_len <= 257;
    nothing += p.shape.kv_len == 0 || p.shape.query_len == 0;
    grouped += p.shape.num_heads > p.shape.num_kv_heads;
  }
  for (const int count : {ragged, causal, windows, padded, biases, flags, shared_rows, sloping, caps, sinking,
                          rotary, negative, tile_edges, nothing, grouped, many_heads_apart})
    CHECK(count >= 5);
}
