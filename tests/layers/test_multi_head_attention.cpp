// A layer of multi-head attention: its weights and heads as column blocks, what it refuses, and its input
// left as it was.

#include "catch.hpp"
#include "heed/inspect/verify.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

}  // namespace

TEST_CASE("weights are per head, sum to one, are zero where masked, and give the head's output",
          "[multi_head][mask][heads][weights]") {
  Random random(3);
  const MultiHeadAttention<double> layer(12, 3, random);
  const Matrix<double> x = random_matrix<double>(20, 12, 4);
  LayerOptions options;
  options.mask = causal();
  const auto result = layer.forward_with_weights(x, options);
  CHECK(same_bits(result.out, layer.forward(x, options)));
  CHECK(same_bits(result.out, layer.forward(x, options)));
  const Matrix<double> value = matrix_product(x, layer.w_v);
  for (Index h = 0; h < 3; ++h) {
    const Matrix<double> weights = result.weights.head(h);
    CHECK(weights.rows() == 20);
    CHECK(rows_sum_to_one(weights).passed);
    for (Index i = 0; i < 20; ++i) {
      for (Index j = 0; j < 20; ++j) CHECK((weights(i, j) == 0) == (j > i));
    }
    CHECK((weights * value.middleCols(4 * h, 4) - result.heads.middleCols(4 * h, 4)).cwiseAbs().maxCoeff() <
          1e-14);
  }
  CHECK(contains(message_of<RangeError>([&] { (void)result.weights.head(3); }), "there are 3 heads"));
  CHECK(contains(message_of<RangeError>([&] { (void)result.weights.head(0, 1); }), "1 sequences"));
}

TEST_CASE("heads are cut and joined as column blocks", "[multi_head][heads]") {
  Matrix<double> x(2, 4);
  x << 1, 2, 3, 4, 5, 6, 7, 8;
  const Matrix<double> zero = Matrix<double>::Zero(4, 4);
  const Matrix<double> one = Matrix<double>::Identity(4, 4);
  Matrix<double> means(2, 4);
  means << 3, 4, 5, 6, 3, 4, 5, 6;
  const auto causal_out = multi_head_attention(x, zero, zero, one, one, 2, causal());
  CHECK(same_bits(causal_out.row(0), x.row(0)));
  CHECK(same_bits(causal_out.row(1), means.row(1)));
  CHECK(same_bits(multi_head_attention(x, zero, zero, one, one, 2), means));

  // A layer of two heads is two layers of one head on the two halves.
  Random random(6);
  const MultiHeadAttention<double> layer(8, 2, random);
  const Matrix<double> y = random_matrix<double>(5, 8, 7);
  const Matrix<double> both = layer.forward(y);
  Matrix<double> halves = Matrix<double>::Zero(5, 8);
  for (Index h = 0; h < 2; ++h) {
    const auto part = [&](const Matrix<double>& w) { return Matrix<double>(w.middleCols(4 * h, 4)); };
    const Matrix<double> w_o = layer.w_o.middleRows(4 * h, 4);
    halves += multi_head_attention(y, part(layer.w_q), part(layer.w_k), part(layer.w_v), w_o, 1);
  }
  CHECK((both - halves).cwiseAbs().maxCoeff() < 1e-14);
}

TEST_CASE("a layer refuses weights and inputs that do not fit, and says which", "[multi_head][errors]") {
  Random random(8);
  MultiHeadAttention<float> layer(8, 2, random);
  const Matrix<float> x = random_matrix<float>(4, 8, 9);
  CHECK(message_of<ShapeError>([&] { (void)layer.forward(Matrix<float>(random_matrix<float>(4, 7, 1))); }) ==
        "x is 4 x 7, w_q is 8 x 8: as many columns as rows are needed");
  CHECK(contains(message_of<ShapeError>([&] { MultiHeadAttention<float>(10, 3, random); }), "d_model is 10"));
  CHECK(contains(message_of<ShapeError>([&] { MultiHeadAttention<float>(0, 1, random); }), "d_model is 0"));
  CHECK(contains(message_of<ShapeError>(
                     [&] { (void)multi_head_attention(x, layer.w_q, layer.w_k, layer.w_v, layer.w_o, 3); }),
                 "d_model 8 is not a positive multiple of num_heads 3"));
  CHECK(contains(message_of<ShapeError>(
                     [&] { (void)multi_head_attention(x, layer.w_q, layer.w_k, layer.w_v, layer.w_o, 0); }),
                 "num_heads is 0"));
  LayerOptions options;
  options.batch_size = 3;
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.forward(x, options); }), "x has 4 rows"));
  layer.w_o.resize(7, 8);
  CHECK(contains(message_of<ShapeError>([&] { (void)layer.forward(x); }), "w_v is 8 x 8, w_o is 7 x 8"));
}

TEST_CASE("a layer's input is left as it was, and a sequence of length zero is one", "[multi_head]") {
  Random random(9);
  const MultiHeadAttention<float> layer(8, 2, random);
  const Matrix<float> x = random_matrix<float>(4, 8, 9);
  const Matrix<float> before = x;
  const auto a = layer.forward(x);
  CHECK(same_bits(before, x));
  CHECK(same_bits(a, layer.forward(x)));
  CHECK(layer.forward(Matrix<float>(0, 8)).rows() == 0);
  CHECK(layer.forward(Matrix<float>(0, 8)).cols() == 8);
  LayerOptions options;
  options.batch_size = 0;
  CHECK(layer.forward(Matrix<float>(0, 8), options).rows() == 0);
}
