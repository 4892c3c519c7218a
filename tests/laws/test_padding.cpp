// Rows that stand for nothing reach nothing: NaN, infinity and garbage in padding, in every layer's backward
// pass, in the loss and in training.

#include <algorithm>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/multi_head_attention_tape.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/padding.hpp"
#include "heed/models/gpt_trainer.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

// Two sequences of room for 7 rows, of which 4 and 6 count.
const std::vector<Index> kLengths = {4, 6};
constexpr Index kRows = 14;

bool is_padding(Index row) {
  return row % 7 >= kLengths[static_cast<std::size_t>(row / 7)];
}

/// The same matrix with something in its rows of padding.
template <class T>
Matrix<T> padded_with(Matrix<T> matrix, T garbage) {
  for (Index i = 0; i < matrix.rows(); ++i) {
    if (is_padding(i)) matrix.row(i).setConstant(garbage);
  }
  return matrix;
}

/// Where the loss does not look at padding.
template <class T>
Matrix<T> random_gradient(Index cols, std::uint64_t seed) {
  Matrix<T> grad = random_matrix<T>(kRows, cols, seed);
  clear_padding(grad, kLengths);
  return grad;
}

template <class T>
std::vector<T> garbage() {
  return {kNaN<T>, kInf<T>, -kInf<T>, std::numeric_limits<T>::max()};
}

/// All gradients of a layer, one after another.
template <class T, class Layer>
std::vector<T> numbers(const Layer& layer) {
  std::vector<T> all;
  layer.for_each_parameter([&](const std::string&, const auto& matrix) {
    for (Index i = 0; i < matrix.size(); ++i) all.push_back(matrix.data()[i]);
  });
  return all;
}

/// backward(x, gradients) has the same gradients whatever is in the padding of x, and 0 for the padding
/// itself.
template <class T, class Layer, class Backward>
void check_layer(const std::string& name, const Layer& layer, Index cols, const Backward& backward) {
  INFO(name);
  const Matrix<T> x = random_matrix<T>(kRows, cols, 1);
  Layer clean_gradients = zeros_like(layer);
  const Matrix<T> clean = backward(layer, padded_with<T>(x, T(0)), clean_gradients);
  for (const T bad : garbage<T>()) {
    CAPTURE(static_cast<double>(bad));
    Layer gradients = zeros_like(layer);
    const Matrix<T> grad_x = backward(layer, padded_with<T>(x, bad), gradients);
    CHECK(numbers<T>(gradients) == numbers<T>(clean_gradients));
    CHECK((grad_x.array() == clean.array()).all());
    CHECK(padded_with<T>(grad_x, T(0)) == grad_x);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("what stands in padding reaches no gradient of a layer", "[padding][mask][gradient]",
                   float, double, long double) {
  using T = TestType;
  Random random(3);
  const Matrix<T> grad = random_gradient<T>(9, 2);
  check_layer<T>(
      "linear", Linear<T>(5, 9, random), 5,
      [&](const auto& layer, const Matrix<T>& x, auto& grads) { return layer.backward(x, grad, grads); });
  for (const bool centered : {true, false}) {
    check_layer<T>(
        centered ? "layer_norm" : "rms_norm", Norm<T>(9, centered, {centered, 1e-5}), 9,
        [&](const auto& layer, const Matrix<T>& x, auto& grads) { return layer.backward(x, grad, grads); });
  }
  for (const Activation kind :
       {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu}) {
    for (const bool is_gated : {false, true}) {
      CAPTURE(static_cast<int>(kind), is_gated);
      check_layer<T>("feed-forward", FeedForward<T>(9, 21, random, {kind, is_gated}), 9,
                     [&](const auto& layer, const Matrix<T>& x, auto& grads) {
                       typename FeedForward<T>::Tape tape;
                       layer.forward(x, tape);
                       return layer.backward(x, tape, grad, grads);
                     });
    }
  }
}

TEMPLATE_TEST_CASE("what stands in padding reaches no gradient of attention, its own or its keys'",
                   "[padding][mask][rotary][gradient]", float, double, long double) {
  using T = TestType;
  Random random(4);
  const Index d = 12;
  const MultiHeadAttentionConfig sizes{.d_model = d, .num_heads = 4, .num_kv_heads = 2, .bias = true};
  const Matrix<T> grad = random_gradient<T>(d, 5);
  Matrix<T> added = random_matrix<T>(7, 7, 6);
  for (const bool is_causal : {false, true}) {
    for (const bool with_more : {false, true}) {
      LayerOptions options;
      options.batch_size = 2;
      options.mask = kv_lengths(kLengths);
      if (is_causal) options.mask = options.mask & causal();
      if (with_more) {
        options.mask = options.mask & bias(added);
        options.score = {.softcap = 3.0, .sinks = {0.5, -1, 0, 1}, .rotary = Rotary(2, 16)};
      }
      CAPTURE(is_causal, with_more);
      Matrix<T> clean_sinks;
      Matrix<T> clean_bias;
      const MultiHeadAttention<T> attention(sizes, random);
      check_layer<T>("self-attention", attention, d, [&](const auto& layer, const Matrix<T>& x, auto& grads) {
        MultiHeadAttentionTape<T> tape(layer, kRows, options);
        tape.forward(layer, x);
        const Matrix<T> grad_x = tape.backward(layer, x, grad, grads);
        if (with_more) {
          if (clean_sinks.size() == 0) {
            clean_sinks = tape.grad_sinks();
            clean_bias = tape.grad_biases()[0];
          }
          CHECK(tape.grad_sinks() == clean_sinks);
          CHECK(tape.grad_biases()[0] == clean_bias);
        }
        return grad_x;
      });
    }
  }
  // In cross-attention all queries count, and the padding is among the keys.
  LayerOptions options;
  options.batch_size = 2;
  options.mask = kv_lengths(kLengths);
  const Matrix<T> x = random_matrix<T>(4, d, 7);
  const Matrix<T> grad_out = random_matrix<T>(4, d, 8);
  const MultiHeadAttention<T> attention(sizes, random);
  check_layer<T>("cross-attention", attention, d,
                 [&](const auto& layer, const Matrix<T>& context, auto& grads) {
                   MultiHeadAttentionTape<T> tape(layer, 4, options, kRows);
                   tape.forward(layer, x, context, context);
                   tape.backward(layer, x, context, context, grad_out, grads);
                   return Matrix<T>(tape.grad_key_input() + tape.grad_value_input());
                 });
}

TEMPLATE_TEST_CASE("a NaN that something depends on is not taken for padding", "[padding][mask][nan]", float,
                   double, long double) {
  using T = TestType;
  Random random(5);
  Matrix<T> grad = Matrix<T>::Zero(kRows, 9);
  grad(6, 8) = static_cast<T>(1e-30);  // one element of one row of padding is enough
  Matrix<T> x = random_matrix<T>(kRows, 9, 6);
  x(6, 1) = kNaN<T>;
  const Linear<T> linear(9, 9, random);
  Linear<T> linear_gradients = zeros_like(linear);
  linear.backward(x, grad, linear_gradients);
  CHECK(std::isnan(linear_gradients.w(1, 8)));
  const Norm<T> norm = layer_norm<T>(9);
  Norm<T> norm_gradients = zeros_like(norm);
  CHECK(norm.backward(x, grad, norm_gradients).row(6).array().isNaN().all());
  CHECK(norm_gradients.weight.array().isNaN().all());
  CHECK(std::isnan(activate_backward(Activation::gelu, x, grad)(6, 1)));
  CHECK(std::isnan(gated_backward(Activation::silu, x, x, grad).up(6, 1)));

  const MultiHeadAttention<T> attention(9, 3, random);
  MultiHeadAttention<T> gradients = zeros_like(attention);
  MultiHeadAttentionTape<T> tape(attention, kRows, {.mask = kv_lengths(kLengths), .batch_size = 2});
  tape.forward(attention, x);
  tape.backward(attention, x, grad, gradients);
  CHECK(gradients.w_o.col(8).array().isNaN().all());
  CHECK(gradients.w_q.array().isNaN().all());
}

TEMPLATE_TEST_CASE("rows of a text that no target asks about reach no step of its training", "[padding]",
                   float, double) {
  using T = TestType;
  for (const bool is_gated : {false, true}) {
    GptConfig config{.vocab_size = 10, .context = 8, .num_layers = 2, .num_heads = 2, .d_model = 16};
    config.tied = false;
    config.gated = is_gated;
    config.bias = true;
    Random random(8);
    Gpt<T> model(config, random);
    // Token 9 ends both sequences, and nobody is asked what comes after it.
    std::vector<TokenId> inputs = {1, 2, 3, 4, 9, 5, 6, 7, 8, 9};
    std::vector<TokenId> targets = {2, 3, 4, 5, kIgnoredTarget, 6, 7, 8, 1, kIgnoredTarget};
    const auto step = [&](T held) {
      Gpt<T> own = model;
      own.tokens.table.row(9).setConstant(held);
      GptTrainer<T> trainer(own, {.batch_size = 2, .seq_len = 5});
      const double loss = trainer.loss_and_gradients(inputs, targets);
      CHECK(std::isfinite(loss));
      return numbers<T>(trainer.gradients());
    };
    const std::vector<T> clean = step(T(0));
    CHECK(std::all_of(clean.begin(), clean.end(), [](T g) { return std::isfinite(g); }));
    for (const T bad : garbage<T>()) CHECK(step(bad) == clean);
  }
}

TEMPLATE_TEST_CASE("padding is cleared where lengths say so, and lengths that fit no rows are named",
                   "[padding][mask][errors]", float, long double) {
  using T = TestType;
  Matrix<T> rows = Matrix<T>::Ones(6, 2);
  rows(2, 0) = kNaN<T>;
  clear_padding(rows, std::vector<Index>{2, 3});
  CHECK(rows.row(2).isZero(0));
  CHECK(rows.sum() == 10);
  clear_padding(rows, std::vector<Index>{0, 3});
  CHECK(rows.topRows(3).isZero(0));
  Matrix<T> none(0, 2);
  clear_padding(none, std::vector<Index>{});
  CHECK(message_of<ShapeError>([&] {
          clear_padding(rows, std::vector<Index>{1, 1, 1, 1});
        }) == "matrix has 6 rows, which 4 lengths cannot share equally");
  CHECK(message_of<ShapeError>([&] { clear_padding(rows, std::vector<Index>{}); }) ==
        "matrix has 6 rows, which 0 lengths cannot share equally");
  CHECK(message_of<ArgumentError>([&] {
          clear_padding(rows, std::vector<Index>{3, 4});
        }) == "lengths[1] is 4, it must be at least 0 and at most 3, the rows of each sequence");
  CHECK(message_of<ArgumentError>([&] {
          clear_padding(rows, std::vector<Index>{-1, 3});
        }) == "lengths[0] is -1, it must be at least 0 and at most 3, the rows of each sequence");
  CHECK(rows.sum() == 6);
}
