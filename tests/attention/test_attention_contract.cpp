// The edges of the contract: empty rows, poison behind the mask, NaN that must show, lengths of zero, and
// errors that name the sizes.

#include <algorithm>
#include <array>

#include "catch.hpp"
#include "heed/layers/matrix_product.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

template <class Scalar>
Matrix<Scalar> matrix(std::initializer_list<std::initializer_list<double>> rows) {
  Matrix<Scalar> m(static_cast<Index>(rows.size()), static_cast<Index>(rows.begin()->size()));
  Index i = 0;
  for (const auto& row : rows) {
    Index j = 0;
    for (const double x : row) m(i, j++) = static_cast<Scalar>(x);
    ++i;
  }
  return m;
}

template <class A, class B>
double distance(const Eigen::MatrixBase<A>& a, const Eigen::MatrixBase<B>& b) {
  return static_cast<double>(
      (a.template cast<long double>() - b.template cast<long double>()).cwiseAbs().maxCoeff());
}

template <class Scalar>
const double kTolerance = sizeof(Scalar) == 4 ? 1e-5 : 1e-6;

/// Three queries and keys of size 2, as most small cases here use.
template <class Scalar>
Inputs<Scalar> three_keys() {
  const Matrix<Scalar> x = matrix<Scalar>({{1, 0}, {0, 1}, {1, 1}});
  return {x, x, matrix<Scalar>({{1, 2}, {3, 4}, {5, 6}})};
}

}  // namespace

TEMPLATE_TEST_CASE("a row that sees no key is zero everywhere, and changes no other row", "[edges]", float,
                   double, long double) {
  const auto in = three_keys<TestType>();
  const TestType hide = -kInf<TestType>;
  const Matrix<TestType> hidden = [&] {
    Matrix<TestType> m = Matrix<TestType>::Zero(3, 3);
    m(0, 1) = hide;
    m.row(1).setConstant(hide);
    return m;
  }();
  AttentionOptions options;
  options.mask = bias(hidden);
  const auto result = scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options);
  CHECK(distance(result.out, matrix<double>({{3, 4}, {0, 0}, {3.5104695, 4.5104695}})) <
        kTolerance<TestType>);
  CHECK(distance(result.weights.head(0),
                 matrix<double>({{0.5, 0, 0.5}, {0, 0, 0}, {0.2482551, 0.2482551, 0.5034898}})) <
        kTolerance<TestType>);
  CHECK(result.out.row(1).isZero(0));
  CHECK(result.logsumexp(1, 0) == -kInf<TestType>);
  CHECK(std::isfinite(result.logsumexp(0, 0)));
}

TEMPLATE_TEST_CASE("a causal row before the first key is zero", "[edges][mask]", float, double) {
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 5, 3, 4, 4}, AttentionShape{1, 2, 1, 200, 140, 16, 8}}) {
    const auto in = random_inputs<TestType>(s, 3);
    const auto result = scaled_dot_product_attention_with_weights(in.query, in.key, in.value,
                                                                  options_for(s, causal() & bottom_right()));
    const Index empty = s.query_len - s.kv_len;
    CHECK(result.out.topRows(empty).isZero(0));
    CHECK(result.weights.head(0).topRows(empty).isZero(0));
    CHECK((result.logsumexp.topRows(empty).array() == -kInf<TestType>).all());
    CHECK(result.out.bottomRows(s.kv_len).cwiseAbs().minCoeff() > 0);
    CHECK(result.out.allFinite());
  }
}

TEMPLATE_TEST_CASE("NaN, Inf or any garbage in a key or value that no row may see never reaches an output",
                   "[edges][nan]", float, double) {
  const auto clean = [] {
    auto in = three_keys<TestType>();
    in.key.row(1).setZero();
    in.value.row(1).setZero();
    return in;
  }();
  auto poisoned = clean;
  poisoned.key(1, 0) = kNaN<TestType>;
  poisoned.value(1, 0) = kInf<TestType>;
  poisoned.value(1, 1) = kNaN<TestType>;
  Matrix<TestType> hidden = Matrix<TestType>::Zero(3, 3);
  hidden.col(1).setConstant(-kInf<TestType>);
  AttentionOptions options;
  options.mask = bias(hidden);
  const auto expected = matrix<double>({{3, 4}, {3.6790462, 4.6790462}, {3.6790462, 4.6790462}});
  const auto out = scaled_dot_product_attention(poisoned.query, poisoned.key, poisoned.value, options);
  CHECK(distance(out, expected) < kTolerance<TestType>);
  CHECK(same_bits(out, scaled_dot_product_attention(clean.query, clean.key, clean.value, options)));
}

TEMPLATE_TEST_CASE("poison behind a bias of -inf changes no bit, wherever it lies in the tiles",
                   "[edges][bias][bits][nan]", float, double) {
  const AttentionShape s{1, 2, 1, 30, 290, 9, 21};
  const auto clean = random_inputs<TestType>(s, 4);
  Matrix<TestType> hidden = random_matrix<TestType>(s.query_len, s.kv_len, 5);
  for (Index j = 0; j < s.kv_len; j += 3) hidden.col(j).setConstant(-kInf<TestType>);
  for (const Mask& part : {Mask(), causal() & bottom_right()}) {
    const auto options = options_for(s, part & bias(hidden));
    const auto expected =
        scaled_dot_product_attention_with_weights(clean.query, clean.key, clean.value, options);
    for (const TestType poison : {kNaN<TestType>, kInf<TestType>, -kInf<TestType>}) {
      auto in = clean;
      for (Index j = 0; j < s.kv_len; j += 3) {
        in.key.row(j).setConstant(poison);
        in.value.row(j).setConstant(poison);
      }
      const auto result = scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options);
      CHECK(same_bits(expected.out, result.out));
      CHECK(same_bits(expected.weights.stacked, result.weights.stacked));
      CHECK(same_bits(expected.logsumexp, result.logsumexp));
    }
  }
}

TEMPLATE_TEST_CASE("NaN in a query reaches its own row and no other", "[edges][nan]", float, double) {
  const AttentionShape s{1, 1, 1, 50, 140, 8, 12};
  const auto clean = random_inputs<TestType>(s, 6);
  const auto expected = scaled_dot_product_attention(clean.query, clean.key, clean.value);
  auto in = clean;
  in.query(17, 3) = kNaN<TestType>;
  const auto out = scaled_dot_product_attention(in.query, in.key, in.value);
  CHECK(out.row(17).array().isNaN().all());
  CHECK(same_bits(expected.topRows(17), out.topRows(17)));
  CHECK(same_bits(expected.bottomRows(32), out.bottomRows(32)));
}

TEMPLATE_TEST_CASE("NaN in a visible key or value reaches exactly the rows that see it", "[edges][nan]",
                   float, double) {
  const AttentionShape s{1, 1, 1, 290, 290, 8, 12};
  const auto clean = random_inputs<TestType>(s, 7);
  AttentionOptions options;
  options.mask = causal();
  const auto expected = scaled_dot_product_attention(clean.query, clean.key, clean.value, options);
  for (const Index at : {Index{0}, Index{5}, Index{127}, Index{128}, Index{289}}) {
    auto in = clean;
    in.key(at, 2) = kNaN<TestType>;
    auto out = scaled_dot_product_attention(in.query, in.key, in.value, options);
    CHECK(same_bits(expected.topRows(at), out.topRows(at)));
    CHECK(out.bottomRows(s.query_len - at).array().isNaN().all());

    in = clean;
    in.value(at, 4) = kNaN<TestType>;
    out = scaled_dot_product_attention(in.query, in.key, in.value, options);
    CHECK(same_bits(expected.topRows(at), out.topRows(at)));
    CHECK(out.col(4).tail(s.query_len - at).array().isNaN().all());
    CHECK(same_bits(expected.leftCols(4), out.leftCols(4)));
    CHECK(same_bits(expected.rightCols(7), out.rightCols(7)));
  }
}

TEMPLATE_TEST_CASE("lengths and batches of zero give empty or zero results", "[edges]", float, double,
                   long double) {
  for (const auto& [batch, query_len, kv_len] :
       {std::array<Index, 3>{1, 0, 4}, {1, 3, 0}, {1, 0, 0}, {0, 0, 0}, {2, 0, 3}, {2, 3, 0}}) {
    const AttentionShape s{batch, 2, 1, query_len, kv_len, 4, 6};
    const auto in = random_inputs<TestType>(s, 8);
    const auto result = scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options_for(s));
    CHECK(result.out.rows() == batch * query_len);
    CHECK(result.out.cols() == 12);
    CHECK((result.out.size() == 0 || result.out.isZero(0)));
    CHECK(result.weights.stacked.rows() == batch * 2 * query_len);
    CHECK(result.weights.stacked.cols() == kv_len);
    CHECK((result.logsumexp.size() == 0 || (result.logsumexp.array() == -kInf<TestType>).all()));
  }
}

TEST_CASE("causal with unequal lengths wants to be told where the queries stand", "[edges][mask][ragged]") {
  const AttentionShape s{1, 1, 1, 2, 4, 3, 1};
  auto in = random_inputs<double>(s, 9);
  in.key.setZero();
  in.value << 1, 2, 3, 4;
  const auto run = [&](const Mask& mask) {
    return scaled_dot_product_attention(in.query, in.key, in.value, options_for(s, mask));
  };
  CHECK(distance(run(causal() & top_left()), matrix<double>({{1}, {1.5}})) < 1e-15);
  CHECK(distance(run(causal() & bottom_right()), matrix<double>({{2}, {2.5}})) < 1e-15);
  CHECK(distance(run(causal() & query_offset(1)), matrix<double>({{1.5}, {2}})) < 1e-15);
  CHECK(distance(run(causal() & query_offset(-1)), matrix<double>({{0}, {1}})) < 1e-15);
  const std::string message = message_of<ShapeError>([&] { run(causal()); });
  CHECK(contains(message, "2 queries"));
  CHECK(contains(message, "4 keys"));
  // The largest and smallest offsets see everything and nothing.
  CHECK(distance(run(causal() & query_offset(std::numeric_limits<Index>::max())),
                 matrix<double>({{2.5}, {2.5}})) < 1e-15);
  CHECK(run(causal() & query_offset(std::numeric_limits<Index>::min())).isZero(0));
}

TEST_CASE("a shape that does not fit is an exception that names the argument and the sizes",
          "[edges][errors]") {
  const auto in = [](Index query_rows, Index query_cols, Index key_rows, Index key_cols, Index value_rows,
                     Index value_cols) {
    return Inputs<float>{Matrix<float>::Zero(query_rows, query_cols), Matrix<float>::Zero(key_rows, key_cols),
                         Matrix<float>::Zero(value_rows, value_cols)};
  };
  const auto message = [](const Inputs<float>& x, const AttentionOptions& options = {}) {
    return message_of<ShapeError>([&] { scaled_dot_product_attention(x.query, x.key, x.value, options); });
  };
  CHECK(message(in(5, 4, 60, 4, 64, 4)) == "key has 60 rows, value has 64");
  CHECK(message(in(5, 4, 6, 5, 6, 4)) == "query has heads of 4 columns, key has heads of 5");
  CHECK(message(in(5, 0, 6, 0, 6, 4)) == "head_dim is 0, it must be at least 1");
  AttentionOptions three_heads;
  three_heads.num_heads = 3;
  CHECK(message(in(5, 4, 6, 4, 6, 4), three_heads) ==
        "query has 4 columns, they cannot be split into 3 heads");
  AttentionOptions five_on_two;
  five_on_two.num_heads = 5;
  five_on_two.num_kv_heads = 2;
  CHECK(message(in(3, 20, 3, 8, 3, 8), five_on_two) ==
        "num_heads is 5, not a multiple of num_kv_heads, which is 2");
  AttentionOptions two_sequences;
  two_sequences.batch_size = 2;
  CHECK(message(in(5, 4, 6, 4, 6, 4), two_sequences) ==
        "query has 5 rows, they cannot be split into 2 sequences");
  AttentionOptions no_heads;
  no_heads.num_heads = 0;
  CHECK(message(in(5, 4, 6, 4, 6, 4), no_heads) == "query has 4 columns, they cannot be split into 0 heads");
  const Matrix<float> small = Matrix<float>::Zero(5, 5);
  AttentionOptions with_bias;
  with_bias.mask = bias(small);
  CHECK(message(in(5, 4, 6, 4, 6, 4), with_bias) ==
        "bias is 5 x 5, 5 queries and 6 keys need 5 x 6, or 1 x 6 for all queries alike");
}

TEST_CASE("nothing is written when an argument is wrong", "[edges]") {
  const AttentionShape s{1, 1, 1, 4, 4, 3, 3};
  const auto in = random_inputs<float>(s, 10);
  const Matrix<float> before = random_matrix<float>(4, 5, 11);
  Matrix<float> out = before;
  CHECK(message_of<ShapeError>([&] { scaled_dot_product_attention_into(in.query, in.key, in.value, out); }) ==
        "out is 4 x 5, 1 sequence of 4 query rows and 1 head of 3 need 4 x 3");
  CHECK(same_bits(before, out));
}

TEST_CASE("an option with a senseless value is an exception that says so", "[edges][errors]") {
  const auto in = three_keys<double>();
  const auto run = [&](const AttentionOptions& options) {
    scaled_dot_product_attention(in.query, in.key, in.value, options);
  };
  for (const double scale : {kNaN<double>, kInf<double>}) {
    AttentionOptions options;
    options.scale = scale;
    CHECK(contains(message_of<ArgumentError>([&] { run(options); }), "scale is"));
  }
  const Matrix<float> other_type = Matrix<float>::Zero(3, 3);
  AttentionOptions options;
  options.mask = bias(other_type);
  CHECK(contains(message_of<ArgumentError>([&] { run(options); }), "bias has another scalar type"));
}

TEMPLATE_TEST_CASE("zeros come out as +0 and NaN as the one quiet NaN, whatever sign and payload went in",
                   "[edges][nan]", float, double) {
  const AttentionShape s{1, 1, 1, 20, 150, 8, 21};
  auto in = random_inputs<TestType>(s, 14);
  in.value.setConstant(TestType(-0.0));
  // Products with weights that underflow: the sum is a negative zero until it is settled.
  in.value.row(3).setConstant(-std::numeric_limits<TestType>::denorm_min());
  in.value.col(2).setConstant(-kNaN<TestType>);
  auto clean = in;
  clean.value.col(2).setConstant(kNaN<TestType>);
  for (const Mask& mask : {Mask(), causal() & bottom_right()}) {
    const auto out = scaled_dot_product_attention(in.query, in.key, in.value, options_for(s, mask));
    for (Index i = 0; i < s.query_len; ++i) {
      CHECK(std::isnan(out(i, 2)));
      CHECK_FALSE(std::signbit(out(i, 2)));
      for (const Index c : {Index{0}, Index{20}}) {
        CHECK(out(i, c) == 0);
        CHECK_FALSE(std::signbit(out(i, c)));
      }
    }
    CHECK(same_bits(out,
                    scaled_dot_product_attention(clean.query, clean.key, clean.value, options_for(s, mask))));
  }
}

TEST_CASE("weights and logsumexp are checked like out", "[edges][weights][logsumexp]") {
  const AttentionShape s{2, 3, 3, 4, 5, 6, 7};
  const auto in = random_inputs<double>(s, 15);
  Matrix<double> out(8, 21);
  Matrix<double> weights(24, 5);
  Matrix<double> logsumexp(8, 3);
  const AttentionPlan<double> plan(s);
  AttentionTensors<double> good;
  good.query = view(in.query);
  good.key = view(in.key);
  good.value = view(in.value);
  good.out = mutable_view(out);
  good.weights = mutable_view(weights);
  good.logsumexp = mutable_view(logsumexp);
  CHECK(message_of<Error>([&] { plan.check_tensors(good); }) == "nothing");
  const auto shape_message = [&](auto change) {
    auto tensors = good;
    change(tensors);
    return message_of<ShapeError>([&] { plan.check_tensors(tensors); });
  };
  CHECK(contains(shape_message([](auto& t) { t.weights.rows = 23; }), "weights is 23 x 5"));
  CHECK(contains(shape_message([](auto& t) { t.weights.cols = 0; }), "weights is 24 x 0"));
  CHECK(contains(shape_message([](auto& t) { t.logsumexp.cols = 2; }), "logsumexp is 8 x 2"));
  auto missing = good;
  missing.key.data = nullptr;
  CHECK(contains(message_of<ArgumentError>([&] { plan.check_tensors(missing); }),
                 "key (10 x 18) has no memory"));
  const auto overlap_message = [&](auto change) {
    auto tensors = good;
    change(tensors);
    return message_of<ArgumentError>([&] { plan.check_tensors(tensors); });
  };
  auto* const query = const_cast<double*>(in.query.data());
  auto* const key = const_cast<double*>(in.key.data());
  auto* const value = const_cast<double*>(in.value.data());
  CHECK(
      contains(overlap_message([&](auto& t) { t.weights.data = query; }), "weights (24 x 5) overlaps query"));
  CHECK(contains(overlap_message([&](auto& t) { t.weights.data = key; }), "weights (24 x 5) overlaps key"));
  CHECK(contains(overlap_message([&](auto& t) { t.logsumexp.data = value; }),
                 "logsumexp (8 x 3) overlaps value"));
  CHECK(contains(overlap_message([&](auto& t) { t.weights.data = out.data(); }),
                 "out (8 x 21) overlaps weights"));
  CHECK(contains(overlap_message([&](auto& t) { t.logsumexp.data = out.data(); }),
                 "out (8 x 21) overlaps logsumexp"));
  CHECK(contains(overlap_message([&](auto& t) { t.logsumexp.data = weights.data(); }),
                 "weights (24 x 5) overlaps logsumexp"));
}

TEST_CASE("out may not overlap an input, but may stand beside it in one matrix", "[edges][overlap]") {
  const AttentionShape s{1, 1, 1, 6, 6, 4, 4};
  const auto in = random_inputs<double>(s, 12);
  Matrix<double> all(6, 16);
  all << in.query, in.key, in.value, Matrix<double>::Zero(6, 4);
  auto out = all.rightCols(4);
  scaled_dot_product_attention_into(all.leftCols(4), all.middleCols(4, 4), all.middleCols(8, 4), out);
  CHECK(same_bits(out, scaled_dot_product_attention(in.query, in.key, in.value)));

  const Matrix<double> before = all;
  for (const Index first : {Index{0}, Index{1}, Index{4}, Index{7}, Index{9}, Index{11}}) {
    auto overlapping = all.middleCols(first, 4);
    const std::string message = message_of<ArgumentError>([&] {
      scaled_dot_product_attention_into(all.leftCols(4), all.middleCols(4, 4), all.middleCols(8, 4),
                                        overlapping);
    });
    CHECK(contains(message, "out (6 x 4) overlaps"));
    CHECK(same_bits(before, all));
  }
}

TEST_CASE("overlap is exact for blocks of one matrix and careful for others", "[edges][overlap]") {
  Matrix<float> m = Matrix<float>::Zero(8, 10);
  const auto part = [&](Index row, Index col, Index rows, Index cols) {
    return mutable_view(m).block(row, col, rows, cols);
  };
  CHECK_FALSE(overlap(part(0, 0, 8, 5), part(0, 5, 8, 5)));
  CHECK_FALSE(overlap(part(0, 5, 8, 5), part(0, 0, 8, 5)));
  CHECK_FALSE(overlap(part(0, 0, 4, 10), part(4, 0, 4, 10)));
  CHECK_FALSE(overlap(part(0, 6, 3, 4), part(2, 0, 3, 6)));
  CHECK(overlap(part(0, 0, 8, 6), part(0, 5, 8, 5)));
  CHECK(overlap(part(3, 3, 1, 1), part(0, 0, 8, 10)));
  CHECK(overlap(part(0, 5, 4, 5), part(3, 0, 5, 6)));
  CHECK_FALSE(overlap(part(0, 0, 0, 5), part(0, 0, 8, 10)));
  const MatrixView<float> transposed{m.data(), 10, 8, 1, 10};
  CHECK(overlap(transposed, part(0, 0, 1, 1)));
}

TEST_CASE("masks compose, print themselves and refuse to contradict themselves", "[edges][mask][errors]") {
  const Matrix<double> matrix_4 = Matrix<double>::Zero(4, 4);
  CHECK(Mask().to_string() == "none");
  CHECK((causal() & bottom_right() & bias(matrix_4)).to_string() == "causal & bottom_right & bias(4 x 4)");
  CHECK((query_offset(-3) & causal()).to_string() == "causal & query_offset(-3)");
  CHECK((causal() & causal()).to_string() == "causal");
  CHECK(contains(message_of<ArgumentError>([] { (void)(top_left() & query_offset(3)); }), "query_offset(3)"));
  Mask many = bias(matrix_4);
  for (int i = 1; i < Mask::kMaxMatrices; ++i) many = many & bias(matrix_4);
  CHECK(contains(message_of<ArgumentError>([&] { (void)(many & bias(matrix_4)); }), "at most 8 matrices"));
}

TEST_CASE("a plan prints itself, and its workspace does not grow with the lengths", "[edges][plan]") {
  const AttentionPlan<float> small({1, 2, 2, 576, 576, 64, 64}, causal());
  const AttentionPlan<float> large({8, 12, 12, 5760, 5760, 64, 64}, causal());
  CHECK(contains(small.to_string(), "mask causal"));
  CHECK(contains(small.to_string(), std::to_string(small.workspace_bytes()) + " bytes"));
  CHECK(small.workspace_bytes() == large.workspace_bytes());
  CHECK(large.workspace_bytes() < 1000000);
  CHECK(AttentionPlan<float>({8, 12, 12, 5760, 5760, 64, 64}, causal(), {}, 3).workspace_bytes() ==
        3 * large.workspace_bytes());
}

TEST_CASE("a run writes no byte outside its workspace and its results", "[edges]") {
  for (const AttentionShape& s :
       {AttentionShape{2, 2, 1, 130, 130, 7, 5}, AttentionShape{1, 1, 1, 1, 3, 1, 1}}) {
    const auto in = random_inputs<float>(s, 13);
    const AttentionPlan<float> plan(s, causal() & bottom_right(), {}, 1);
    const std::size_t bytes = plan.workspace_bytes();
    Workspace memory(bytes + 128);
    auto* const guarded = static_cast<unsigned char*>(memory.data());
    std::memset(guarded, 0xA5, bytes + 128);
    AwkwardMatrix<float> out(Matrix<float>::Zero(s.batch_size * s.query_len, s.num_heads * s.value_dim), 2);
    AttentionTensors<float> tensors;
    tensors.query = view(in.query);
    tensors.key = view(in.key);
    tensors.value = view(in.value);
    auto map = out.map();
    tensors.out = mutable_view(map);
    plan.check_tensors(tensors);
    plan.run(tensors, guarded + 64);
    // Exact: the last cache line of the workspace is used.
    CHECK(
        std::any_of(guarded + bytes, guarded + 64 + bytes, [](unsigned char byte) { return byte != 0xA5; }));
    for (std::size_t i = 0; i < 64; ++i) {
      REQUIRE(guarded[i] == 0xA5);
      REQUIRE(guarded[64 + bytes + i] == 0xA5);
    }
    // The gaps between the awkward matrix's elements are still NaN.
    const float* element = map.data();
    for (Index i = 0; i < map.rows(); ++i) {
      for (Index j = 0; j + 1 < map.cols(); ++j)
        REQUIRE(std::isnan(element[i * map.rowStride() + j * 2 + 1]));
    }
  }
}

TEST_CASE("out may not overlap an input of one row, or a bias", "[edges][bias][overlap]") {
  // One decode step on column-major matrices: rows and columns both lie one element apart.
  Eigen::MatrixXd buffer = random_matrix<double>(1, 12, 16);
  const Eigen::MatrixXd key = random_matrix<double>(5, 8, 17);
  const auto query = buffer.middleCols(0, 8);
  AttentionOptions options;
  options.num_heads = 2;
  CHECK(contains(message_of<ArgumentError>([&] {
                   scaled_dot_product_attention_into(query, key, key, buffer.middleCols(4, 8), options);
                 }),
                 "out (1 x 8) overlaps query (1 x 8)"));

  Matrix<double> square = random_matrix<double>(8, 8, 18);
  const Matrix<double> x = random_matrix<double>(8, 8, 19);
  options.mask = bias(square);
  CHECK(contains(
      message_of<ArgumentError>([&] { scaled_dot_product_attention_into(x, x, x, square, options); }),
      "out (8 x 8) overlaps bias (8 x 8)"));
  Matrix<long double> wide = square.cast<long double>();
  const Matrix<long double> wide_x = x.cast<long double>();
  options.mask = bias(wide);
  CHECK(contains(message_of<ArgumentError>(
                     [&] { scaled_dot_product_attention_into(wide_x, wide_x, wide_x, wide, options); }),
                 "out (8 x 8) overlaps bias (8 x 8)"));
}

TEST_CASE("a bias of no rows and columns is a bias, not the absence of one", "[edges][bias]") {
  const Eigen::MatrixXd empty;
  const auto in = three_keys<double>();
  AttentionOptions options;
  options.mask = bias(empty);
  CHECK(options.mask.to_string() == "bias(0 x 0)");
  CHECK(message_of<ShapeError>([&] { scaled_dot_product_attention(in.query, in.key, in.value, options); }) ==
        "bias is 0 x 0, 3 queries and 3 keys need 3 x 3, or 1 x 3 for all queries alike");
}

TEST_CASE("absurd sizes are an exception, not an overflow", "[edges][errors]") {
  constexpr Index huge = std::numeric_limits<Index>::max();
  for (const AttentionShape& s :
       {AttentionShape{Index{1} << 62, 2, 2, 0, 0, 2, 2},
        AttentionShape{Index{1} << 40, Index{1} << 40, 1, 1, 1, 1, 1}, AttentionShape{1, 1, 1, huge, 1, 1, 1},
        AttentionShape{1, 1, 1, 1, 1, Index{1} << 62, 1}, AttentionShape{1, 1, 1, 1, 1, 1, huge},
        AttentionShape{1, huge, 1, 1, 1, 1, 1},
        AttentionShape{Index{1} << 31, Index{1} << 31, 1, 4, 1, 1, 1}}) {
    CHECK(message_of<ShapeError>([&] { (void)AttentionPlan<float>(s); }) != "nothing");
  }
  AttentionOptions options;
  options.num_heads = Index{1} << 61;
  options.num_kv_heads = 1;
  const Matrix<double> query(1, 0);
  const Matrix<double> value = Matrix<double>::Ones(1, 4);
  CHECK(message_of<ShapeError>(
            [&] { scaled_dot_product_attention(query, Matrix<double>(1, 0), value, options); }) != "nothing");
  options = {};
  options.scale = 1e39;
  const auto in = three_keys<float>();
  CHECK(contains(
      message_of<ArgumentError>([&] { scaled_dot_product_attention(in.query, in.key, in.value, options); }),
      "scale"));
}

TEMPLATE_TEST_CASE("a hidden key weighs 0 even in a row that is NaN", "[edges][mask][nan]", float, double) {
  auto in = three_keys<TestType>();
  in.query(1, 0) = kNaN<TestType>;
  Matrix<TestType> hidden = Matrix<TestType>::Zero(3, 3);
  hidden.col(2).setConstant(-kInf<TestType>);
  AttentionOptions options;
  options.mask = bias(hidden);
  const Matrix<TestType> weights =
      scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options).weights.head(0);
  CHECK(std::isnan(weights(1, 0)));
  CHECK(std::isnan(weights(1, 1)));
  CHECK(weights(1, 2) == 0);
}

TEST_CASE("an executor may promise more threads than there is work", "[edges][threads]") {
  class Eager final : public Executor {
   public:
    Eager() : Executor(Index{1} << 60) {}
    void run(Index count, void (*task)(void*, Index), void* context) override {
      for (Index i = count - 1; i >= 0; --i) task(context, i);
    }
  } eager;
  const AttentionShape s{2, 2, 2, 30, 30, 8, 8};
  const auto in = random_inputs<float>(s, 20);
  AttentionOptions options = options_for(s);
  const auto alone = scaled_dot_product_attention(in.query, in.key, in.value, options);
  options.executor = &eager;
  CHECK(same_bits(alone, scaled_dot_product_attention(in.query, in.key, in.value, options)));
  const Matrix<float> a = random_matrix<float>(400, 300, 21);
  const Matrix<float> b = random_matrix<float>(300, 600, 22);
  CHECK(same_bits(matrix_product(a, b), matrix_product(a, b, &eager)));
}
