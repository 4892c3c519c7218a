// Calls everything that Heed offers, once, in a thread with a stack of 64 KB, and prints a few digits of what
// comes out: the same digits whatever macros of Eigen and flags this file is compiled with (CMakeLists.txt
// beside it), and whether Heed is a static library or a shared one.
//   every_call FOLDER     where it may write files

#include <pthread.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <heed/attention/reference.hpp>
#include <heed/heed.hpp>
#include <string>
#include <vector>

namespace {

using heed::Index;
using heed::TokenId;
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Four digits: the last ones depend on whether a compiler fuses products and sums.
void show(const char* name, double value) {
  std::printf("%-28s %.4g\n", name, std::abs(value) < 1e-6 ? 0.0 : value);
}

// A sum in which each entry has a weight of its own.
template <class Matrix>
void show_matrix(const char* name, const Matrix& matrix) {
  double sum = 0;
  double weight = 1;
  for (Index i = 0; i < matrix.rows(); ++i) {
    for (Index j = 0; j < matrix.cols(); ++j) {
      sum += weight * static_cast<double>(matrix(i, j));
      weight = weight > 2 ? weight - 1.9 : weight + 0.07;
    }
  }
  show(name, sum);
}
void show_text(const char* name, const std::string& text) {
  std::printf("%-28s %zu bytes\n", name, text.size());
}

template <class Scalar>
auto filled(Index rows, Index cols, unsigned seed) {
  heed::Random random(seed);
  Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic> matrix(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) matrix(i, j) = static_cast<Scalar>(random.uniform(-1, 1));
  }
  return matrix;
}

template <class Error, class Call>
void expect(const char* name, Call&& call) {
  bool caught = false;
#if defined(__cpp_exceptions)
  try {
    call();
  } catch (const Error&) {
    caught = true;
  }
#else
  caught = true;
#endif
  show(name, caught ? 1 : 0);
}

void call_attention(heed::Executor& pool) {
  const auto q = filled<float>(140, 32, 1);
  const auto k = filled<float>(140, 32, 2);
  const auto v = filled<float>(140, 32, 3);
  const heed::AttentionOptions options{.mask = heed::causal(), .num_heads = 4, .executor = &pool};
  show_matrix("attention", heed::scaled_dot_product_attention(q, k, v, options));
  show_matrix("attention, one mask", heed::scaled_dot_product_attention(q, k, v, heed::causal()));
  const auto with_weights = heed::scaled_dot_product_attention_with_weights(q, k, v, options);
  show_matrix("weights", with_weights.weights.stacked);
  auto kept = heed::scaled_dot_product_attention_with_logsumexp(q, k, v, options);
  show_matrix("logsumexp", kept.logsumexp);
  const auto grads =
      heed::scaled_dot_product_attention_backward(q, k, v, kept.out, kept.logsumexp, q, options);
  show_matrix("gradient of query", grads.query);
  heed::merge_attention(kept, heed::scaled_dot_product_attention_with_logsumexp(q, k, v, options));
  show_matrix("merged", kept.out);
  const Rows bias = filled<float>(140, 140, 4);
  const auto visible = (bias.array() > -0.5F).eval();
  const Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic> keep = visible.matrix();
  const Rows hidden = heed::causal_mask<float>(140);
  const heed::Mask masks[] = {heed::window(5, 3) & heed::top_left(),
                              heed::bias(bias) & heed::keep_where(keep),
                              heed::drop_where(keep),
                              heed::alibi(heed::alibi_slopes(4)) & heed::bottom_right(),
                              heed::kv_lengths({100}),
                              heed::causal() & heed::query_offset(-3),
                              heed::causal() & heed::query_offsets({2}),
                              heed::additive_mask(hidden)};
  for (const heed::Mask& mask : masks) {
    show_matrix(mask.to_string().substr(0, 26).c_str(),
                heed::scaled_dot_product_attention(q, k, v, {.mask = mask, .num_heads = 4}));
  }
  const heed::Rotary rotary(8, 200, {.llama3 = heed::Llama3Scaling{}});
  show_matrix(
      "rotary, sinks, softcap",
      heed::scaled_dot_product_attention(
          q, k, v,
          {.mask = heed::causal(), .softcap = 3, .sinks = {0, 1, 2, 3}, .rotary = rotary, .num_heads = 4}));
  show_matrix("long double",
              heed::scaled_dot_product_attention(filled<long double>(5, 4, 1), filled<long double>(5, 4, 2),
                                                 filled<long double>(5, 4, 3), heed::causal()));
  show_matrix("functor", heed::flex_attention(q, k, v,
                                              [](float score, Index, Index, Index query, Index key) {
                                                return score + 0.01F * static_cast<float>(query - key);
                                              },
                                              heed::visible_where([](Index, Index, Index query, Index key) {
                                                return key <= query;
                                              }),
                                              {.num_heads = 4}));
  heed::TopWeights<float> top(3);
  heed::ColumnSums<float> columns;
  heed::SelectedWeights<float> selected({1}, {2, 3});
  heed::HeatMapObserver<float> picture(0);
  double tiles = 0;
  auto callback = heed::weights_callback<float>([&](const heed::WeightsTile<float>&) { ++tiles; });
  show_matrix("observed",
              heed::observe_attention(q, k, v, options, {&top, &columns, &selected, &picture, &callback}));
  show_matrix("top weights", top.weights);
  show_text("picture of weights", picture.text());
  expect<heed::ShapeError>("keys that do not fit",
                           [&] { heed::scaled_dot_product_attention(q, filled<float>(3, 31, 1), v); });
}

void call_layers(heed::Executor& pool) {
  heed::Random random(5);
  const Rows x = filled<float>(70, 32, 6);
  const heed::MultiHeadAttention<float> layer({.d_model = 32, .num_heads = 4, .num_kv_heads = 2}, random);
  const heed::LayerOptions options{.mask = heed::causal(), .executor = &pool};
  show_matrix("layer", layer.forward(x, options));
  show_matrix("layer, weights", layer.forward_with_weights(x, options).weights.stacked);
  auto cache = layer.make_cache(80);
  show_matrix("prefill", layer.prefill(x, cache));
  show_matrix("step", layer.step(x.row(3), cache));
  show_matrix("with a cache", heed::scaled_dot_product_attention(
                                  filled<float>(2, 32, 7), cache,
                                  {.mask = heed::causal(), .num_heads = 4, .num_kv_heads = 2}));
  cache.truncate(0, 3);
  show("tokens in the cache", static_cast<double>(cache.kv_len()));
  heed::MultiHeadAttentionTape<float> tape(layer, 70, options);
  tape.forward(layer, x);
  auto gradients = heed::zeros_like(layer);
  show_matrix("gradient of x", tape.backward(layer, x, x, gradients));
  show_matrix("function",
              heed::multi_head_attention(x, layer.w_q, layer.w_q, layer.w_q, layer.w_o, 4, heed::causal()));
  show("is causal", heed::verify_causal(layer, x).passed ? 1 : 0);
  show("rows sum to one",
       heed::rows_sum_to_one(layer.forward_with_weights(x, options).weights.head(0)).passed ? 1 : 0);

  const heed::Linear<float> linear(32, 200, random);
  show_matrix("linear", linear.forward(x));
  const heed::FeedForward<float> feed_forward(32, 100, random,
                                              {.activation = heed::Activation::silu, .gated = true});
  show_matrix("feed forward", feed_forward.forward(x, &pool));
  const heed::Norm<float> norm = heed::layer_norm<float>(32);
  auto norm_gradients = heed::zeros_like(norm);
  show_matrix("norm", norm.forward(x));
  show_matrix("norm, gradient", norm.backward(x, filled<float>(70, 32, 8), norm_gradients));
  show_matrix("rms norm", heed::rms_norm<float>(32).forward(x));
  show_matrix("gelu", heed::activate(heed::Activation::gelu, x));
  show_matrix("dropout", heed::dropout(x, heed::DropoutOptions{.rate = 0.3, .seed = 3}));
  show_matrix("product", heed::matrix_product(x, layer.w_q));
  std::vector<TokenId> targets(70, 4);
  targets[3] = heed::kIgnoredTarget;
  show("cross entropy", heed::cross_entropy(x, targets));
  show_matrix("cross entropy, gradient", heed::cross_entropy_with_gradient(x, targets).grad_logits);
  const heed::TokenEmbedding<float> embedding(20, 32, random);
  show_matrix("embedding",
              heed::add_positions(embedding.forward({1, 2, 3}), heed::SinusoidalPositions<float>(10, 32)));
  expect<heed::RangeError>("a token that is none", [&] { (void)embedding.forward({20}); });

  heed::Linear<float> trained = linear;
  auto trained_gradients = heed::zeros_like(trained);
  linear.backward(x, linear.forward(x), trained_gradients);
  const auto parameters = heed::parameters(trained, trained_gradients);
  show("gradient norm", heed::gradient_norm(parameters));
  show("clipped", heed::clip_gradients(parameters, 1.0));
  heed::AdamW<float> adam(parameters);
  adam.step(parameters, 0.1);
  heed::Sgd<float> sgd(parameters);
  sgd.step(parameters, 0.1);
  show_matrix("after two steps", trained.w);
  show("rate", heed::CosineSchedule{.peak = 1, .floor = 0.1, .warm_up = 3, .steps = 10}.at(5));
}

void call_models(const std::filesystem::path& folder, heed::Executor& pool) {
  const std::string corpus =
      "the cat sat on the mat, the rat sat on the cat; low lower lowest new newer newest wide wider";
  const heed::BpeTokenizer bpe = heed::train_bpe(corpus, {.vocab_size = 60});
  show("tokens", static_cast<double>(bpe.encode(corpus).size()));
  show_text("decoded", bpe.decode(bpe.encode(corpus)));
  bpe.save(folder / "bpe.json");
  show("read again", heed::BpeTokenizer::load(folder / "bpe.json") == bpe ? 1 : 0);
  expect<heed::FileError>("JSON that is none",
                          [&] { (void)heed::BpeTokenizer::from_json(std::string(100000, '[')); });
  const heed::CharTokenizer characters(corpus);
  show("characters", heed::CharTokenizer::from_json(characters.to_json()) == characters ? 1 : 0);

  heed::Random random(9);
  const heed::GptConfig config{
      .vocab_size = characters.vocab_size(), .context = 16, .num_layers = 2, .num_heads = 2, .d_model = 32};
  heed::Gpt<float> model(config, random);
  heed::GptTrainer<float> trainer(model, {.batch_size = 4}, &pool);
  const heed::TokenWindows windows(characters.encode(corpus), 16);
  heed::TokenBatch batch;
  for (int step = 0; step < 3; ++step) {
    windows.draw(random, 4, batch);
    const heed::TrainingStep taken = trainer.step(batch, 0.01);
    show("training", taken.loss + taken.gradient_norm);
  }
  const std::vector<heed::TokenBatch> all = windows.in_order(4);
  show("held out", trainer.loss(std::span<const heed::TokenBatch>(all)));
  heed::save_checkpoint(folder / "model", trainer, random, characters.to_json());
  const heed::Gpt<float> loaded = heed::load_model<float>(folder / "model");
  heed::resume(folder / "model", trainer, random);
  show("checkpoint",
       heed::has_checkpoint(folder / "model") && loaded.config().vocab_size == config.vocab_size ? 1 : 0);
  show_text("configuration", heed::config_to_json(heed::config_from_json(heed::config_to_json(config))));
  const std::vector<TokenId> prompt = characters.encode("the ");
  show_matrix("logits", loaded.forward(prompt));
  show("generated", static_cast<double>(
                        heed::generate(loaded, prompt,
                                       {.max_new_tokens = 30, .sampling = {.top_k = 5, .top_p = 0.9}}, random)
                            .size()));

  const std::vector<float> values = {1, 2, 3, 4};
  heed::write_safetensors(folder / "x.safetensors", {heed::tensor_bytes<float>("x", {2, 2}, values)});
  show("safetensors",
       heed::SafetensorsFile::open(folder / "x.safetensors").values<float>("x") == values ? 1 : 0);
}

void call_pictures() {
  const auto x = filled<double>(128, 128, 11);
  show_text("heat map", heed::heat_map(x, {.title = "x"}));
  show_text("curves", heed::plot_curves({{.name = "a", .y = {1, 2, 4}}, {.name = "b", .y = {3, 1, 2}}}));
  show_text("curve", heed::plot_curve(std::vector<double>{1, 5, 2}));
  show_text("points", heed::plot_scatter({{1, 2, "one"}, {3, 4, "two"}}));
  show_text("terminal", std::to_string(heed::display_width(heed::escaped(heed::truncated("a\tb", 10)))));
  (void)heed::query_terminal();
  // Points along known directions: the variances do not depend on how Eigen stores a matrix by default.
  Eigen::MatrixXd points = x.leftCols(40);
  points.col(0) *= 9;
  points.col(1) *= 6;
  const auto two = heed::pca(points, 2);
  show("largest variance", two.explained_variance(0));
  show("second variance", two.explained_variance(1));
  show_matrix("projected", two.projected.cwiseAbs().eval());
  show("variance of a square", heed::pca(x, 3).total_variance);
  show("variance, wide", heed::pca(points.transpose(), 3).total_variance);
  show("variance, float", heed::pca(points.cast<float>(), 3).total_variance);
}

// NaN and infinity are found and kept, also by code that is compiled here with -ffast-math.
void call_with_nan() {
  const auto nan = static_cast<float>(std::strtod("nan", nullptr));
  const auto infinity = static_cast<float>(std::strtod("inf", nullptr));
  heed::Random random(13);
  expect<heed::ArgumentError>("NaN: epsilon", [&] { heed::Norm<float>(8, true, {.epsilon = nan}); });
  expect<heed::ArgumentError>("NaN: bound", [&] { heed::Linear<float>(8, 8, random, true, nan); });
  expect<heed::ArgumentError>("infinite bound", [&] {
    heed::MultiHeadAttention<float>({.d_model = 8, .num_heads = 2}, random, infinity);
  });
  Rows x = filled<float>(9, 8, 14);
  expect<heed::ArgumentError>("NaN: rate",
                              [&] { (void)heed::dropout(x, heed::DropoutOptions{.rate = nan}); });
  expect<heed::ArgumentError>("NaN: scale",
                              [&] { (void)heed::scaled_dot_product_attention(x, x, x, {.scale = nan}); });
  Rows hidden = heed::causal_mask<float>(9);
  show_matrix("hidden by -inf",
              heed::scaled_dot_product_attention(x, x, x, {.mask = heed::additive_mask(hidden)}));
  heed::AttentionResult<float> nothing{.out = Rows::Constant(9, 8, 7),
                                       .logsumexp = Rows::Constant(9, 1, -infinity)};
  heed::merge_attention(nothing, heed::scaled_dot_product_attention_with_logsumexp(x, x, x));
  show_matrix("merged with nothing", nothing.out);
  hidden(3, 2) = nan;
  expect<heed::ArgumentError>("NaN: additive mask", [&] { (void)heed::additive_mask(hidden); });
  const auto future = [&](const auto& rows) {
    Rows result = rows;
    result(0, 0) = rows(8, 0) > 0 ? nan : 0;
    return result;
  };
  show("NaN: causal", heed::verify_causal(future, x).passed ? 1 : 0);
  expect<heed::ArgumentError>("NaN: tolerance",
                              [&] { (void)heed::verify_causal(future, x, {.tolerance = nan}); });
  std::vector<float> logits = {1, nan, 2};
  expect<heed::ArgumentError>("NaN: logits",
                              [&] { (void)heed::sample_token(std::span<const float>(logits), {}, random); });
  Rows weights = Rows::Constant(2, 3, 1.0F / 3);
  weights(1, 1) = nan;
  show("NaN: sums", heed::rows_sum_to_one(weights).passed ? 1 : 0);
  show_text("NaN: picture", heed::heat_map(weights));
  weights(0, 0) = -infinity;
  expect<heed::ArgumentError>("NaN: points", [&] { (void)heed::pca(weights, 1); });

  heed::Gpt<float> model({.vocab_size = 5, .context = 4, .num_layers = 1, .num_heads = 1, .d_model = 8},
                         random);
  expect<heed::ArgumentError>("NaN: clip_norm",
                              [&] { heed::GptTrainer<float>(model, {.batch_size = 1, .clip_norm = nan}); });
  heed::GptTrainer<float> trainer(model, {.batch_size = 1});
  const std::vector<TokenId> ids = {1, 2, 3, 4};
  model.blocks[0].attention.w_q(0, 0) = nan;
  const Rows before = model.tokens.table;
  expect<heed::TrainingError>("NaN: training", [&] { trainer.step(ids, ids, 0.1); });
  show("NaN: weights are kept", before == model.tokens.table ? 1 : 0);
}

void* call_all(void* folder) {
  heed::ThreadPool pool(2);
  call_attention(pool);
  call_layers(pool);
  call_models(static_cast<const char*>(folder), pool);
  call_pictures();
  call_with_nan();
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  pthread_attr_t attributes;
  pthread_t thread;
  // glibc takes the thread's own data from it too, and a page of this is a guard.
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, 64 << 10) != 0 ||
      pthread_create(&thread, &attributes, call_all, argv[1]) != 0 || pthread_join(thread, nullptr) != 0) {
    std::puts("no thread");
    return 1;
  }
  std::printf("heed %s\n", heed::version());
  return 0;
}
