// Where queries stand among the keys: one rule for all that ask, on every entry (mask.hpp).

#include <functional>

#include "catch.hpp"
#include "heed/attention/backward.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/attention/detail/reference_backward.hpp"
#include "heed/attention/flex_attention.hpp"
#include "heed/attention/observe_attention.hpp"
#include "heed/attention/reference.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "heed/layers/multi_head_attention_tape.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr Index kDim = 4;
constexpr auto kSlanted = [](auto score, Index, Index, Index query, Index key) {
  return score + static_cast<decltype(score)>(0.0625) * static_cast<decltype(score)>(query - 2 * key);
};
const auto kNear = visible_where([](Index, Index, Index query, Index key) { return key <= query + 2; });

/// Something that asks where queries stand, and how its message begins.
struct Asker {
  std::string message;
  Mask mask;
  std::optional<Rotary> rotary;
  bool functions = false;
};

std::vector<Asker> askers() {
  return {{"causal mask", causal(), {}},
          {"window(2, 1) mask", window(2, 1), {}},
          {"window(unlimited, 1) mask", window(kUnlimited, 1), {}},
          {"alibi(1 head) mask", alibi({0.25}), {}},
          {"rotary", {}, Rotary(4, 64)},
          {"rotary", {}, Rotary(2, 64, {.layout = RotaryLayout::interleaved, .offset = 3})},
          {"a function of scores", {}, {}, true}};
}

/// One problem in one scalar type.
template <class T>
struct Problem {
  Asker asker;
  AttentionShape shape;
  Inputs<T> in;
  Matrix<T> grad_out;
  AttentionOptions options;

  Problem(const Asker& a, const Mask& position, Index query_len, Index kv_len)
      : asker(a), shape{1, 1, 1, query_len, kv_len, kDim, kDim} {
    in = random_inputs<double>(shape, 1).template cast<T>();
    grad_out = random_matrix<double>(query_len, kDim, 4).template cast<T>();
    options.mask = asker.mask & position;
    options.rotary = asker.rotary;
  }

  ScoreOptions score() const { return detail::score_options(options); }
};

/// A way to have an attention computed.
template <class T>
struct Entry {
  std::string name;
  std::function<Matrix<T>(const Problem<T>&)> run;
};

/// Those of matrices of keys. All of them are asked for the same function of the problem, once its gradients
/// are taken aside.
template <class T>
std::vector<Entry<T>> forward_entries(bool functions) {
  if (functions) {
    return {{"flex_attention",
             [](const Problem<T>& p) {
               return flex_attention(p.in.query, p.in.key, p.in.value, kSlanted, kNear, p.options);
             }},
            {"loops with functions", [](const Problem<T>& p) {
               Matrix<T> out(p.shape.query_len, kDim);
               AttentionTensors<T> tensors = detail::input_tensors(p.in.query, p.in.key, p.in.value);
               tensors.out = mutable_view(out);
               const detail::FunctorFunctions<T, decltype(kSlanted), decltype(kNear)> f(kSlanted, kNear);
               reference::attention(p.shape, p.options.mask, p.score(), tensors, f.functions());
               return out;
             }}};
  }
  return {
      {"scaled_dot_product_attention",
       [](const Problem<T>& p) {
         return scaled_dot_product_attention(p.in.query, p.in.key, p.in.value, p.options);
       }},
      {"with weights",
       [](const Problem<T>& p) {
         return scaled_dot_product_attention_with_weights(p.in.query, p.in.key, p.in.value, p.options).out;
       }},
      {"with logsumexp",
       [](const Problem<T>& p) {
         return scaled_dot_product_attention_with_logsumexp(p.in.query, p.in.key, p.in.value, p.options).out;
       }},
      {"observe_attention",
       [](const Problem<T>& p) {
         ColumnSums<T> sums;
         return observe_attention(p.in.query, p.in.key, p.in.value, p.options, {&sums});
       }},
      {"ragged",
       [](const Problem<T>& p) {
         AttentionOptions options = p.options;
         options.query_starts = {0, p.shape.query_len};
         options.kv_starts = {0, p.shape.kv_len};
         return scaled_dot_product_attention(p.in.query, p.in.key, p.in.value, options);
       }},
      {"a layer of unit matrices",
       [](const Problem<T>& p) {
         const Matrix<T> one = Matrix<T>::Identity(kDim, kDim);
         const MultiHeadAttention<T> layer(one, one, one, one, 1);
         LayerOptions options;
         options.mask = p.options.mask;
         options.score = p.score();
         return layer.forward(p.in.query, p.in.key, p.in.value, options);
       }},
      {"a tape of a layer of unit matrices",
       [](const Problem<T>& p) {
         const Matrix<T> one = Matrix<T>::Identity(kDim, kDim);
         const MultiHeadAttention<T> layer(one, one, one, one, 1);
         LayerOptions options;
         options.mask = p.options.mask;
         options.score = p.score();
         MultiHeadAttentionTape<T> tape(layer, p.shape.query_len, options, p.shape.kv_len);
         return tape.forward(layer, p.in.query, p.in.key, p.in.value);
       }},
      {"loops", [](const Problem<T>& p) {
         Matrix<T> out(p.shape.query_len, kDim);
         AttentionTensors<T> tensors = detail::input_tensors(p.in.query, p.in.key, p.in.value);
         tensors.out = mutable_view(out);
         reference::attention(p.shape, p.options.mask, p.score(), tensors);
         return out;
       }}};
}

/// All gradients, one below the other. The forward call comes first, which throws if the backward one would.
template <class T>
Matrix<T> stacked(const AttentionGradients<T>& grads) {
  Matrix<T> all(grads.query.rows() + grads.key.rows() + grads.value.rows(), kDim);
  all << grads.query, grads.key, grads.value;
  return all;
}

/// The result of a forward call that nobody asks for positions.
template <class T>
AttentionResult<T> some_result(const Problem<T>& p) {
  AttentionOptions options = p.options;
  options.rotary.reset();
  options.mask = Mask();
  return scaled_dot_product_attention_with_logsumexp(p.in.query, p.in.key, p.in.value, options);
}

template <class T>
std::vector<Entry<T>> backward_entries(bool some_forward) {
  const auto forward = [some_forward](const Problem<T>& p) {
    if (some_forward) return some_result(p);
    return scaled_dot_product_attention_with_logsumexp(p.in.query, p.in.key, p.in.value, p.options);
  };
  return {{"scaled_dot_product_attention_backward",
           [forward](const Problem<T>& p) {
             return stacked(scaled_dot_product_attention_backward(p.in.query, p.in.key, p.in.value,
                                                                  forward(p), p.grad_out, p.options));
           }},
          {"loops backward", [forward](const Problem<T>& p) {
             const AttentionResult<T> result = forward(p);
             auto tensors = detail::backward_tensors(p.in.query, p.in.key, p.in.value, result.out,
                                                     result.logsumexp, p.grad_out);
             detail::GradientRoom<T> room(p.options, tensors);
             reference::attention_backward(p.shape, p.options.mask, p.score(), tensors);
             return stacked(room.grads);
           }}};
}

template <class T>
void check_near(const Matrix<T>& got, const Matrix<long double>& expected) {
  REQUIRE(got.rows() == expected.rows());
  const long double error = (got.template cast<long double>() - expected).cwiseAbs().maxCoeff();
  REQUIRE(error <= 40 * std::numeric_limits<T>::epsilon());
}

}  // namespace

TEMPLATE_TEST_CASE("where queries stand is told, or a ShapeError names both lengths, on every entry",
                   "[offset][errors]", float, double, long double) {
  using T = TestType;
  for (const Asker& asker : askers()) {
    const Problem<T> p(asker, Mask(), 2, 5);
    std::vector<Entry<T>> entries = forward_entries<T>(asker.functions);
    if (!asker.functions) {
      const auto more = backward_entries<T>(true);
      entries.insert(entries.end(), more.begin(), more.end());
    }
    for (const Entry<T>& entry : entries) {
      CAPTURE(asker.message, entry.name);
      CHECK(message_of<ShapeError>([&] { (void)entry.run(p); }) ==
            asker.message +
                " with 2 queries and 5 keys: say where the queries stand with top_left(), "
                "bottom_right() or query_offset(n)");
      const Problem<T> told(asker, bottom_right(), 2, 5);
      CHECK(message_of<Error>([&] { (void)entry.run(told); }) == "nothing");
      const Problem<T> equal(asker, Mask(), 5, 5);
      CHECK(message_of<Error>([&] { (void)entry.run(equal); }) == "nothing");
    }
    if constexpr (has_kernels<T>) {
      const auto score = p.score();
      const detail::FunctorFunctions<T, decltype(kSlanted), decltype(kNear)> f(kSlanted, kNear);
      const ScoreFunctions<T> functions = asker.functions ? f.functions() : ScoreFunctions<T>{};
      const std::string begin = asker.message + " with 2 queries and 5 keys";
      CHECK(contains(
          message_of<ShapeError>([&] { AttentionPlan<T>(p.shape, p.options.mask, score, 1, functions); }),
          begin));
      if (asker.functions) continue;
      CHECK(contains(
          message_of<ShapeError>([&] { AttentionBackwardPlan<T>(p.shape, p.options.mask, score); }), begin));
      MultiHeadAttentionShape layer{1, 2, 4, 4, 1, 4, 4};
      layer.kv_len = 5;
      layer.d_key = layer.d_value = 4;
      CHECK(contains(message_of<ShapeError>([&] { MultiHeadAttentionPlan<T>(layer, p.options.mask, score); }),
                     begin));
    }
  }
}

TEMPLATE_TEST_CASE("what asks for no position needs none, whatever the lengths", "[offset]", float,
                   long double) {
  const Problem<TestType> p({"nothing", {}, {}}, Mask(), 2, 5);
  for (const Entry<TestType>& entry : forward_entries<TestType>(false))
    CHECK(message_of<Error>([&] { (void)entry.run(p); }) == "nothing");
  CHECK(message_of<Error>([&] { (void)flex_attention(p.in.query, p.in.key, p.in.value, KeepScore{}); }) ==
        "nothing");
}

TEMPLATE_TEST_CASE("queries may stand anywhere: before the first key, across it and beyond the last one",
                   "[offset]", float, double) {
  using T = TestType;
  for (const Asker& asker : askers()) {
    for (const Index offset : {-20, -5, -4, -3, -1, 0, 1, 4, 5, 20}) {
      const Problem<T> p(asker, query_offset(offset), 5, 5);
      const Problem<long double> exact(asker, query_offset(offset), 5, 5);
      const Matrix<long double> expected = forward_entries<long double>(asker.functions).back().run(exact);
      for (const Entry<T>& entry : forward_entries<T>(asker.functions)) {
        CAPTURE(asker.message, offset, entry.name);
        check_near<T>(entry.run(p), expected);
      }
      if (asker.functions) continue;
      const Matrix<long double> gradients = backward_entries<long double>(false).back().run(exact);
      for (const Entry<T>& entry : backward_entries<T>(false)) {
        CAPTURE(asker.message, offset, entry.name);
        check_near<T>(entry.run(p), gradients);
      }
    }
  }
}

TEMPLATE_TEST_CASE("queries of a cache are its last tokens, or stand where the mask says",
                   "[offset][mask][rotary][cache]", float, double) {
  using T = TestType;
  for (const Asker& asker : askers()) {
    const Problem<T> p(asker, Mask(), 2, 5);
    KvCache<T> cache({1, 1, kDim, kDim, 8});
    cache.append(p.in.key, p.in.value, asker.rotary);
    for (const Mask& position : {Mask(), bottom_right(), query_offset(-1), query_offset(-9)}) {
      const Problem<T> at(asker, position, 2, 5);
      const Problem<T> said(asker, position.has_position() ? position : bottom_right(), 2, 5);
      CAPTURE(asker.message, position.to_string());
      if (asker.functions) {
        CHECK(same_bits(flex_attention(at.in.query, cache, kSlanted, kNear, at.options),
                        forward_entries<T>(true).front().run(said)));
      } else {
        CHECK(same_bits(scaled_dot_product_attention(at.in.query, cache, at.options),
                        forward_entries<T>(false).front().run(said)));
      }
    }
  }
}

TEST_CASE("a rotary before the first key turns the other way, up to as many positions as it has",
          "[offset][rotary]") {
  // One pair of elements, turned by 1 for each position: the query at -2, the key at 0 lie 2 apart.
  const Eigen::RowVector2d one(1, 0);
  const Eigen::Matrix2d keys = (Eigen::Matrix2d() << 1, 0, 0, 0).finished();
  const Eigen::Vector2d values(1, 0);
  AttentionOptions options;
  options.rotary = Rotary(2, 3);
  options.scale = 1;
  for (const Index offset : {-2, -1, 0, 1, 2}) {
    options.mask = query_offset(offset);
    const double weight = scaled_dot_product_attention(one, keys, values, options)(0, 0);
    CHECK(std::log(weight / (1 - weight)) == Approx(std::cos(static_cast<double>(offset))).epsilon(1e-12));
  }
  for (const Index offset : {Index{-3}, Index{3}, std::numeric_limits<Index>::min()}) {
    options.mask = query_offset(offset);
    CHECK(contains(
        message_of<ShapeError>([&] { (void)scaled_dot_product_attention(one, keys, values, options); }),
        offset < 0 ? "rotary has angles for the positions -2 to 2"
                   : "rotary has angles for the positions 0 to 2"));
  }
}

TEST_CASE("query positions that say the same compose, those that differ are both named", "[offset][errors]") {
  const std::vector<std::pair<Mask, Mask>> equal = {{top_left(), query_offset(0)},
                                                    {top_left(), query_offsets({0, 0})},
                                                    {query_offset(3), query_offsets({3, 3})},
                                                    {query_offset(-2), query_offset(-2)},
                                                    {query_offsets({1, 2}), query_offsets({1, 2})},
                                                    {bottom_right(), bottom_right()},
                                                    {top_left(), top_left()}};
  for (const auto& [a, b] : equal) {
    for (const Mask& both : {a & b, b & a, causal() & a & b, (causal() & a) & (window(3, 3) & b)}) {
      CAPTURE(both.to_string());
      for (Index sequence = 0; sequence < 2; ++sequence)
        CHECK(both.query_offset(4, 9, sequence) == a.query_offset(4, 9, sequence));
    }
  }
  // The list still says for how many sequences it is.
  const Mask list = query_offset(3) & query_offsets({3, 3}) & query_offset(3);
  CHECK(list.to_string() == "query_offsets(3, 3)");
  CHECK(contains(message_of<ShapeError>([&] {
                   list.check_sizes({3, 1, 4, 9}, scalar_type<float>());
                 }),
                 "query_offsets has 2 numbers"));

  const std::vector<std::pair<Mask, Mask>> different = {{top_left(), query_offset(1)},
                                                        {query_offset(0), bottom_right()},
                                                        {top_left(), bottom_right()},
                                                        {query_offset(3), query_offsets({3, 4})},
                                                        {query_offsets({3, 3}), query_offsets({3, 4})},
                                                        {query_offsets({3, 3}), query_offsets({3, 3, 3})},
                                                        {query_offset(3), query_offset(-3)}};
  for (const auto& [a, b] : different) {
    const std::string message = message_of<ArgumentError>([&] { (void)(a & b); });
    CHECK(message == "two different query positions in one mask: " + a.to_string() + " and " + b.to_string());
    CHECK(contains(message_of<ArgumentError>([&] { (void)(b & a); }), a.to_string()));
  }
}
