// Training a layer of multi-head attention: the gradients of its weights, inputs, sinks and biases.

#include <algorithm>
#include <functional>

#include "catch.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/multi_head_attention_tape.hpp"
#include "heed/layers/norm.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr Index kModel = 12;

/// A layer with options, its inputs, and a loss: the sum of the elements of out, each with a factor of its
/// own.
template <class T>
struct Case {
  std::string name;
  MultiHeadAttentionConfig sizes = {.d_model = kModel, .num_heads = 2, .bias = true};
  LayerOptions options = {};
  Index rows = 10;
  std::optional<Index> kv_rows = std::nullopt;
  Matrix<T> added = {};  // a bias of the mask
  Matrix<T> x = {}, key_input = {}, value_input = {}, grad_out = {};

  MultiHeadAttention<T> layer() const {
    Random random(5);
    MultiHeadAttention<T> made(sizes, random);
    for (RowVector<T>* b : {&made.b_q, &made.b_k, &made.b_v, &made.b_o}) {
      for (Index j = 0; j < b->size(); ++j) (*b)(j) = static_cast<T>(random.uniform(-0.5, 0.5));
    }
    return made;
  }
  void fill() {
    x = random_matrix<T>(rows, kModel, 1);
    key_input = random_matrix<T>(kv_rows.value_or(0), sizes.key_input_dim.value_or(kModel), 2);
    value_input = random_matrix<T>(kv_rows.value_or(0), sizes.value_input_dim.value_or(kModel), 3);
    grad_out = random_matrix<T>(rows, kModel, 4);
  }
  Matrix<T> forward(const MultiHeadAttention<T>& own) const {
    return kv_rows ? own.forward(x, key_input, value_input, options) : own.forward(x, options);
  }
  const Matrix<T>& forward(MultiHeadAttentionTape<T>& tape, const MultiHeadAttention<T>& own) const {
    return kv_rows ? tape.forward(own, x, key_input, value_input) : tape.forward(own, x);
  }
  void backward(MultiHeadAttentionTape<T>& tape, const MultiHeadAttention<T>& own,
                MultiHeadAttention<T>& grads) const {
    if (kv_rows) {
      tape.backward(own, x, key_input, value_input, grad_out, grads);
    } else {
      tape.backward(own, x, grad_out, grads);
    }
  }
};

/// Calls f with each of the cases, one at a time: a mask holds the address of its matrix.
template <class T>
void for_each_case(const std::function<void(Case<T>&)>& f) {
  const auto with = [&](const char* name, const std::function<void(Case<T>&)>& change) {
    Case<T> c{.name = name};
    c.options.mask = causal();
    change(c);
    c.fill();
    INFO(c.name);
    f(c);
  };
  with("plain", [](Case<T>& c) { c.options.mask = Mask(); });
  with("causal, without biases, two sequences", [](Case<T>& c) {
    c.sizes.bias = false;
    c.options.batch_size = 2;
  });
  with("grouped heads", [](Case<T>& c) {
    c.sizes.num_heads = 4;
    c.sizes.num_kv_heads = 2;
  });
  with("sizes of their own", [](Case<T>& c) {
    c.sizes.head_dim = 5;
    c.sizes.value_dim = 3;
  });
  with("rotary, softcap, scale",
       [](Case<T>& c) { c.options.score = {.scale = 0.4, .softcap = 1.5, .rotary = Rotary(4, 16)}; });
  with("sinks and slopes", [](Case<T>& c) {
    c.options.mask = causal() & alibi({0.5, 0.25});
    c.options.score.sinks = {0.5, -1};
  });
  with("window and bias", [](Case<T>& c) {
    c.added = random_matrix<T>(10, 10, 9);
    c.options.mask = causal() & window(4, 0) & bias(c.added);
  });
  with("ragged", [](Case<T>& c) { c.options.query_starts = {0, 3, 3, 10}; });
  with("cross", [](Case<T>& c) {
    c.options.mask = Mask();
    c.kv_rows = 14;
    c.sizes.key_input_dim = 7;
    c.sizes.value_input_dim = 9;
    c.options.batch_size = 2;
  });
}

}  // namespace

TEMPLATE_TEST_CASE("a tape's forward has the bits of the layer, and its gradients are those of the loss",
                   "[multi_head][gradient][bits]", double, long double) {
  using T = TestType;
  for_each_case<T>([](Case<T>& c) {
    MultiHeadAttention<T> layer = c.layer();
    MultiHeadAttentionTape<T> tape(layer, c.rows, c.options, c.kv_rows);
    MultiHeadAttention<T> grads = zeros_like(layer);
    // Not as bytes: a long double has some that mean nothing.
    CHECK(c.forward(tape, layer) == c.forward(layer));
    c.backward(tape, layer, grads);

    double worst = 0;
    const auto check = [&](T& number, T grad, double largest) {
      const T at = number;
      const auto difference = [&](T step) {
        number = at + step;
        const T above = (c.forward(layer).array() * c.grad_out.array()).sum();
        number = at - step;
        const T below = (c.forward(layer).array() * c.grad_out.array()).sum();
        number = at;
        return (above - below) / (2 * step);
      };
      const T step = static_cast<T>(1e-3);
      const T exact = (4 * difference(step / 2) - difference(step)) / 3;
      const double size = std::max(static_cast<double>(std::abs(exact)), 0.01 * largest);
      worst = std::max(worst, static_cast<double>(std::abs(exact - grad)) / size);
    };
    const auto check_all = [&](auto& matrix, const auto& grad) {
      REQUIRE(matrix.size() == grad.size());
      if (matrix.size() == 0) return;
      const double largest = static_cast<double>(grad.cwiseAbs().maxCoeff());
      const Index step = kSlowRun ? 5 : 1;
      for (Index i = 0; i < matrix.size(); i += step) check(matrix.data()[i], grad.data()[i], largest);
    };
    check_all(layer.w_q, grads.w_q);
    check_all(layer.w_k, grads.w_k);
    check_all(layer.w_v, grads.w_v);
    check_all(layer.w_o, grads.w_o);
    check_all(layer.b_q, grads.b_q);
    check_all(layer.b_v, grads.b_v);
    check_all(layer.b_o, grads.b_o);
    check_all(c.x, tape.grad_x());
    check_all(c.key_input, tape.grad_key_input());
    check_all(c.value_input, tape.grad_value_input());
    if (c.added.size() > 0) {
      REQUIRE(tape.grad_biases().size() == 1);
      check_all(c.added, tape.grad_biases().front());
    }
    for (Index head = 0; head < tape.grad_sinks().cols(); ++head) {
      double& sink = c.options.score.sinks[static_cast<std::size_t>(head)];
      const double at = sink;
      const auto loss = [&](double value) {
        sink = value;
        return (c.forward(layer).array() * c.grad_out.array()).sum();
      };
      const T difference = (loss(at + 1e-4) - loss(at - 1e-4)) / static_cast<T>(2e-4);
      sink = at;
      CHECK(std::abs(difference - tape.grad_sinks()(0, head)) < 1e-6);
    }
    CHECK(worst < 1e-6);
  });
}

TEMPLATE_TEST_CASE("gradients add up over passes, and have the same bits for any number of threads",
                   "[multi_head][gradient][threads][bits]", float, double) {
  using T = TestType;
  for_each_case<T>([](Case<T>& c) {
    const MultiHeadAttention<T> layer = c.layer();
    const auto gradients = [&](Executor* executor, int passes) {
      LayerOptions options = c.options;
      options.executor = executor;
      MultiHeadAttentionTape<T> tape(layer, c.rows, options, c.kv_rows);
      MultiHeadAttention<T> grads = zeros_like(layer);
      for (int i = 0; i < passes; ++i) {
        c.forward(tape, layer);
        c.backward(tape, layer, grads);
      }
      return std::pair(grads, tape.grad_x());
    };
    const auto [alone, grad_x] = gradients(nullptr, 1);
    ThreadPool pool(3);
    const auto [shared, shared_grad_x] = gradients(&pool, 1);
    const auto [twice, same_grad_x] = gradients(nullptr, 2);
    CHECK(same_bits(shared_grad_x, grad_x));
    CHECK(same_bits(same_grad_x, grad_x));
    for (const auto& [a, b, doubled] : {std::tuple{&alone.w_q, &shared.w_q, &twice.w_q},
                                        {&alone.w_k, &shared.w_k, &twice.w_k},
                                        {&alone.w_v, &shared.w_v, &twice.w_v},
                                        {&alone.w_o, &shared.w_o, &twice.w_o}}) {
      CHECK(same_bits(*a, *b));
      const T largest = a->cwiseAbs().maxCoeff();
      CHECK((*doubled - 2 * *a).cwiseAbs().maxCoeff() <= 50 * std::numeric_limits<T>::epsilon() * largest);
    }
  });
}

TEST_CASE("a tape refuses what does not fit, before it writes anything", "[multi_head][gradient][errors]") {
  Random random(1);
  const MultiHeadAttention<double> layer(12, 2, random);
  const MultiHeadAttention<double> wider(24, 2, random);
  MultiHeadAttentionTape<double> tape(layer, 6, {.mask = causal()});
  const Matrix<double> x = random_matrix<double>(6, 12, 1);
  const Matrix<double> out = tape.forward(layer, x);
  MultiHeadAttention<double> grads = zeros_like(layer);
  MultiHeadAttention<double> other = zeros_like(wider);
  const auto message = [](auto f) { return message_of<ShapeError>(f); };
  CHECK(contains(message([&] { tape.forward(layer, random_matrix<double>(7, 12, 1)); }), "x is 7 x 12"));
  CHECK(contains(message([&] { tape.forward(wider, x); }), "w_q is 24 x 24"));
  CHECK(contains(message([&] { tape.backward(layer, x, random_matrix<double>(6, 11, 1), grads); }),
                 "grad_out is 6 x 11"));
  CHECK(contains(message([&] { tape.backward(layer, x, out, other); }), "gradients.w_q is 24 x 24"));
  CHECK(contains(message_of<ArgumentError>([&] { tape.forward(layer, x, x, x); }), "self-attention"));
  CHECK(contains(message([&] { MultiHeadAttentionTape<double>(layer, -1); }), "-1 rows"));
  CHECK(contains(
      message_of<ArgumentError>([&] { MultiHeadAttentionTape<double>(layer, 6, {}, 4).forward(layer, x); }),
      "cross-attention"));
  CHECK(grads.w_q.isZero());
  CHECK(same_bits(tape.out(), out));
}

TEST_CASE("gradients that are the layer itself, results of the tape as inputs, and no forward are refused",
          "[multi_head][gradient][errors]") {
  Random random(3);
  MultiHeadAttention<double> layer(kModel, 2, random);
  MultiHeadAttention<double> gradients = zeros_like(layer);
  MultiHeadAttentionTape<double> tape(layer, 5);
  const Matrix<double> x = random_matrix<double>(5, kModel, 1);
  const auto refused = [](auto call) { return message_of<ArgumentError>(call); };
  CHECK(contains(refused([&] { tape.backward(layer, x, x, gradients); }), "before any forward()"));
  tape.forward(layer, x);
  CHECK(contains(refused([&] { tape.backward(layer, x, x, layer); }), "gradients is the layer itself"));
  tape.backward(layer, x, x, gradients);
  CHECK(
      contains(refused([&] { tape.backward(layer, x, tape.grad_x(), gradients); }), "grad_out is a result"));
  tape.forward(layer, tape.grad_x());
  CHECK(contains(refused([&] { tape.backward(layer, tape.grad_x(), x, gradients); }), "x is a result"));

  MultiHeadAttentionTape<double> cross(layer, 5, {}, 7);
  const Matrix<double> keys = random_matrix<double>(7, kModel, 2);
  cross.forward(layer, x, keys, keys);
  CHECK(contains(
      refused([&] { cross.backward(layer, cross.grad_key_input().bottomRows(5), keys, keys, x, gradients); }),
      "x is a result"));

  Linear<double> linear(kModel, kModel, random);
  CHECK(contains(refused([&] { linear.backward(x, x, linear); }), "gradients is the layer itself"));
  Norm<double> norm(kModel);
  CHECK(contains(refused([&] { norm.backward(x, x, norm); }), "gradients is the layer itself"));
  FeedForward<double> feed_forward(kModel, 8, random);
  FeedForward<double>::Tape between;
  feed_forward.forward(x, between);
  CHECK(contains(refused([&] { feed_forward.backward(x, between, x, feed_forward); }),
                 "gradients is the layer"));
  for (const double bound : {kNaN<double>, kInf<double>})
    CHECK(contains(refused([&] { Linear<double>(2, 2, random, false, bound); }), "bound is "));
  CHECK(contains(refused([&] { Norm<float>(4, true, {true, 1e-50}); }), "epsilon is 1e-50"));
}

TEST_CASE("a tape of no rows or no keys is one too", "[multi_head][gradient]") {
  Random random(1);
  const MultiHeadAttention<float> layer(12, 2, random);
  MultiHeadAttention<float> grads = zeros_like(layer);
  const Matrix<float> none(0, 12);
  MultiHeadAttentionTape<float> empty(layer, 0, {.mask = causal()});
  CHECK(empty.forward(layer, none).rows() == 0);
  CHECK(empty.backward(layer, none, none, grads).rows() == 0);
  const Matrix<float> x = random_matrix<float>(3, 12, 1);
  MultiHeadAttentionTape<float> no_keys(layer, 3, {}, 0);
  CHECK(no_keys.forward(layer, x, none, none).isZero());
  CHECK(no_keys.backward(layer, x, none, none, x, grads).isZero());
  CHECK(grads.w_q.isZero());
  CHECK(grads.w_o.isZero());
}
