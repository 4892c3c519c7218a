// The laws of every layer: gradients as differences have them, as exact as the loops, results that belong to
// the input they are handed, the same bits on any threads, names of weights, and sizes refused before
// anything is written.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/core/token.hpp"
#include "heed/layers/activation.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/linear.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/parameters.hpp"
#include "helpers.hpp"
#include "layer_laws.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// call(gradients) throws a ShapeError with `text` in it, and has written nothing.
template <template <class> class Layer, class T, class Call>
void check_refused(const Layer<T>& like, const std::string& text, const Call& call) {
  Layer<T> gradients = like;
  gradients.for_each_parameter([](const std::string&, auto& m) { m.setConstant(T(7)); });
  const std::string message = message_of<ShapeError>([&] { call(gradients); });
  CAPTURE(message, text);
  CHECK(contains(message, text));
  gradients.for_each_parameter([](const std::string& name, const auto& m) {
    CAPTURE(name);
    CHECK((m.array() == T(7)).all());
  });
}

}  // namespace

TEMPLATE_TEST_CASE("gradients of a linear layer are those of differences", "[layers][gradient][linear]",
                   double, long double) {
  using T = TestType;
  for (const bool bias : {true, false}) {
    check_plain_layer(Linear<T>(5, 3, drawing(), bias), random_matrix<T>(4, 5, 1));
    check_plain_layer(Linear<T>(1, 19, drawing(), bias), random_matrix<T>(1, 1, 1));
  }
}

TEMPLATE_TEST_CASE("gradients of a feed-forward layer are those of differences",
                   "[layers][gradient][feed_forward]", double, long double) {
  using T = TestType;
  for (const Activation activation : kActivations) {
    for (const bool gated : {false, true}) {
      for (const bool bias : {false, true}) {
        CAPTURE(activation, gated, bias);
        FeedForward<T> layer(3, 5, drawing(), {activation, gated, bias});
        draw_weights(layer, 11);
        const Matrix<T> x = random_matrix<T>(4, 3, 6);
        typename FeedForward<T>::Tape tape;
        (void)layer.forward(x, tape);
        // A step across the corner of ReLU would measure neither side.
        const Matrix<T>& bent = gated ? tape.gate : tape.up;
        REQUIRE(bent.cwiseAbs().minCoeff() > 0x1p-12);
        check_layer(
            layer, x, [&](const Matrix<T>& at) { return layer.forward(at); },
            [&](const Matrix<T>& at, const Matrix<T>& grad_out, FeedForward<T>& gradients) {
              typename FeedForward<T>::Tape own;
              (void)layer.forward(at, own);
              return layer.backward(at, own, grad_out, gradients);
            });
      }
    }
  }
}

TEMPLATE_TEST_CASE("layers are as exact as their loops in long double", "[layers]", float, double) {
  using T = TestType;
  // Sums of 130 products: the largest of all instruction sets is 4.9.
  const auto close = [](const MatrixView<const T>& x, const MatrixView<const Exact>& exact) {
    Exact largest = 0;
    Exact error = 0;
    for (Index i = 0; i < exact.rows; ++i) {
      for (Index j = 0; j < exact.cols; ++j) {
        largest = std::max(largest, std::abs(exact(i, j)));
        error = std::max(error, std::abs(x(i, j) - exact(i, j)));
      }
    }
    return error <= 5.5 * std::numeric_limits<T>::epsilon() * largest;
  };
  for (const bool gated : {false, true}) {
    FeedForward<T> layer(70, 130, drawing(), {Activation::gelu_tanh, gated, true});
    draw_weights(layer, 20);
    FeedForward<Exact> exact(70, 130, drawing(), {Activation::gelu_tanh, gated, true});
    const std::vector<Parameter<T>> weights = parameters(layer);
    const std::vector<Parameter<Exact>> exact_weights = parameters(exact);
    REQUIRE(weights.size() == exact_weights.size());
    for (std::size_t n = 0; n < weights.size(); ++n) {
      const auto& to = exact_weights[n].value;
      for (Index i = 0; i < to.rows; ++i) {
        for (Index j = 0; j < to.cols; ++j) to(i, j) = weights[n].value(i, j);
      }
    }
    const Matrix<T> x = random_matrix<T>(9, 70, 21);
    const Matrix<T> grad_out = random_matrix<T>(9, 70, 22);
    const Matrix<Exact> exact_x = x.template cast<Exact>();
    const Matrix<Exact> exact_grad_out = grad_out.template cast<Exact>();
    typename FeedForward<T>::Tape tape;
    FeedForward<Exact>::Tape exact_tape;
    const Matrix<T> out = layer.forward(x, tape);
    const Matrix<Exact> exact_out = exact.forward(exact_x, exact_tape);
    CHECK(close(view(out), view(exact_out)));
    FeedForward<T> gradients = zeros_like(layer);
    FeedForward<Exact> exact_gradients = zeros_like(exact);
    const Matrix<T> grad_x = layer.backward(x, tape, grad_out, gradients);
    const Matrix<Exact> exact_grad_x = exact.backward(exact_x, exact_tape, exact_grad_out, exact_gradients);
    CHECK(close(view(grad_x), view(exact_grad_x)));
    const std::vector<Parameter<T>> grads = parameters(gradients);
    const std::vector<Parameter<Exact>> exact_grads = parameters(exact_gradients);
    for (std::size_t n = 0; n < grads.size(); ++n) {
      CAPTURE(grads[n].name);
      CHECK(close(grads[n].value, exact_grads[n].value));
    }
  }
}

TEMPLATE_TEST_CASE("a forward pass leaves its input, and a backward pass belongs to the input it is handed",
                   "[layers][gradient]", float, double, long double) {
  using T = TestType;
  const Matrix<T> a = random_matrix<T>(6, 8, 1);
  const Matrix<T> b = random_matrix<T>(3, 8, 2);
  const Matrix<T> a_before = a;
  const Matrix<T> grad_a = random_matrix<T>(6, 8, 3);
  const auto same = [](const auto& x, const auto& y) { return x == y; };
  const auto same_weights = [](auto& x, auto& y) {
    const auto ours = parameters(x);
    const auto others = parameters(y);
    bool all = ours.size() == others.size();
    for (std::size_t n = 0; all && n < ours.size(); ++n) {
      for (Index i = 0; i < ours[n].value.rows; ++i) {
        for (Index j = 0; j < ours[n].value.cols; ++j)
          all = all && ours[n].value(i, j) == others[n].value(i, j);
      }
    }
    return all;
  };
  const auto check = [&](auto layer) {
    draw_weights(layer, 4);
    const auto layer_before = layer;
    auto alone = zeros_like(layer);
    auto after_another = zeros_like(layer);
    const Matrix<T> grad = layer.backward(a, grad_a, alone);
    (void)layer.forward(a);
    const Matrix<T> out_b = layer.forward(b);
    CHECK(same(layer.backward(a, grad_a, after_another), grad));
    CHECK(same_weights(alone, after_another));
    auto unchanged = layer_before;
    CHECK(same_weights(layer, unchanged));
    // A result may take the place of its input.
    Matrix<T> x = b;
    x = layer.forward(x);
    CHECK(same(x, out_b));
  };
  check(Linear<T>(8, 8, drawing()));
  check(layer_norm<T>(8));
  check(rms_norm<T>(8));
  for (const bool gated : {false, true}) {
    FeedForward<T> layer(8, 12, drawing(), {Activation::silu, gated, true});
    typename FeedForward<T>::Tape tape_a;
    typename FeedForward<T>::Tape tape_b;
    FeedForward<T> alone = zeros_like(layer);
    FeedForward<T> after_another = zeros_like(layer);
    const Matrix<T> out_a = layer.forward(a, tape_a);
    CHECK(same(out_a, layer.forward(a)));
    const Matrix<T> grad = layer.backward(a, tape_a, grad_a, alone);
    const Matrix<T> out_b = layer.forward(b, tape_b);
    CHECK(same(layer.backward(a, tape_a, grad_a, after_another), grad));
    CHECK(same_weights(alone, after_another));
    // A tape serves again, for other sizes too.
    CHECK(same(layer.forward(b, tape_a), out_b));
    CHECK(same(tape_a.hidden, tape_b.hidden));
    CHECK(contains(message_of<ShapeError>([&] { (void)layer.backward(a, tape_a, grad_a, after_another); }),
                   "tape.up is 3 x 12, x needs 6 x 12"));
  }
  CHECK(same(a, a_before));
}

TEMPLATE_TEST_CASE("layers have the same bits on any threads, and a row alone has those it has among others",
                   "[layers][threads][bits]", float, double) {
  using T = TestType;
  const Matrix<T> x = random_matrix<T>(200, 96, 1);
  const Matrix<T> grad_out = random_matrix<T>(200, 96, 2);
  for (const bool gated : {false, true}) {
    FeedForward<T> layer(96, 200, drawing(), {Activation::gelu, gated, true});
    draw_weights(layer, 3);
    typename FeedForward<T>::Tape tape;
    FeedForward<T> gradients = zeros_like(layer);
    const Matrix<T> out = layer.forward(x, tape);
    const Matrix<T> grad_x = layer.backward(x, tape, grad_out, gradients);
    const std::vector<Parameter<T>> grads = parameters(gradients);
    for (const Index threads : {1, 4}) {
      typename FeedForward<T>::Tape other_tape;
      FeedForward<T> other = zeros_like(layer);
      CHECK(same_bits(layer.forward(x, other_tape, &pool_of(threads)), out));
      CHECK(same_bits(layer.backward(x, other_tape, grad_out, other, &pool_of(threads)), grad_x));
      const std::vector<Parameter<T>> other_grads = parameters(other);
      for (std::size_t n = 0; n < grads.size(); ++n) {
        CHECK(std::memcmp(grads[n].value.data, other_grads[n].value.data,
                          sizeof(T) * static_cast<std::size_t>(grads[n].value.rows * grads[n].value.cols)) ==
              0);
      }
    }
    const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> by_columns = x;
    CHECK(same_bits(layer.forward(by_columns), out));
    typename FeedForward<T>::Tape row_tape;
    CHECK(same_bits(layer.forward(x.row(117), row_tape), out.row(117)));
    FeedForward<T> other = zeros_like(layer);
    CHECK(same_bits(layer.backward(x.row(117), row_tape, grad_out.row(117), other), grad_x.row(117)));
  }
}

TEST_CASE("layers have their weights' names, in their order", "[layers]") {
  const auto names = [](auto layer, const std::string& prefix) {
    std::string all;
    layer.for_each_parameter([&](const std::string& name, const auto&) { all += name + " "; }, prefix);
    const auto& constant = layer;
    std::string again;
    constant.for_each_parameter([&](const std::string& name, const auto&) { again += name + " "; }, prefix);
    CHECK(all == again);
    return all;
  };
  Random random(1);
  CHECK(names(Linear<float>(2, 3, random), "") == "w b ");
  CHECK(names(Linear<float>(2, 3, random, false), "out.") == "out.w ");
  CHECK(names(layer_norm<double>(4), "norm1.") == "norm1.weight norm1.bias ");
  CHECK(names(rms_norm<double>(4), "") == "weight ");
  CHECK(names(TokenEmbedding<float>(5, 2, random), "tokens.") == "tokens.table ");
  CHECK(names(FeedForward<float>(2, 3, random), "ff.") == "ff.up.w ff.up.b ff.down.w ff.down.b ");
  CHECK(names(FeedForward<float>(2, 3, random, {Activation::silu, true, false}), "") ==
        "up.w gate.w down.w ");

  FeedForward<float> layer(2, 3, random);
  FeedForward<float> gradients = zeros_like(layer);
  const auto list = parameters(layer, gradients);
  REQUIRE(list.size() == 4);
  CHECK(num_parameters(layer) == 2 * 3 + 3 + 3 * 2 + 2);
  CHECK(list[0].decays);
  CHECK_FALSE(list[1].decays);
  CHECK(list[2].value.data == layer.down.w.data());
  CHECK(list[2].grad.data == gradients.down.w.data());
  CHECK(parameters(layer)[2].value.data == layer.down.w.data());
  CHECK(parameters(layer)[2].grad.data == nullptr);
  set_zero(layer);
  CHECK(layer.up.w.isZero(0));
  Norm<float> norm = layer_norm<float>(4);
  CHECK_FALSE(parameters(norm)[0].decays);
}

TEST_CASE("gradients of another model are refused", "[layers][gradient][errors]") {
  Random random(1);
  const auto message = [](auto layer, auto gradients) {
    return message_of<ShapeError>([&] { (void)parameters(layer, gradients); });
  };
  const Linear<float> layer(2, 3, random);
  CHECK(message(layer, layer) == "nothing");
  CHECK(message(layer, Linear<float>(3, 2, random)) == "the gradient w (3 x 2) belongs to no weight");
  CHECK(message(layer, Linear<float>(2, 3, random, false)) == "the weight b has no gradient");
  CHECK(message(Linear<float>(2, 3, random, false), layer) == "the gradient b (1 x 3) belongs to no weight");
  CHECK(
      message(FeedForward<float>(2, 3, random), FeedForward<float>(2, 3, random, {Activation::relu, true})) ==
      "the gradient gate.w (2 x 3) belongs to no weight");
  CHECK(message(layer_norm<float>(4), rms_norm<float>(4)) == "the weight bias has no gradient");
}

TEMPLATE_TEST_CASE("sizes that do not fit a layer are named before anything is written", "[layers][errors]",
                   float, long double) {
  using T = TestType;
  Random random(1);
  const Matrix<T> x = random_matrix<T>(4, 3, 1);
  const Matrix<T> wide = random_matrix<T>(4, 6, 2);
  const Matrix<T> few = random_matrix<T>(2, 5, 3);
  const Matrix<T> grad_out = random_matrix<T>(4, 5, 4);

  const Linear<T> linear(3, 5, random);
  const auto backward = [](const auto& layer, const Matrix<T>& at, const Matrix<T>& grad) {
    return [&](auto& gradients) { (void)layer.backward(at, grad, gradients); };
  };
  CHECK(message_of<ShapeError>([&] { (void)linear.forward(wide); }) ==
        "x is 4 x 6, w is 3 x 5: as many columns as rows are needed");
  check_refused(linear, "x is 4 x 6, w is 3 x 5", backward(linear, wide, grad_out));
  check_refused(linear, "grad_out is 4 x 6, a layer of 5 columns on 4 rows needs 4 x 5",
                backward(linear, x, wide));
  check_refused(linear, "grad_out is 2 x 5", backward(linear, x, few));
  check_refused(Linear<T>(3, 6, random), "gradients.w is 3 x 6, w needs 3 x 5",
                backward(linear, x, grad_out));
  check_refused(Linear<T>(3, 5, random, false), "gradients.b is 1 x 0, b needs 1 x 5",
                backward(linear, x, grad_out));
  Linear<T> uneven = linear;
  uneven.b.setZero(4);
  CHECK(message_of<ShapeError>([&] { (void)uneven.forward(x); }) == "b is 1 x 4, w is 3 x 5");
  CHECK(contains(message_of<ShapeError>([&] { Linear<T>(0, 3, random); }), "in is 0, out is 3"));
  CHECK(contains(message_of<ShapeError>([&] { Linear<T>(3, -1, random); }), "in is 3, out is -1"));

  const Norm<T> norm = layer_norm<T>(3);
  CHECK(message_of<ShapeError>([&] { (void)norm.forward(wide); }) ==
        "x is 4 x 6, weight is 1 x 3, bias is 1 x 3: as many columns are needed");
  check_refused(norm, "x is 4 x 6, weight is 1 x 3", backward(norm, wide, wide));
  check_refused(norm, "grad_out is 4 x 6, x needs 4 x 3", backward(norm, x, wide));
  check_refused(layer_norm<T>(4), "gradients.weight is 1 x 4, weight needs 1 x 3", backward(norm, x, x));
  check_refused(rms_norm<T>(3), "gradients.bias is 1 x 0, bias needs 1 x 3", backward(norm, x, x));
  CHECK(message_of<ShapeError>([] { layer_norm<T>(0); }) == "a norm of 0 columns, it needs at least 1");
  for (const double epsilon : {0.0, -1e-5, kNaN<double>, kInf<double>})
    CHECK(contains(message_of<ArgumentError>([&] { rms_norm<T>(3, epsilon); }), "epsilon"));

  for (const bool gated : {false, true}) {
    CAPTURE(gated);
    const FeedForwardOptions options{Activation::gelu, gated, true};
    const FeedForward<T> layer(3, 5, random, options);
    typename FeedForward<T>::Tape tape;
    (void)layer.forward(x, tape);
    const auto refused = [&](const FeedForward<T>& like, const std::string& text, const Matrix<T>& at,
                             const typename FeedForward<T>::Tape& with, const Matrix<T>& grad) {
      check_refused(like, text, [&](auto& gradients) { (void)layer.backward(at, with, grad, gradients); });
    };
    CHECK(contains(message_of<ShapeError>([&] { (void)layer.forward(wide); }), "x is 4 x 6, w is 3 x 5"));
    refused(layer, "x is 4 x 6, w is 3 x 5", wide, tape, x);
    refused(layer, "grad_out is 4 x 6, a layer of 3 columns on 4 rows needs 4 x 3", x, tape, wide);
    refused(layer, "grad_out is 2 x 5", x, tape, few);
    refused(layer, "tape.up is 4 x 5, x needs 2 x 5", x.topRows(2), tape, x.topRows(2));
    auto other = tape;
    other.hidden.resize(4, 6);
    refused(layer, "tape.hidden is 4 x 6, x needs 4 x 5", x, other, x);
    other = tape;
    other.gate.resize(3, 5);
    if (gated) refused(layer, "tape.gate is 3 x 5, x needs 4 x 5", x, other, x);
    other.up.resize(0, 0);
    refused(layer, "tape.up is 0 x 0, x needs 4 x 5", x, other, x);
    FeedForward<T> gradients = layer;
    gradients.up = Linear<T>(3, 6, random);
    refused(gradients, "gradients.up.w is 3 x 6, w needs 3 x 5", x, tape, x);
    gradients = layer;
    gradients.up.b.resize(0);
    refused(gradients, "gradients.up.b is 1 x 0, b needs 1 x 5", x, tape, x);
    gradients = layer;
    gradients.down = Linear<T>(5, 4, random);
    refused(gradients, "gradients.down.w is 5 x 4, w needs 5 x 3", x, tape, x);
    if (gated) {
      gradients = layer;
      gradients.gate->w.resize(2, 5);
      refused(gradients, "gradients.gate.w is 2 x 5, w needs 3 x 5", x, tape, x);
    }
    refused(FeedForward<T>(3, 5, random, {Activation::gelu, !gated, true}), "one of both is gated", x, tape,
            x);
    CHECK(contains(message_of<ShapeError>([&] { FeedForward<T>(3, 0, random, options); }), "out is 0"));
  }

  const TokenEmbedding<T> embedding(6, 5, random);
  const auto scatter = [&](std::vector<TokenId> ids, const Matrix<T>& grad) {
    return [&embedding, &grad, ids](auto& gradients) { embedding.backward(ids, grad, gradients); };
  };
  check_refused(embedding, "grad_out is 4 x 5", scatter({1, 2, 3}, grad_out));
  check_refused(embedding, "grad_out is 4 x 6", scatter({1, 2, 3, 4}, wide));
  check_refused(TokenEmbedding<T>(5, 5, random), "gradients.table is 5 x 5", scatter({1, 2, 3, 4}, grad_out));
  TokenEmbedding<T> gradients = zeros_like(embedding);
  CHECK(contains(message_of<RangeError>([&] {
                   scatter({1, 2, 6, 4}, grad_out)(gradients);
                 }),
                 "id 6 at position 2 is not in the embedding table"));
  CHECK(contains(message_of<RangeError>([&] {
                   scatter({-1, 2, 5, 4}, grad_out)(gradients);
                 }),
                 "id -1 at position 0 is not in the embedding table"));
  CHECK(gradients.table.isZero(0));

  CHECK(message_of<ShapeError>([&] { (void)activate_backward(Activation::relu, x, wide); }) ==
        "grad_out is 4 x 6, x needs 4 x 3");
  CHECK(message_of<ShapeError>([&] { (void)heed::gated(Activation::relu, x, wide); }) ==
        "up is 4 x 6, gate needs 4 x 3");
  CHECK(message_of<ShapeError>([&] { (void)gated_backward(Activation::relu, x, wide, x); }) ==
        "up is 4 x 6, gate needs 4 x 3");
  CHECK(message_of<ShapeError>([&] { (void)gated_backward(Activation::relu, x, x, few); }) ==
        "grad_out is 2 x 5, gate needs 4 x 3");
}
