// Every public template with another scalar than float and double: long double, and one that carries
// derivatives, which then agree with the backward passes. What is refused is in refusals.cpp.

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "heed/attention/backward.hpp"
#include "heed/attention/flex_attention.hpp"
#include "heed/attention/merge_attention.hpp"
#include "heed/layers/activation.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/matrix_product.hpp"
#include "heed/layers/multi_head_attention_tape.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/padding.hpp"
#include "heed/layers/positions.hpp"
#include "helpers.hpp"

#if __has_include(<unsupported/Eigen/AutoDiff>)
#include <unsupported/Eigen/AutoDiff>
#define HEED_HAS_AUTO_DIFF
#endif

namespace {

using namespace heed;
using namespace heed::test;

/// All that takes any scalar, once: it compiles, and gives numbers.
template <class S>
Matrix<S> walk() {
  Random random(1);
  const Matrix<S> x = random_matrix<double>(4, 8, 2).template cast<S>();
  Matrix<S> sum = Matrix<S>::Zero(4, 8);
  const Linear<S> linear(8, 8, random);
  Linear<S> linear_gradients = zeros_like(linear);
  sum += linear.forward(x) + linear.backward(x, x, linear_gradients);
  for (const bool centered : {true, false}) {
    const Norm<S> norm(8, centered, {centered, 1e-5});
    Norm<S> gradients = zeros_like(norm);
    sum += norm.forward(x) + norm.backward(x, x, gradients);
  }
  for (const bool is_gated : {true, false}) {
    FeedForward<S> layer(8, 8, random, {Activation::gelu, is_gated});
    FeedForward<S> gradients = zeros_like(layer);
    typename FeedForward<S>::Tape tape;
    sum += layer.forward(x, tape);
    sum += layer.backward(x, tape, x, gradients);
    CHECK(parameters(layer, gradients).size() == (is_gated ? 6 : 4));
  }
  const TokenEmbedding<S> embedding(4, 8, random);
  TokenEmbedding<S> embedding_gradients = zeros_like(embedding);
  const std::vector<TokenId> ids = {1, 2, 3, 0};
  sum += add_positions(embedding.forward(ids), SinusoidalPositions<S>(4, 8));
  embedding.backward(ids, x, embedding_gradients);
  const MultiHeadAttention<S> attention(8, 2, random);
  MultiHeadAttention<S> attention_gradients = zeros_like(attention);
  MultiHeadAttentionTape<S> tape(attention, 4, {.mask = causal()});
  sum += tape.forward(attention, x);
  sum += tape.backward(attention, x, x, attention_gradients);
  sum += attention.forward_with_weights(x).out;
  const Matrix<S> mask = causal_mask<S>(4);
  sum += attention.forward(x, {.mask = additive_mask(mask)});
  AttentionOptions options;
  options.num_heads = 2;
  options.mask = causal();
  auto first = scaled_dot_product_attention_with_logsumexp(x, x, x, options);
  const auto gradients = scaled_dot_product_attention_backward(x, x, x, first, x, options);
  sum += gradients.query + gradients.key + gradients.value;
  merge_attention(first, AttentionResult<S>(first));
  sum += first.out;
  sum += flex_attention(x, x, x, [](S score, Index, Index, Index, Index) { return score; });
  Matrix<S> cleared = x;
  clear_padding(cleared, std::vector<Index>{1, 2});
  sum += matrix_product(cleared, matrix_product(Matrix<S>(x.transpose()), x));
  return sum;
}

}  // namespace

TEST_CASE("every layer works in long double, as in double", "[scalars]") {
  const Matrix<double> in_double = walk<double>();
  const Matrix<double> in_long_double = walk<long double>().cast<double>();
  CHECK((in_double - in_long_double).cwiseAbs().maxCoeff() <= 1e-12);
  CHECK(std::isfinite(static_cast<double>(
      cross_entropy(Matrix<long double>(Matrix<long double>::Ones(1, 3)), std::vector<TokenId>{1}))));
}

#ifdef HEED_HAS_AUTO_DIFF

namespace {

using Derivative = Eigen::Matrix<double, 1, 1>;
using Dual = Eigen::AutoDiffScalar<Derivative>;

Matrix<double> values_of(const Matrix<Dual>& x) {
  return x.unaryExpr([](const Dual& d) { return d.value(); });
}

}  // namespace

TEST_CASE("every layer works with a scalar that carries derivatives, as in double", "[scalars][gradient]") {
  CHECK((walk<double>() - values_of(walk<Dual>())).cwiseAbs().maxCoeff() <= 1e-12);
}

TEST_CASE("derivatives carried through activations and norms are those of their backward passes",
          "[scalars][gradient]") {
  // One number runs through the parts of GELU (series and fraction), its neighbors stand still.
  for (const double at : {-9.0, -3.0, -1.99, -0.4, 0.3, 1.99, 2.5, 7.0}) {
    Matrix<double> x(1, 4);
    x << at, 0.7, -1.1, 0.2;
    Matrix<Dual> moving = x.cast<Dual>();
    moving(0, 0).derivatives()(0) = 1;
    const Matrix<double> ones = Matrix<double>::Ones(1, 4);
    for (const Activation kind :
         {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu}) {
      CAPTURE(at, static_cast<int>(kind));
      const Dual y = activate(kind, moving)(0, 0);
      CHECK(std::abs(y.value() - activate(kind, x)(0, 0)) <= 1e-14 * (1 + std::abs(at)));
      CHECK(std::abs(y.derivatives()(0) - activate_backward(kind, x, ones)(0, 0)) <= 1e-13);
    }
    for (const double scale : {1.0, 1e200}) {
      const Norm<double> norm = layer_norm<double>(4);
      Norm<double> gradients = zeros_like(norm);
      Matrix<double> weights(1, 4);
      weights << 1, -2, 0.5, 3;
      const Matrix<double> grad = norm.backward(Matrix<double>(x * scale), weights, gradients);
      Matrix<Dual> scaled = (x * scale).cast<Dual>();
      scaled(0, 0).derivatives()(0) = 1;
      const Matrix<Dual> out = layer_norm<Dual>(4).forward(scaled);
      double derivative = 0;
      for (Index j = 0; j < 4; ++j) derivative += weights(0, j) * out(0, j).derivatives()(0);
      CAPTURE(at, scale);
      CHECK(std::abs(derivative - grad(0, 0)) <= 1e-12 / scale);
    }
  }
}

#endif
