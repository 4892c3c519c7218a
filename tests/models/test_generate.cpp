// From scores to tokens, and from tokens to a text: what is drawn how often, and that a text read piece by
// piece has the scores of one read at once.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "catch.hpp"
#include "gpt_cases.hpp"
#include "heed/models/generate.hpp"

namespace {

using namespace heed;
using namespace heed::test;

template <class T>
TokenId sample(const std::vector<T>& logits, const SamplingOptions& options, Random& random) {
  return sample_token(std::span<const T>(logits), options, random);
}

/// What `draws` samples have been.
template <class T>
std::set<TokenId> samples(const std::vector<T>& logits, const SamplingOptions& options, int draws = 300) {
  Random random(1);
  std::set<TokenId> result;
  for (int n = 0; n < draws; ++n) result.insert(sample(logits, options, random));
  return result;
}

/// The probability of each token, by the words of SamplingOptions.
template <class T>
std::vector<double> probabilities(const std::vector<T>& logits, const SamplingOptions& options) {
  const auto logit = [&](std::size_t i) { return static_cast<long double>(logits[i]); };
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logit(a) > logit(b); });
  if (options.top_k > 0 && options.top_k < std::ssize(order))
    order.resize(static_cast<std::size_t>(options.top_k));
  const long double max = logit(order.front());
  const auto weight = [&](std::size_t i) { return std::exp((logit(i) - max) / options.temperature); };
  long double all = 0;
  for (const std::size_t i : order) all += weight(i);
  long double sum = 0;
  std::size_t kept = 0;
  while (kept < order.size() && (kept == 0 || sum < options.top_p * all)) sum += weight(order[kept++]);
  order.resize(kept);
  std::vector<double> result(logits.size());
  for (const std::size_t i : order) result[i] = static_cast<double>(weight(i) / sum);
  return result;
}

/// The last row of a full pass.
template <class Scalar>
Matrix<Scalar> last_scores(const Gpt<Scalar>& model, std::span<const TokenId> ids) {
  return model.forward(ids).bottomRows(1);
}

/// One model for each kind of positions, with other options that differ.
std::vector<GptConfig> kinds_of_model() {
  std::vector<GptConfig> configs;
  for (std::uint64_t seed = 0; configs.size() < 9; ++seed) {
    const GptConfig config = drawn_config(seed);
    if (config.positions == static_cast<PositionKind>(configs.size() % 3)) configs.push_back(config);
  }
  return configs;
}

const GptConfig small_config{.vocab_size = 12, .context = 16, .num_layers = 2, .num_heads = 2, .d_model = 16};

}  // namespace

TEMPLATE_TEST_CASE("temperature 0 gives the largest, the lower any positive one the surer", "[sampling]",
                   float, double) {
  const std::vector<TestType> logits = {1, 3, 2};
  CHECK(samples(logits, {.temperature = 0}) == std::set<TokenId>{1});
  for (const double temperature : {1e-30, 1e-300, 5e-324})
    CHECK(samples(logits, {.temperature = temperature}) == std::set<TokenId>{1});
  CHECK(samples(logits, {.temperature = 1}) == std::set<TokenId>{0, 1, 2});
  CHECK(samples(logits, {.temperature = 1e300}) == std::set<TokenId>{0, 1, 2});
  CHECK(samples<TestType>({2, 5, 5, 1, 5}, {.temperature = 0}) == std::set<TokenId>{1});
  CHECK(samples<TestType>({2, 5, 5, 1, 5}, {.temperature = 1e-30}) == std::set<TokenId>{1, 2, 4});
  CHECK(samples<TestType>({-0.0, 0}, {.temperature = 0}) == std::set<TokenId>{0});
}

TEMPLATE_TEST_CASE("top_k leaves the likeliest, 0 or too many leave all", "[sampling]", float, double) {
  const std::vector<TestType> logits = {0, 0.5, -0.5, 0.25, 0.5};
  CHECK(samples(logits, {.top_k = 1}) == std::set<TokenId>{1});
  CHECK(samples(logits, {.top_k = 2}) == std::set<TokenId>{1, 4});
  CHECK(samples(logits, {.top_k = 3}) == std::set<TokenId>{1, 3, 4});
  for (const Index all : {Index{0}, Index{5}, Index{6}, std::numeric_limits<Index>::max()}) {
    Random limited(2);
    Random free(2);
    for (int n = 0; n < 100; ++n) CHECK(sample(logits, {.top_k = all}, limited) == sample(logits, {}, free));
  }
  CHECK(samples<TestType>({7, 7, 7, 7}, {.top_k = 2}) == std::set<TokenId>{0, 1});
}

TEMPLATE_TEST_CASE("top_p leaves the likeliest that are together as likely", "[sampling]", float, double) {
  const auto log = [](double p) { return static_cast<TestType>(std::log(p)); };
  const std::vector<TestType> logits = {log(0.1), log(0.5), log(0.15), log(0.25)};
  CHECK(samples(logits, {.top_p = 1e-300}) == std::set<TokenId>{1});
  CHECK(samples(logits, {.top_p = 0.49}) == std::set<TokenId>{1});
  CHECK(samples(logits, {.top_p = 0.51}) == std::set<TokenId>{1, 3});
  CHECK(samples(logits, {.top_p = 0.74}) == std::set<TokenId>{1, 3});
  CHECK(samples(logits, {.top_p = 0.76}) == std::set<TokenId>{1, 2, 3});
  CHECK(samples(logits, {.top_p = 0.91}) == std::set<TokenId>{0, 1, 2, 3});
  CHECK(samples(logits, {.top_p = 1}) == std::set<TokenId>{0, 1, 2, 3});
  // Of those that top_k leaves: 0.5 / 0.75 is more than 0.6.
  CHECK(samples(logits, {.top_k = 2, .top_p = 0.6}) == std::set<TokenId>{1});
  // By the probabilities that the temperature makes.
  CHECK(samples(logits, {.temperature = 0.25, .top_p = 0.9}) == std::set<TokenId>{1});
  CHECK(samples<TestType>({7, 7, 7, 7}, {.top_p = 0.5}) == std::set<TokenId>{0, 1});
}

TEMPLATE_TEST_CASE("with any options, tokens are drawn as often as their probability says", "[sampling]",
                   float, double) {
  constexpr int draws = 4000;
  constexpr Index tokens = 10;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    SamplingOptions options;
    options.temperature = random.uniform(0.3, 3);
    if (seed % 2 == 1) options.top_k = 2 + draw(random, tokens);
    if (seed % 4 >= 2) options.top_p = random.uniform(0.3, 1);
    std::vector<TestType> logits(tokens);
    for (TestType& logit : logits) logit = static_cast<TestType>(random.uniform(-2, 2));
    const std::vector<double> expected = probabilities(logits, options);
    CAPTURE(seed, options.temperature, options.top_k, options.top_p);
    std::vector<int> found(tokens);
    for (int n = 0; n < draws; ++n) ++found[static_cast<std::size_t>(sample(logits, options, random))];
    double chi_square = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == 0) {
        REQUIRE(found[i] == 0);
        continue;
      }
      const double often = expected[i] * draws;
      chi_square += (found[i] - often) * (found[i] - often) / often;
    }
    // Of 9 degrees of freedom; a fair sampler is beyond once in 10000.
    REQUIRE(chi_square < 33.7);
  }
}

TEMPLATE_TEST_CASE("infinite scores are at one end or the other, NaN is refused by its place",
                   "[sampling][errors]", float, double) {
  const TestType inf = kInf<TestType>;
  for (const SamplingOptions& options :
       {SamplingOptions{}, SamplingOptions{.top_k = 4}, SamplingOptions{.top_p = 0.9999},
        SamplingOptions{.temperature = 1e-30}, SamplingOptions{.temperature = 1e300}}) {
    CAPTURE(options.temperature, options.top_k, options.top_p);
    CHECK(samples<TestType>({-inf, 0, -inf, 0, -inf}, options) == std::set<TokenId>{1, 3});
    CHECK(samples<TestType>({0, inf, -inf, inf, 5}, options) == std::set<TokenId>{1, 3});
    CHECK(samples<TestType>({-inf, -3}, options) == std::set<TokenId>{1});
  }
  for (const double temperature : {0.0, 1.0}) {
    Random random(3);
    const auto before = random.state();
    const std::string message = message_of<ArgumentError>([&] {
      sample<TestType>({1, 2, kNaN<TestType>, 3}, {.temperature = temperature}, random);
    });
    CHECK(contains(message, "token 2 is NaN"));
    CHECK(random.state() == before);
  }
}

TEMPLATE_TEST_CASE("logits of which none is finite are refused, and draw nothing", "[sampling][errors]",
                   float, double) {
  const TestType inf = kInf<TestType>;
  for (const double temperature : {0.0, 1.0}) {
    for (const std::vector<TestType>& logits : {std::vector{-inf}, {-inf, -inf}, {inf, inf}, {-inf, inf}}) {
      Random random(3);
      CHECK(contains(message_of<ArgumentError>([&] { sample(logits, {.temperature = temperature}, random); }),
                     "none of the " + std::to_string(logits.size()) + " logits is finite"));
      CHECK(random.state() == Random(3).state());
    }
    // Nor if those that are belong to no token.
    Random random(3);
    CHECK(contains(message_of<ArgumentError>([&] {
                     sample<TestType>({-inf, -inf, 1}, {.temperature = temperature, .vocab_size = 2}, random);
                   }),
                   "none of the 2 logits is finite"));
  }
}

TEMPLATE_TEST_CASE("ids from vocab_size on are never drawn, and count for nothing", "[sampling]", float,
                   double) {
  const std::vector<TestType> logits = {0, 0.5, -0.5, 0.25};
  std::vector<TestType> more = logits;
  more.insert(more.end(), {9, kNaN<TestType>, kInf<TestType>});
  for (const SamplingOptions& options :
       {SamplingOptions{}, SamplingOptions{.temperature = 0}, SamplingOptions{.top_k = 2},
        SamplingOptions{.top_p = 0.6}, SamplingOptions{.top_k = 3, .top_p = 0.7}}) {
    SamplingOptions limited = options;
    limited.vocab_size = 4;
    Random a(6);
    Random b(6);
    for (int n = 0; n < 100; ++n) REQUIRE(sample(more, limited, a) == sample(logits, options, b));
  }
}

TEMPLATE_TEST_CASE("a token takes one number from the generator, none if it is sure to be the largest",
                   "[sampling]", float, double) {
  const std::vector<TestType> logits = {1, 3, 2};
  for (const SamplingOptions& options :
       {SamplingOptions{}, SamplingOptions{.top_k = 2}, SamplingOptions{.top_p = 0.01},
        SamplingOptions{.temperature = 1e-30}}) {
    for (const std::vector<TestType>& given : {logits, {5}}) {
      Random random(4);
      Random expected(4);
      sample(given, options, random);
      expected.random();
      CHECK(random.state() == expected.state());
    }
  }
  for (const SamplingOptions& options : {SamplingOptions{.temperature = 0}, SamplingOptions{.top_k = 1}}) {
    Random random(4);
    CHECK(sample(logits, options, random) == 1);
    CHECK(random.state() == Random(4).state());
  }
}

TEST_CASE("sampling options out of range are refused by their names and values, and draw nothing",
          "[sampling][errors]") {
  const std::vector<float> logits = {1, 3, 2};
  Random random(5);
  const auto refusal = [&](const SamplingOptions& options) {
    return message_of<ArgumentError>([&] { sample(logits, options, random); });
  };
  for (const double wrong : {kNaN<double>, -1.0, -1e-300, kInf<double>})
    CHECK(contains(refusal({.temperature = wrong}), "temperature is " + detail::number_text(wrong)));
  for (const double wrong : {kNaN<double>, 0.0, -0.5, 1.5, kInf<double>})
    CHECK(contains(refusal({.top_p = wrong}), "top_p is " + detail::number_text(wrong)));
  CHECK(contains(refusal({.top_k = -1}), "top_k is -1"));
  CHECK(contains(refusal({.temperature = 0, .top_k = -1}), "top_k is -1"));
  CHECK(contains(message_of<ShapeError>([&] { sample(std::vector<float>{}, {}, random); }), "no logits"));
  CHECK(contains(refusal({.vocab_size = 0}), "vocab_size is 0"));
  CHECK(contains(message_of<ShapeError>([&] { sample(logits, {.vocab_size = 4}, random); }),
                 "vocab_size is 4, there are only 3 logits"));
  CHECK(random.state() == Random(5).state());
}

TEMPLATE_TEST_CASE("a text read piece by piece has the bits of one read at once", "[sampling]", float,
                   double) {
  ThreadPool pool(2);
  for (const GptConfig& config : kinds_of_model()) {
    CAPTURE(config_to_json(config));
    const Gpt<TestType> model = stirred_model<TestType>(config, 6);
    const std::vector<TokenId> ids = drawn_ids(config.context, config.vocab_size, 7);
    const Matrix<TestType> scores = model.forward(ids);
    for (const Index piece : {Index{1}, Index{2}, Index{3}, config.context}) {
      GptDecoder<TestType> decoder(model, std::nullopt, piece == 2 ? &pool : nullptr);
      CHECK(decoder.num_tokens() == 0);
      for (Index at = 0; at < config.context; at += piece) {
        const Index count = std::min(piece, config.context - at);
        const auto read = std::span<const TokenId>(ids).subspan(static_cast<std::size_t>(at),
                                                                static_cast<std::size_t>(count));
        REQUIRE(same_bits(decoder.read(read), scores.row(at + count - 1)));
        REQUIRE(same_bits(decoder.logits(), scores.row(at + count - 1)));
        REQUIRE(decoder.num_tokens() == at + count);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a text longer than the context goes on from its last tokens", "[sampling]", float,
                   double) {
  for (const GptConfig& drawn : kinds_of_model()) {
    for (const Index context : {1, 2, 5}) {
      GptConfig config = drawn;
      config.context = context;
      const Gpt<TestType> model = stirred_model<TestType>(config, 8);
      const std::vector<TokenId> ids = drawn_ids(4 * context + 3, config.vocab_size, 9);
      for (Index keep = 0; keep <= context; ++keep) {  // 0: the default
        CAPTURE(config_to_json(config), keep);
        GptDecoder<TestType> decoder(model, keep == 0 ? std::nullopt : std::optional(keep));
        const Index kept = keep == 0 ? std::max<Index>(1, context / 2) : keep;
        std::vector<TokenId> window;
        for (const TokenId id : ids) {
          window.push_back(id);
          if (std::ssize(window) > context) window.erase(window.begin(), window.end() - kept);
          REQUIRE(same_bits(decoder.read(std::span(&id, 1)), last_scores(model, window)));
          REQUIRE(decoder.num_tokens() == std::ssize(window));
        }
      }
    }
  }
}

TEST_CASE("with keep = context every token sees the last ones that fit", "[sampling]") {
  const Gpt<float> model = stirred_model<float>(small_config, 10);
  const std::vector<TokenId> ids = drawn_ids(50, 12, 11);
  GptDecoder<float> decoder(model, 16);
  for (std::size_t n = 1; n <= ids.size(); ++n) {
    const std::span<const TokenId> text = std::span<const TokenId>(ids).first(n);
    REQUIRE(
        same_bits(decoder.read(text.last(1)), last_scores(model, text.last(std::min<std::size_t>(n, 16)))));
  }
}

TEST_CASE("of a piece longer than the context the end is read, of another all of it", "[sampling]") {
  const Gpt<float> model = stirred_model<float>(small_config, 12);
  const std::vector<TokenId> ids = drawn_ids(60, 12, 13);
  const std::span<const TokenId> all(ids);
  const auto expected = [&](std::size_t end, std::size_t count) {
    return last_scores(model, all.first(end).last(count));
  };
  GptDecoder<float> decoder(model, 4);
  CHECK(same_bits(decoder.read(all.first(40)), expected(40, 16)));
  CHECK(same_bits(decoder.read(all.subspan(40, 2)), expected(42, 4)));  // full: keep tokens, the 2 included
  CHECK(same_bits(decoder.read(all.subspan(42, 9)), expected(51, 13)));
  CHECK(same_bits(decoder.read(all.subspan(51, 6)), expected(57, 6)));  // full: the 6, which are more
  CHECK(decoder.num_tokens() == 6);
}

TEST_CASE("a decoder that has forgotten its last tokens is one that never read them", "[sampling]") {
  for (const GptConfig& config : kinds_of_model()) {
    CAPTURE(config_to_json(config));
    const Gpt<float> model = stirred_model<float>(config, 25);
    const std::vector<TokenId> first = drawn_ids(config.context, config.vocab_size, 26);
    const std::vector<TokenId> second = drawn_ids(config.context + 3, config.vocab_size, 27);
    for (Index kept = 0; kept <= config.context; ++kept) {
      GptDecoder<float> decoder(model);
      GptDecoder<float> other(model);
      decoder.read(first);
      const Matrix<float> scores = decoder.logits();
      decoder.truncate(kept);
      CHECK(decoder.num_tokens() == kept);
      CHECK(same_bits(decoder.logits(), scores));
      if (kept > 0) other.read(std::span<const TokenId>(first).first(static_cast<std::size_t>(kept)));
      for (const TokenId& id : second)
        REQUIRE(same_bits(decoder.read(std::span(&id, 1)), other.read(std::span(&id, 1))));
      for (const Index wrong : {Index{-1}, decoder.num_tokens() + 1}) {
        CHECK(contains(message_of<RangeError>([&] { decoder.truncate(wrong); }),
                       "first " + std::to_string(wrong) + " tokens"));
      }
    }
  }
}

TEST_CASE("a decoder refuses nothing to read and foreign tokens, and is as it was before",
          "[sampling][errors]") {
  const Gpt<float> model = stirred_model<float>(small_config, 14);
  GptDecoder<float> decoder(model, 16);
  const std::vector<TokenId> ids = {1, 2, 3};
  decoder.read(ids);
  CHECK(contains(message_of<ArgumentError>([&] { decoder.read({}); }), "at least one"));
  for (const TokenId wrong : {12, -1, INT32_MAX}) {
    const std::vector<TokenId> bad = {4, wrong};
    CHECK(contains(message_of<RangeError>([&] { decoder.read(bad); }),
                   "id " + std::to_string(wrong) + " at position 1"));
  }
  CHECK(decoder.num_tokens() == 3);
  CHECK(same_bits(decoder.logits(), last_scores(model, ids)));
  // Beyond the context as well, where what was read before is looked at again.
  GptDecoder<float> other(model, 16);
  other.read(ids);
  for (const TokenId& id : drawn_ids(30, 12, 15))
    REQUIRE(same_bits(decoder.read(std::span(&id, 1)), other.read(std::span(&id, 1))));
  for (const Index keep : {-1, 0, 17}) {
    CHECK(contains(message_of<ArgumentError>([&] { GptDecoder<float>(model, keep); }),
                   "keep is " + std::to_string(keep)));
  }
}

TEST_CASE("the text is what a loop of full passes and samples writes", "[sampling]") {
  const Gpt<double> model = stirred_model<double>(small_config, 15);
  const std::vector<TokenId> prompt = {3, 1, 4};
  for (const SamplingOptions& sampling : {SamplingOptions{.temperature = 0}, SamplingOptions{.top_k = 6}}) {
    Random random(16);
    Random own(16);
    const std::vector<TokenId> text =
        generate(model, prompt, {.max_new_tokens = 40, .sampling = sampling, .keep = 16}, random);
    std::vector<TokenId> all = prompt;
    for (int n = 0; n < 40; ++n) {
      const std::span<const TokenId> seen =
          std::span<const TokenId>(all).last(std::min<std::size_t>(all.size(), 16));
      const Matrix<double> scores = last_scores(model, seen);
      all.push_back(sample_token(std::span<const double>(scores.data(), 12), sampling, own));
    }
    CHECK(text == std::vector<TokenId>(all.begin() + 3, all.end()));
    CHECK(random.state() == own.state());
  }
}

TEST_CASE("the same seed writes the same text on one and on four threads", "[sampling][threads]") {
  GptConfig config = small_config;
  config.d_model = 64;
  config.context = 64;
  config.vocab_size = 300;
  const Gpt<float> model = stirred_model<float>(config, 17, 0.1);
  const std::vector<TokenId> prompt = drawn_ids(70, 300, 18);
  ThreadPool pool(4);
  std::vector<std::vector<TokenId>> texts;
  for (Executor* executor : std::initializer_list<Executor*>{nullptr, &pool}) {
    Random random(19);
    texts.push_back(
        generate(model, prompt, {.max_new_tokens = kSlowRun ? 20 : 80, .executor = executor}, random));
  }
  CHECK(texts[0].size() == (kSlowRun ? 20 : 80));
  CHECK(texts[0] == texts[1]);
  Random other(20);
  CHECK(generate(model, prompt, {.max_new_tokens = 20}, other) !=
        std::vector<TokenId>(texts[0].begin(), texts[0].begin() + 20));
}

TEST_CASE("a text ends before a stop token, after on_token returns false, or at its length", "[sampling]") {
  const Gpt<float> model = stirred_model<float>(small_config, 21);
  const std::vector<TokenId> prompt = {5, 6};
  const auto write = [&](const GenerateOptions& options, const std::function<bool(TokenId)>& on_token = {}) {
    Random random(22);
    return generate(model, prompt, options, random, on_token);
  };
  const std::vector<TokenId> text = write({.max_new_tokens = 30});
  REQUIRE(text.size() == 30);
  const std::vector<TokenId> stops = {text[7], text[12]};
  const auto stop = std::find_first_of(text.begin(), text.end(), stops.begin(), stops.end());
  CHECK(write({.max_new_tokens = 30, .stop_tokens = stops}) == std::vector<TokenId>(text.begin(), stop));
  CHECK(write({.max_new_tokens = 30, .stop_tokens = {text[0]}}).empty());
  CHECK(write({.max_new_tokens = 30, .stop_tokens = {12, -1}}) == text);

  std::vector<TokenId> heard;
  const auto hear = [&](TokenId token) {
    heard.push_back(token);
    return heard.size() != 5;
  };
  CHECK(write({.max_new_tokens = 30}, hear) == std::vector<TokenId>(text.begin(), text.begin() + 5));
  CHECK(heard == std::vector<TokenId>(text.begin(), text.begin() + 5));
  heard.clear();
  CHECK(write({.max_new_tokens = 4}, hear).size() == 4);
  CHECK(heard.size() == 4);
  heard.clear();
  CHECK(write({.max_new_tokens = 30, .stop_tokens = {text[0]}}, hear).empty());
  CHECK(write({.max_new_tokens = 0}, hear).empty());
  CHECK(heard.empty());
  CHECK(write({.max_new_tokens = 1}) == std::vector<TokenId>{text[0]});
}

TEST_CASE("a model with more rows than the tokenizer has tokens writes tokens alone", "[sampling]") {
  Gpt<float> model = stirred_model<float>(small_config, 25);
  for (Index row = 9; row < 12; ++row) model.tokens.table.row(row) *= 50;  // likely, were they tokens
  const std::vector<TokenId> prompt = {1, 2};
  const auto write = [&](const SamplingOptions& sampling) {
    Random random(26);
    std::vector<TokenId> drawn;
    for (int n = 0; n < 20; ++n) {
      const auto text = generate(model, prompt, {.max_new_tokens = 20, .sampling = sampling}, random);
      drawn.insert(drawn.end(), text.begin(), text.end());
    }
    return *std::max_element(drawn.begin(), drawn.end());
  };
  CHECK(write({}) > 8);
  CHECK(write({.vocab_size = 9}) <= 8);
  CHECK(write({.temperature = 3, .top_k = 10, .vocab_size = 9}) <= 8);
}

TEST_CASE("what no text can be written of is refused before anything is drawn", "[sampling][errors]") {
  Gpt<float> model = stirred_model<float>(small_config, 23);
  const std::vector<TokenId> prompt = {1, 2};
  Random random(24);
  bool called = false;
  const auto write = [&](const std::vector<TokenId>& given, const GenerateOptions& options = {}) {
    generate(model, given, options, random, [&](TokenId) { return called = true; });
  };
  CHECK(contains(message_of<ArgumentError>([&] { write({}); }), "no tokens"));
  CHECK(contains(message_of<ArgumentError>([&] { write({}, {.max_new_tokens = 0}); }), "no tokens"));
  CHECK(contains(message_of<RangeError>([&] { write({0, 11, 12}); }), "id 12 at position 2"));
  CHECK(contains(message_of<RangeError>([&] { write({-1}); }), "id -1 at position 0"));
  CHECK(contains(message_of<ArgumentError>([&] { write(prompt, {.max_new_tokens = -1}); }),
                 "max_new_tokens is -1"));
  CHECK(contains(message_of<ArgumentError>([&] { write(prompt, {.sampling = {.temperature = -1}}); }),
                 "temperature is -1"));
  CHECK(contains(message_of<ShapeError>([&] { write(prompt, {.sampling = {.vocab_size = 13}}); }),
                 "vocab_size is 13, there are only 12 logits"));
  CHECK(contains(message_of<ArgumentError>([&] { write(prompt, {.keep = 17}); }), "keep is 17"));
  model.final_norm.weight[0] = kNaN<float>;
  CHECK(contains(message_of<ArgumentError>([&] { write(prompt); }), "token 0 is NaN"));
  CHECK(random.state() == Random(24).state());
  CHECK_FALSE(called);
}
