#pragma once

// One call of everything public that computes with the engine's kernels, on small matrices: for laws that
// hold whatever is called. In no order; each call changes nothing but out, losses and what gradients it adds
// up.

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "heed/heed.hpp"
#include "helpers.hpp"

namespace heed::test {

using Call = std::function<void()>;

struct EngineCalls {
  Random random{1};
  Matrix<float> x = random_matrix<float>(6, 8, 2);
  Matrix<float> other = random_matrix<float>(6, 8, 3);
  Matrix<float> square = random_matrix<float>(8, 8, 4);
  Matrix<float> out = Matrix<float>::Zero(6, 8);
  std::vector<TokenId> ids{1, 2, 3, 4, 5, 0};
  std::vector<double> losses = std::vector<double>(6);
  AttentionShape shape{1, 2, 2, 6, 6, 4, 4};
  AttentionOptions options = options_for(shape, causal());
  MultiHeadAttention<float> layer{8, 2, random};
  MultiHeadAttention<float> layer_gradients = zeros_like(layer);
  Norm<float> norm = layer_norm<float>(8);
  Norm<float> norm_gradients = zeros_like(norm);
  Linear<float> linear{8, 8, random};
  Linear<float> linear_gradients = zeros_like(linear);
  FeedForward<float> feed_forward{linear, linear, Linear<float>(8, 8, random), Activation::silu};
  FeedForward<float> feed_forward_gradients = zeros_like(feed_forward);
  Gpt<float> learned{{.vocab_size = 9, .context = 8, .num_layers = 1, .num_heads = 2, .d_model = 8}, random};
  Gpt<float> rotary{{.vocab_size = 9,
                     .context = 8,
                     .num_layers = 1,
                     .num_heads = 2,
                     .d_model = 8,
                     .positions = PositionKind::rotary},
                    random};
  Gpt<float> gpt_gradients = learned;
  std::vector<Parameter<float>> weights = parameters(learned, gpt_gradients);
  Matrix<float> row_sums = Matrix<float>::Zero(6, 2);

  EngineCalls() = default;
  EngineCalls(const EngineCalls&) = delete;  // the weights are views
  EngineCalls& operator=(const EngineCalls&) = delete;

  /// Whatever the calls may change but out, losses and the random numbers.
  std::vector<float> numbers() const {
    std::vector<float> all;
    const auto add = [&](const std::string&, const auto& matrix) {
      all.insert(all.end(), matrix.data(), matrix.data() + matrix.size());
    };
    for (const Matrix<float>* m : {&x, &other, &square, &row_sums}) add("", *m);
    for (const auto* l : {&layer, &layer_gradients}) l->for_each_parameter(add);
    for (const auto* l : {&norm, &norm_gradients}) l->for_each_parameter(add);
    for (const auto* l : {&linear, &linear_gradients}) l->for_each_parameter(add);
    for (const auto* l : {&feed_forward, &feed_forward_gradients}) l->for_each_parameter(add);
    for (const auto* m : {&learned, &rotary, &gpt_gradients}) m->for_each_parameter(add);
    return all;
  }

  std::vector<std::pair<const char*, Call>> calls() {
    using Rows = RowFunctions<float>;
    const auto v = [](const Matrix<float>& m) { return view(m); };
    return {
        {"isa", [] { (void)isa(); }},
        {"scaled_dot_product_attention", [this] { (void)scaled_dot_product_attention(x, x, x, options); }},
        {"of double",
         [this] {
           const Matrix<double> wide = x.cast<double>();
           (void)scaled_dot_product_attention(wide, wide, wide, options);
         }},
        {"..._with_weights", [this] { (void)scaled_dot_product_attention_with_weights(x, x, x, options); }},
        {"..._with_logsumexp",
         [this] { (void)scaled_dot_product_attention_with_logsumexp(x, x, x, options); }},
        {"..._backward",
         [this] { (void)scaled_dot_product_attention_backward(x, x, x, x, row_sums, x, options); }},
        {"observe_attention",
         [this] {
           TopWeights<float> top(2);
           (void)observe_attention(x, x, x, options, {&top});
         }},
        {"flex_attention",
         [this] {
           (void)flex_attention(
               x, x, x, [](float score, Index, Index, Index, Index) { return score; }, SeesAll{}, options);
         }},
        {"AttentionPlan", [this] { (void)AttentionPlan<float>(shape, causal()); }},
        {"AttentionPlan without rows",
         [] {
           (void)AttentionPlan<float>({0, 1, 1, 0, 0, 4, 4});
         }},
        {"AttentionBackwardPlan", [this] { (void)AttentionBackwardPlan<double>(shape, causal()); }},
        {"KvCache", [] { (void)KvCache<float>({.head_dim = 4, .value_dim = 4, .capacity = 9}); }},
        {"CachedAttentionPlan",
         [] { (void)CachedAttentionPlan<float>({.head_dim = 4, .value_dim = 4, .capacity = 9}, 1); }},
        {"make_cache", [this] { (void)layer.make_cache(5); }},
        {"multi_head_attention",
         [this] { (void)multi_head_attention(x, square, square, square, square, 2); }},
        {"MultiHeadAttention::forward", [this] { (void)layer.forward(x); }},
        {"MultiHeadAttention::forward_with_weights", [this] { (void)layer.forward_with_weights(x); }},
        {"MultiHeadAttentionPlan",
         [] {
           (void)MultiHeadAttentionPlan<float>({1, 6, 8, 8, 2, 4, 4});
         }},
        {"MultiHeadAttentionTape", [this] { (void)MultiHeadAttentionTape<float>(layer, 6); }},
        {"verify_causal", [this] { (void)verify_causal(layer, x); }},
        {"matrix_product", [this] { (void)matrix_product(x, square); }},
        {"product_workspace_bytes", [] { (void)product_workspace_bytes<float>(0, 0, 0); }},
        {"run_product",
         [this, v] {
           alignas(Workspace::alignment) static std::byte memory[1 << 19];
           run_product<float>(v(x), v(square), mutable_view(out), memory);
         }},
        {"Linear::forward", [this] { (void)linear.forward(x); }},
        {"Linear::backward", [this] { (void)linear.backward(x, other, linear_gradients); }},
        {"Norm::forward", [this] { (void)norm.forward(x); }},
        {"Norm::backward", [this] { (void)norm.backward(x, other, norm_gradients); }},
        {"FeedForward::forward", [this] { (void)feed_forward.forward(x); }},
        {"FeedForward::backward",
         [this] {
           FeedForward<float>::Tape tape;
           const Matrix<float> y = feed_forward.forward(x, tape);
           (void)feed_forward.backward(x, tape, y, feed_forward_gradients);
         }},
        {"activate", [this] { (void)activate(Activation::gelu, x); }},
        {"activate_backward", [this] { (void)activate_backward(Activation::relu, x, other); }},
        {"gated", [this] { (void)gated(Activation::silu, x, other); }},
        {"gated_backward", [this] { (void)gated_backward(Activation::silu, x, other, other); }},
        {"cross_entropy", [this] { (void)cross_entropy(x, ids); }},
        {"cross_entropy_with_gradient", [this] { (void)cross_entropy_with_gradient(x, ids); }},
        {"dropout", [this] { (void)dropout(x, {.rate = 0.5}); }},
        {"RowFunctions::norm", [this, v] { Rows::norm(v(x), {}, {}, {}, mutable_view(out)); }},
        {"RowFunctions::norm_backward",
         [this, v] { Rows::norm_backward(v(x), {}, {}, v(other), {}, mutable_view(out)); }},
        {"RowFunctions::norm_weight_gradient",
         [this, v] {
           Rows::norm_weight_gradient(v(x), {}, v(other), mutable_view(norm_gradients.weight), {});
         }},
        {"RowFunctions::activation",
         [this, v] { Rows::activation(Activation::relu, v(x), mutable_view(out)); }},
        {"RowFunctions::activation_backward",
         [this, v] { Rows::activation_backward(Activation::relu, v(x), v(other), mutable_view(out)); }},
        {"RowFunctions::gated",
         [this, v] { Rows::gated(Activation::relu, v(x), v(other), mutable_view(out)); }},
        {"RowFunctions::gated_backward",
         [this, v] {
           Matrix<float> up = out;
           Rows::gated_backward(Activation::relu, v(x), v(other), v(other), mutable_view(out),
                                mutable_view(up));
         }},
        {"RowFunctions::cross_entropy",
         [this, v] { Rows::cross_entropy(v(x), ids.data(), {kIgnoredTarget}, losses.data(), {}); }},
        {"RowFunctions::add", [this, v] { Rows::add(v(x), v(other), mutable_view(out)); }},
        {"RowFunctions::sum_of_squares", [this, v] { (void)Rows::sum_of_squares(v(x)); }},
        {"RowFunctions::column_sums",
         [this, v] { Rows::column_sums(v(x), mutable_view(norm_gradients.weight)); }},
        {"RowFunctions::scatter_add",
         [this, v] { Rows::scatter_add(v(x), ids.data(), mutable_view(square)); }},
        {"RowFunctions::dropout", [this, v] { Rows::dropout({.rate = 0.5}, v(x), mutable_view(out)); }},
        {"gradient_norm", [this] { (void)gradient_norm(weights); }},
        {"clip_gradients", [this] { (void)clip_gradients(weights, 1e-9); }},
        {"AdamW::step",
         [this] {
           AdamW<float> optimizer(weights);
           optimizer.step(weights, 0.1);
         }},
        {"Sgd::step",
         [this] {
           Sgd<float> optimizer(weights);
           optimizer.step(weights, 0.1);
         }},
        {"Gpt::embed", [this] { (void)learned.embed(ids); }},
        {"Gpt::forward", [this] { (void)learned.forward(ids); }},
        {"Gpt::forward with a rotary", [this] { (void)rotary.forward(ids); }},
        {"Gpt::logits", [this] { (void)rotary.logits(x); }},
        {"Gpt::attention_weights", [this] { (void)rotary.attention_weights(ids, 0); }},
        {"GptTrainer", [this] { (void)GptTrainer<float>(learned, {.batch_size = 1, .seq_len = 6}); }},
        {"GptDecoder", [this] { (void)GptDecoder<float>(rotary); }},
        {"generate",
         [this] { (void)generate(rotary, std::span<const TokenId>(ids), {.max_new_tokens = 2}, random); }},
    };
  }
};

}  // namespace heed::test
