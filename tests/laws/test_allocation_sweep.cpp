// A call that gets no memory ends with std::bad_alloc, and what it worked on is as it was. Each allocation of
// each call is made to fail, alone and with all that follow. (Checkpoints and CharTokenizer:
// tests/models/test_checkpoint_memory.cpp.)

#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "allocation_sweep.hpp"
#include "catch.hpp"
#include "engine_calls.hpp"
#include "gpt_cases.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return same_bits(std::span<const float>(a), std::span<const float>(b));
}

/// A call whose result is a value: nothing is left behind but memory, which a leak checker would see.
template <class F>
void sweep_value(const char* name, const F& f) {
  const auto expected = f();
  sweep_allocations(
      name, [] { return false; }, [&](bool& right) { right = f() == expected; }, [](bool) {},
      [](bool right) { CHECK(right); });
}

/// Calls on an object of which describe(object) tells all: after a failed call it says what it said before.
template <class Make, class Call, class Describe>
long sweep_object(const char* name, const Make& make, const Call& call, const Describe& describe) {
  const auto before = describe(*make());
  const auto good = make();
  call(*good);
  const auto after = describe(*good);
  return sweep_allocations(
      name, make, [&](auto& object) { call(*object); },
      [&](const auto& object) { CHECK(describe(*object) == before); },
      [&](const auto& object) { CHECK(describe(*object) == after); });
}

/// All of a cache: what attention reads from it, bit by bit, and the lengths.
std::vector<float> described(const KvCache<float>& cache) {
  std::vector<float> all(cache.lengths().begin(), cache.lengths().end());
  const Index batch = cache.shape().batch_size;
  AttentionOptions options;
  options.num_heads = cache.shape().num_kv_heads;
  const Matrix<float> out = scaled_dot_product_attention(
      random_matrix<float>(batch, options.num_heads * cache.shape().head_dim, 5), cache, options);
  all.insert(all.end(), out.data(), out.data() + out.size());
  return all;
}

const KvCacheOptions kShape{.batch_size = 2, .num_kv_heads = 2, .head_dim = 4, .value_dim = 4, .capacity = 9};

std::unique_ptr<KvCache<float>> filled_cache() {
  auto cache = std::make_unique<KvCache<float>>(kShape);
  cache->append(random_matrix<float>(4, 8, 1), random_matrix<float>(4, 8, 2));
  return cache;
}

const GptConfig kConfig{.vocab_size = 7,
                        .context = 6,
                        .num_layers = 2,
                        .num_heads = 2,
                        .d_model = 8,
                        .positions = PositionKind::rotary};

/// Training with its model, so that both live equally long.
struct Training {
  Gpt<float> model = stirred_model<float>(kConfig, 3);
  GptTrainer<float> trainer{model, {.batch_size = 2, .seq_len = 5}};
  TokenBatch batch = drawn_batch(10, 7, 4);

  std::vector<float> described() const {
    const TrainingState<float> state(trainer);
    std::vector<float> all = state.weights;
    for (const auto* part : {&state.first_moments, &state.second_moments})
      all.insert(all.end(), part->begin(), part->end());
    all.push_back(static_cast<float>(state.steps));
    return all;
  }
};

}  // namespace

TEST_CASE("the sweep fails each allocation once, and sees what a failed call leaves behind",
          "[memory][bad_alloc]") {
  std::vector<long> failures;
  const long made = sweep_allocations(
      "two vectors", [] { return std::vector<std::vector<int>>(2); },
      [](std::vector<std::vector<int>>& both) {
        both[0].resize(100);
        both[1].resize(100);
      },
      [&](const std::vector<std::vector<int>>& both) {
        failures.push_back(static_cast<long>(both[0].size() + both[1].size()));
      },
      [](const std::vector<std::vector<int>>& both) { CHECK(both[1].size() == 100); });
  CHECK(made == 2);
  CHECK(failures == std::vector<long>{0, 100, 0, 100});
#if defined(HEED_COUNTS_MALLOC)
  CHECK(sweep_allocations(
            "a matrix", [] { return 0; },
            [](int& sum) { sum = static_cast<int>(Matrix<double>::Ones(30, 30).eval().sum()); }, [](int) {},
            [](int sum) { CHECK(sum == 900); }) == 1);
#endif
}

TEST_CASE("no call of the engine ends the program without memory, or leaves numbers half changed",
          "[memory][bad_alloc]") {
  const EngineCalls untouched;
  const std::vector<float> before = untouched.numbers();
  const std::size_t count = EngineCalls().calls().size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = EngineCalls().calls()[i].first;
    struct Prepared {
      EngineCalls engine;
      Call call;
    };
    sweep_allocations(
        name.c_str(),
        [&] {
          auto prepared = std::make_unique<Prepared>();
          prepared->call = prepared->engine.calls()[i].second;
          return prepared;
        },
        [](auto& prepared) { prepared->call(); },
        [&](const auto& prepared) { CHECK(same(prepared->engine.numbers(), before)); }, [](const auto&) {});
  }
}

TEST_CASE("a cache that gets no memory is what it was", "[memory][bad_alloc][rotary][cache]") {
  const auto call = [](const char* name, const auto& f) { sweep_object(name, filled_cache, f, described); };
  const Matrix<float> key = random_matrix<float>(4, 8, 3);
  const Matrix<float> value = random_matrix<float>(4, 8, 4);
  call("KvCache::append", [&](KvCache<float>& cache) { cache.append(key, value); });
  call("KvCache::append with a rotary that has no table yet",
       [&](KvCache<float>& cache) { cache.append(key, value, Rotary(4, 9)); });
  call("KvCache::append_to", [&](KvCache<float>& cache) { cache.append_to(1, key, value, Rotary(4, 9)); });
  call("KvCache::truncate", [&](KvCache<float>& cache) { cache.truncate(0, 1); });
  call("KvCache::copy_sequence", [&](KvCache<float>& cache) { cache.copy_sequence(0, 1); });
  call("KvCache::fork", [](KvCache<float>& cache) { cache = cache.fork(); });
  const KvCache<float> empty(kShape);
  call("KvCache::operator=", [&](KvCache<float>& cache) { cache = empty; });

  Random random(1);
  const MultiHeadAttention<float> layer(8, 2, random);
  LayerOptions options;
  options.mask = causal();
  options.score.rotary = Rotary(4, 9);
  const Matrix<float> x = random_matrix<float>(2, 8, 6);
  call("MultiHeadAttention::step", [&](KvCache<float>& cache) { (void)layer.step(x, cache, options); });
  call("MultiHeadAttention::prefill",
       [&](KvCache<float>& cache) { (void)layer.prefill(key, cache, options); });
  call("MultiHeadAttention::decode_plan", [&](KvCache<float>& cache) {
    const auto plan = layer.decode_plan(cache.shape(), 1, options);
    Workspace workspace(plan.workspace_bytes());
    Matrix<float> out(2, 8);
    layer.decode_into(x, cache, out, plan, workspace.data());
  });
}

TEST_CASE("a decoder that gets no memory goes on as if nothing had happened", "[memory][bad_alloc][cache]") {
  const Gpt<float> model = stirred_model<float>(kConfig, 1);
  const std::vector<TokenId> ids = drawn_ids(9, 7, 2);
  const auto described_decoder = [&](const GptDecoder<float>& decoder) {
    GptDecoder<float> copy(decoder);
    const Matrix<float> next = copy.read(std::span(ids).first(1));
    std::vector<float> all(next.data(), next.data() + next.size());
    all.insert(all.end(), decoder.logits().data(), decoder.logits().data() + decoder.logits().size());
    return all;
  };
  const auto make = [&] {
    auto decoder = std::make_unique<GptDecoder<float>>(model);
    decoder->read(std::span(ids).first(3));
    return decoder;
  };
  const auto call = [&](const char* name, const auto& f) {
    return sweep_object(name, make, f, described_decoder);
  };
  CHECK(call("GptDecoder::read", [&](GptDecoder<float>& d) { d.read(std::span(ids).first(2)); }) == 0);
  CHECK(call("GptDecoder::read, a full context", [&](GptDecoder<float>& d) { d.read(ids); }) == 0);
  CHECK(call("GptDecoder::truncate", [&](GptDecoder<float>& d) { d.truncate(1); }) == 0);
  // Bad input is an exception, whose words need memory: the text is what it was either way.
  const TokenId unknown = 7;
  call("GptDecoder::read, refused", [&](GptDecoder<float>& d) {
    try {
      d.read(std::span(&unknown, 1));
    } catch (const RangeError&) {
    }
  });
}

TEST_CASE("a training that gets no memory is what it was", "[memory][bad_alloc]") {
  const auto make = [] { return std::make_unique<Training>(); };
  const auto describe = [](const Training& training) { return training.described(); };
  CHECK(sweep_object(
            "GptTrainer::step", make,
            [](Training& t) { t.trainer.step(t.batch.inputs, t.batch.targets, 0.1); }, describe) == 0);
  CHECK(sweep_object(
            "GptTrainer::loss", make, [](Training& t) { t.trainer.loss(t.batch.inputs, t.batch.targets); },
            describe) == 0);
  sweep_object(
      "GptTrainer::loss of batches", make,
      [](Training& t) {
        const TokenWindows windows(drawn_ids(30, 7, 5), 5);
        t.trainer.loss(windows.in_order(2));
      },
      describe);
  sweep_object(
      "a second trainer of one model", make,
      [](Training& t) { GptTrainer<float>(t.model, {.batch_size = 1, .seq_len = 5}); }, describe);
  sweep_object(
      "AdamW::restore", make,
      [](Training& t) {
        const std::vector<float> moments(t.trainer.optimizer().first_moments().size(), 0.5F);
        t.trainer.optimizer().restore(3, moments, moments);
      },
      describe);
  sweep_object(
      "clip_gradients", make, [](Training& t) { clip_gradients(t.trainer.parameters(), 1e-3); }, describe);
}

TEST_CASE("tokenizers, pictures and files without memory end with bad_alloc", "[memory][bad_alloc]") {
  const std::string corpus =
      "the quick brown fox jumps over the lazy dog, the quicker the better. \xE2\x82\xAC";
  sweep_value("train_bpe", [&] { return train_bpe(corpus, {.vocab_size = 40}).to_json(); });
  const BpeTokenizer tokenizer = train_bpe(corpus, {.vocab_size = 40});
  const std::string json = tokenizer.to_json();
  sweep_value("BpeTokenizer::encode", [&] { return tokenizer.encode(corpus); });
  sweep_value("BpeTokenizer::decode", [&] { return tokenizer.decode(tokenizer.encode(corpus)); });
  sweep_value("BpeTokenizer::to_json", [&] { return tokenizer.to_json(); });
  sweep_value("BpeTokenizer::from_json", [&] { return BpeTokenizer::from_json(json).vocab_size(); });

  const Matrix<double> m = random_matrix<double>(9, 7, 1);
  sweep_value("heat_map", [&] { return heat_map(m); });
  std::vector<double> curve(50);
  for (std::size_t i = 0; i < curve.size(); ++i) curve[i] = std::sqrt(static_cast<double>(i));
  sweep_value("plot_curve", [&] { return plot_curve(curve); });
  sweep_value("plot_scatter", [&] {
    return plot_scatter(
        {LabeledPoint{0, 1, "a"}, LabeledPoint{2, 1, "\xE2\x82\xAC"}, LabeledPoint{1, 3, "c"}});
  });
  sweep_value("pca", [&] { return pca(m, 2).explained_variance.size(); });
  sweep_value("escaped", [&] { return escaped(corpus); });
  sweep_value("padded", [&] { return padded("a", 60); });

  const std::vector<float> logits{1, 2, 3, 4, 5, 6, 7, 8};
  sweep_value("sample_token", [&] {
    Random random(1);
    return sample_token(std::span<const float>(logits), {.temperature = 0.8, .top_k = 5, .top_p = 0.9},
                        random);
  });
  const Gpt<float> model = stirred_model<float>(kConfig, 1);
  sweep_value("generate", [&] {
    Random random(1);
    const std::vector<TokenId> prompt{1, 2};
    return generate(model, std::span<const TokenId>(prompt), {.max_new_tokens = 9}, random);
  });
}

TEST_CASE("a pool that gets no memory for its threads is not made, and leaves none behind",
          "[memory][bad_alloc][threads]") {
  for (const bool lasting : {false, true}) {
    for (long number = 1;; ++number) {
      bool made = false;
      const bool failed = with_failing_allocation("ThreadPool", number, lasting, [&] {
        try {
          const ThreadPool pool(4);
          made = true;
        } catch (const std::bad_alloc&) {
        } catch (const std::system_error&) {  // the system could not start a thread
        }
      });
      CHECK(made == !failed);
      if (!failed) break;
    }
  }
}
