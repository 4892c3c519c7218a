// A row's result depends on its own query and the keys and values that it sees, on nothing else. By memcmp.

#include "catch.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

// One position, one tile of keys and more, one block of queries and more, odd sizes, heads that share keys.
const AttentionShape kShapes[] = {
    {1, 1, 1, 1, 1, 1, 1},     {1, 1, 1, 130, 130, 64, 64},
    {2, 2, 1, 97, 97, 5, 7},   {1, 4, 2, 33, 33, 16, 16},
#if defined(HEED_EMULATED)
    {1, 1, 1, 300, 300, 8, 8},
#else
    {3, 2, 2, 257, 257, 24, 40}, {1, 1, 1, 200, 200, 128, 128}, {1, 1, 1, 600, 600, 8, 8},
#endif
};

}  // namespace

TEMPLATE_TEST_CASE("the same bits for 1 to 8 threads", "[bits][threads]", float, double) {
  for (const AttentionShape& s : kShapes) {
    const auto in = random_inputs<TestType>(s, 1);
    for (const Mask& mask : {Mask(), causal()}) {
      AttentionOptions options = options_for(s, mask);
      const auto alone = scaled_dot_product_attention(in.query, in.key, in.value, options);
      for (Index threads = 2; threads <= 8; ++threads) {
        ThreadPool pool(threads);
        options.executor = &pool;
        CHECK(same_bits(alone, scaled_dot_product_attention(in.query, in.key, in.value, options)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("the same bits for a full pass, chunks and one row at a time", "[bits]", float, double) {
  for (AttentionShape s : kShapes) {
    s.batch_size = 1;
    const auto in = random_inputs<TestType>(s, 2);
    const auto full = scaled_dot_product_attention(in.query, in.key, in.value, options_for(s, causal()));
    for (const Index chunk : {Index{1}, Index{2}, Index{5}, Index{7}, Index{64}, Index{96}, Index{100}}) {
      for (Index first = 0; first < s.query_len; first += chunk) {
        const Index rows = std::min(chunk, s.query_len - first);
        // A chunk against the whole cache, and a decode step against the keys up to now.
        const auto against_all =
            scaled_dot_product_attention(in.query.middleRows(first, rows), in.key, in.value,
                                         options_for(s, causal() & query_offset(first)));
        const auto against_past = scaled_dot_product_attention(
            in.query.middleRows(first, rows), in.key.topRows(first + rows), in.value.topRows(first + rows),
            options_for(s, causal() & bottom_right()));
        CAPTURE(s.query_len, chunk, first);
        REQUIRE(same_bits(full.middleRows(first, rows), against_all));
        REQUIRE(same_bits(full.middleRows(first, rows), against_past));
      }
    }
  }
}

TEMPLATE_TEST_CASE("the same bits for a batch and for its sequences one by one, for many heads and for one",
                   "[bits]", float, double) {
  const AttentionShape s{3, 4, 2, 61, 61, 12, 20};
  const auto in = random_inputs<TestType>(s, 4);
  for (const Mask& mask : {Mask(), causal()}) {
    const auto together = scaled_dot_product_attention(in.query, in.key, in.value, options_for(s, mask));
    for (Index b = 0; b < s.batch_size; ++b) {
      for (Index h = 0; h < s.num_heads; ++h) {
        const Index kv = h / 2;
        AttentionOptions one;
        one.mask = mask;
        const auto alone = scaled_dot_product_attention(in.query.block(b * 61, h * 12, 61, 12),
                                                        in.key.block(b * 61, kv * 12, 61, 12),
                                                        in.value.block(b * 61, kv * 20, 61, 20), one);
        CHECK(same_bits(together.block(b * 61, h * 20, 61, 20), alone));
      }
    }
  }
}

TEMPLATE_TEST_CASE("the same bits for every storage order, stride and alignment", "[bits]", float, double) {
  using ByColumns = Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  for (const AttentionShape& s : kShapes) {
    const auto in = random_inputs<TestType>(s, 6);
    const auto options = options_for(s, causal());
    const auto plain = scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options);

    const ByColumns query = in.query;
    const ByColumns key = in.key;
    const ByColumns value = in.value;
    CHECK(same_bits(plain.out, scaled_dot_product_attention(query, key, value, options)));

    for (const Index step : {Index{1}, Index{3}}) {
      AwkwardMatrix<TestType> awkward_query(in.query, step);
      AwkwardMatrix<TestType> awkward_key(in.key, step);
      AwkwardMatrix<TestType> awkward_value(in.value, step);
      AwkwardMatrix<TestType> awkward_out(Matrix<TestType>::Zero(plain.out.rows(), plain.out.cols()), step);
      auto out = awkward_out.map();
      scaled_dot_product_attention_into(awkward_query.map(), awkward_key.map(), awkward_value.map(), out,
                                        options);
      CHECK(same_bits(plain.out, out));
    }

    const ByColumns reversed = in.query.rowwise().reverse();
    const ByColumns reversed_key = in.key.rowwise().reverse();
    using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
    // Negative strides: the last column first, read backwards.
    const Eigen::Map<const ByColumns, 0, Strides> backwards(
        reversed.data() + reversed.rows() * (reversed.cols() - 1), reversed.rows(), reversed.cols(),
        Strides(-reversed.rows(), 1));
    const Eigen::Map<const ByColumns, 0, Strides> backwards_key(
        reversed_key.data() + reversed_key.rows() * (reversed_key.cols() - 1), reversed_key.rows(),
        reversed_key.cols(), Strides(-reversed_key.rows(), 1));
    CHECK(same_bits(plain.out, scaled_dot_product_attention(backwards, backwards_key, value, options)));

    ByColumns out_by_columns(plain.out.rows(), plain.out.cols());
    scaled_dot_product_attention_into(in.query, in.key, in.value, out_by_columns, options);
    CHECK(same_bits(plain.out, out_by_columns));
  }
}

TEMPLATE_TEST_CASE("rows of a column-major matrix are written at any alignment, and nothing above or below",
                   "[bits]", float, double) {
  using ByColumns = Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  constexpr Index max_above = 17;  // more than a vector register has elements
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 300, 20, 8, 40}, AttentionShape{2, 3, 3, 17, 17, 5, 9},
        AttentionShape{1, 2, 2, 3, 9, 8, 33}}) {
    const auto in = random_inputs<TestType>(s, 6);
    const auto options = options_for(s);
    const auto plain = scaled_dot_product_attention(in.query, in.key, in.value, options);
    for (Index above = 0; above <= max_above; ++above) {
      ByColumns query(in.query.rows() + max_above, in.query.cols());
      query.middleRows(above, in.query.rows()) = in.query;
      ByColumns sheet = ByColumns::Constant(plain.rows() + max_above, plain.cols(), 7);
      scaled_dot_product_attention_into(query.middleRows(above, in.query.rows()), in.key, in.value,
                                        sheet.middleRows(above, plain.rows()), options);
      CHECK(same_bits(plain, sheet.middleRows(above, plain.rows())));
      CHECK((sheet.topRows(above).array() == 7).all());
      CHECK((sheet.bottomRows(max_above - above).array() == 7).all());
    }
  }
}

TEMPLATE_TEST_CASE("asking for the weights and the logsumexp changes no bit of out", "[bits][logsumexp]",
                   float, double) {
  for (const AttentionShape& s : kShapes) {
    const auto in = random_inputs<TestType>(s, 7);
    for (const Mask& mask : {Mask(), causal()}) {
      const auto options = options_for(s, mask);
      CHECK(same_bits(scaled_dot_product_attention(in.query, in.key, in.value, options),
                      scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options).out));
    }
  }
}

TEMPLATE_TEST_CASE("the same bits of a causal row whatever stands after it", "[bits][mask]", float, double) {
  const AttentionShape s{1, 1, 1, 140, 140, 16, 16};
  const auto in = random_inputs<TestType>(s, 8);
  const auto full = scaled_dot_product_attention(in.query, in.key, in.value, options_for(s, causal()));
  for (const Index cut : {Index{1}, Index{5}, Index{64}, Index{127}, Index{129}, Index{139}}) {
    for (const TestType poison :
         {TestType(3), kNaN<TestType>, kInf<TestType>, -std::numeric_limits<TestType>::max()}) {
      auto other = in;
      other.query.bottomRows(140 - cut).setConstant(poison);
      other.key.bottomRows(140 - cut).setConstant(poison);
      other.value.bottomRows(140 - cut).setConstant(poison);
      const auto out =
          scaled_dot_product_attention(other.query, other.key, other.value, options_for(s, causal()));
      CHECK(same_bits(full.topRows(cut), out.topRows(cut)));
    }
  }
}

TEMPLATE_TEST_CASE("a row of a matrix product has the same bits alone, in any storage order, on any threads",
                   "[bits][threads]", float, double) {
  for (const auto& [rows, depth, cols] :
       {std::array<Index, 3>{1, 1, 1}, {13, 300, 70}, {200, 64, 33}, {50, 513, 530}, {400, 17, 1100}}) {
    const Matrix<TestType> a = random_matrix<TestType>(rows, depth, 11);
    const Matrix<TestType> b = random_matrix<TestType>(depth, cols, 12);
    const Matrix<TestType> full = matrix_product(a, b);
    CHECK(static_cast<double>((full - a * b).cwiseAbs().maxCoeff()) <=
          4 * static_cast<double>(depth) * std::numeric_limits<TestType>::epsilon());
    for (const Index first : {Index{0}, rows / 2, rows - 1}) {
      CHECK(same_bits(full.row(first), matrix_product(a.row(first), b)));
      CHECK(same_bits(full.bottomRows(rows - first), matrix_product(a.bottomRows(rows - first), b)));
    }
    CHECK(same_bits(full.rightCols(cols / 2), matrix_product(a, b.rightCols(cols / 2))));
    const Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic> a_by_columns = a;
    const Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic> b_by_columns = b;
    CHECK(same_bits(full, matrix_product(a_by_columns, b_by_columns)));
    CHECK(same_bits(full.topRows(1), matrix_product(a_by_columns.topRows(1), b_by_columns)));
    CHECK(same_bits(full.bottomRows(1), matrix_product(a.bottomRows(1), b_by_columns)));
    // A sum may be cut anywhere, and go on from what is there.
    for (const Index cut : {Index{0}, depth / 2, depth}) {
      for (const Index count : {Index{1}, rows}) {
        Matrix<TestType> sum = matrix_product(a.block(0, 0, count, cut), b.topRows(cut));
        Matrix<TestType> by_columns = sum;
        const auto rest = a.block(0, cut, count, depth - cut);
        multiply<TestType>(view(rest), {view(b.bottomRows(depth - cut)), mutable_view(sum), {}, true});
        CHECK(same_bits(full.topRows(count), sum));
        multiply<TestType>(view(rest),
                           {view(b_by_columns.bottomRows(depth - cut)), mutable_view(by_columns), {}, true});
        CHECK(same_bits(full.topRows(count), by_columns));
      }
    }
    for (Index threads = 2; threads <= 4; ++threads) {
      ThreadPool pool(threads);
      CHECK(same_bits(full, matrix_product(a, b, &pool)));
    }
  }
}

TEMPLATE_TEST_CASE("one query on heads that share keys gives each head the bits it has alone", "[bits]",
                   float, double) {
  ThreadPool pool(3);
  for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{4, 1}, {6, 3}, {40, 1}, {7, 7}}) {
    const AttentionShape s = {2, heads, kv_heads, 1, 150, 9, 20};
    const auto in = random_inputs<TestType>(s, 31);
    Matrix<TestType> padding = Matrix<TestType>::Zero(1, s.kv_len);
    for (Index j = 3; j < s.kv_len; j += 5) padding(0, j) = -std::numeric_limits<TestType>::infinity();
    for (const Mask& mask : {Mask(), causal() & query_offset(77), bias(padding)}) {
      AttentionOptions options = options_for(s, mask);
      const auto together = scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options);
      options.executor = &pool;
      CHECK(same_bits(together.out, scaled_dot_product_attention(in.query, in.key, in.value, options)));
      for (Index b = 0; b < s.batch_size; ++b) {
        for (Index h = 0; h < heads; ++h) {
          const Index kv_head = h / (heads / kv_heads);
          AttentionOptions one;
          one.mask = mask;
          const auto alone = scaled_dot_product_attention_with_weights(
              in.query.block(b, h * s.head_dim, 1, s.head_dim),
              in.key.block(b * s.kv_len, kv_head * s.head_dim, s.kv_len, s.head_dim),
              in.value.block(b * s.kv_len, kv_head * s.value_dim, s.kv_len, s.value_dim), one);
          CAPTURE(heads, kv_heads, b, h);
          CHECK(same_bits(alone.out, together.out.block(b, h * s.value_dim, 1, s.value_dim)));
          CHECK(same_bits(alone.weights.head(0), together.weights.head(h, b)));
          CHECK(same_bits(alone.logsumexp, together.logsumexp.block(b, h, 1, 1)));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("where a product is written changes no bit, and it writes nothing else", "[bits]", float,
                   double) {
  constexpr Index cols = 96;
  constexpr Index stride = 128;  // whole cache lines: every row begins as far into one as the first
  for (const Index rows : {Index{3}, Index{130}}) {
    const Matrix<TestType> a = random_matrix<TestType>(rows, 40, 21);
    const Matrix<TestType> b = random_matrix<TestType>(40, cols, 22);
    const Matrix<TestType> expected = matrix_product(a, b);
    for (Index offset = 0; offset <= 17; ++offset) {
      Matrix<TestType> frame = Matrix<TestType>::Constant(rows, stride, TestType(-7));
      auto out = frame.middleCols(offset, cols);
      multiply<TestType>(view(a), view(b), mutable_view(out));
      CHECK(same_bits(expected, out));
      CHECK((frame.leftCols(offset).array() == TestType(-7)).all());
      CHECK((frame.rightCols(stride - cols - offset).array() == TestType(-7)).all());
    }
  }
}

TEMPLATE_TEST_CASE("where the right factor of a product begins changes no bit, and nothing beside it counts",
                   "[bits]", float, double) {
  constexpr Index stride = 128;  // whole cache lines, as above
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN();
  for (const auto& [depth, cols] : {std::pair<Index, Index>{40, 96}, {40, 17}, {37, 16}, {9, 33}, {3, 5}}) {
    const Matrix<TestType> b = random_matrix<TestType>(depth, cols, 23);
    for (const Index rows : {Index{1}, Index{2}, Index{3}, Index{5}, Index{70}}) {
      const Matrix<TestType> a = random_matrix<TestType>(rows, depth, 24);
      const Matrix<TestType> before = random_matrix<TestType>(rows, cols, 25);
      const Matrix<TestType> expected = matrix_product(a, b);
      Matrix<TestType> expected_sum = before;
      multiply<TestType>(view(a), {view(b), mutable_view(expected_sum), {}, true});
      for (Index offset = 0; offset <= 17; ++offset) {
        CAPTURE(depth, cols, rows, offset);
        Matrix<TestType> by_rows = Matrix<TestType>::Constant(depth, stride, nan);
        by_rows.middleCols(offset, cols) = b;
        Matrix<TestType> by_columns = Matrix<TestType>::Constant(cols, stride, nan);
        by_columns.middleCols(offset, depth) = b.transpose();
        for (const auto& own : {view(by_rows).block(0, offset, depth, cols),
                                view(by_columns).block(0, offset, cols, depth).transposed()}) {
          Matrix<TestType> frame = Matrix<TestType>::Constant(rows, stride, TestType(-7));
          auto out = frame.middleCols(offset, cols);
          multiply<TestType>(view(a), own, mutable_view(out));
          CHECK(same_bits(expected, out));
          out = before;
          multiply<TestType>(view(a), {own, mutable_view(out), {}, true});
          CHECK(same_bits(expected_sum, out));
          CHECK((frame.leftCols(offset).array() == TestType(-7)).all());
          CHECK((frame.rightCols(stride - cols - offset).array() == TestType(-7)).all());
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("a layer gives a sequence the same bits alone, in a batch and with threads",
                   "[bits][threads]", float, double) {
  Random random(5);
  const MultiHeadAttention<TestType> layer(48, 4, random);
  const Matrix<TestType> x = random_matrix<TestType>(3 * 37, 48, 6);
  ThreadPool pool(3);
  LayerOptions options;
  options.mask = causal();
  options.batch_size = 3;
  const auto together = layer.forward(x, options);
  options.executor = &pool;
  CHECK(same_bits(together, layer.forward(x, options)));
  CHECK(same_bits(together, layer.forward_with_weights(x, options).out));
  for (Index b = 0; b < 3; ++b) {
    LayerOptions one;
    one.mask = causal();
    CHECK(same_bits(together.middleRows(b * 37, 37), layer.forward(x.middleRows(b * 37, 37), one)));
    // Prefixes: what comes later changes no bit of what came before.
    CHECK(same_bits(together.middleRows(b * 37, 11), layer.forward(x.middleRows(b * 37, 11), one)));
  }
}
