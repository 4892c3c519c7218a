// Plans over a cache that grows: planned once, then step by step with the bits of the functions, and without
// an allocation from the first step on.

#include <cstring>
#include <optional>
#include <vector>

#include "allocation_sweep.hpp"
#include "catch.hpp"
#include "gpt_cases.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/attention/cached_plan.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "heed/models/generate.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

struct Case {
  const char* name;
  KvCacheOptions cache;
  Index num_heads;
  Index max_new_tokens;
  std::vector<Index> steps;  // new tokens of each
  Mask mask = causal();
  ScoreOptions options = {};
  Index threads = 1;
};

std::vector<Case> cases() {
  const KvCacheOptions plain{.num_kv_heads = 2, .head_dim = 8, .value_dim = 12, .capacity = 700};
  const auto with = [&](auto change) {
    KvCacheOptions shape = plain;
    change(shape);
    return shape;
  };
  const KvCacheOptions ring = with([](KvCacheOptions& s) { s.capacity = 60, s.ring = true; });
  const KvCacheOptions grouped = with([](KvCacheOptions& s) { s.num_kv_heads = 1; });
  const KvCacheOptions batch = with([](KvCacheOptions& s) { s.batch_size = 3; });
  const KvCacheOptions half = with([](KvCacheOptions& s) { s.storage = KvStorage::float16; });
  ScoreOptions rotary;
  rotary.rotary = Rotary(6, 700);
  ScoreOptions all = rotary;
  all.scale = 0.3;
  all.softcap = 5;
  all.sinks = {0.5, -1, 0, 2};
  return {
      {"single tokens", plain, 2, 1, {1, 1, 1}},
      {"a prompt, then tokens", plain, 2, 40, {40, 1, 1, 17, 300 - 270, 1}},
      {"more than a tile of keys", plain, 2, 300, {300, 1, 255, 1, 2}},
      {"heads that share keys", grouped, 4, 5, {5, 1, 3}},
      {"heads that share keys, few queries and many", grouped, 4, 300, {300, 1, 17, 290}},
      {"sequences", batch, 4, 6, {6, 1, 2, 1}},
      {"window", plain, 2, 9, {9, 9, 9, 1, 1}, causal() & window(4, 0)},
      {"alibi", plain, 2, 9, {9, 1, 1}, causal() & alibi(alibi_slopes(2))},
      {"no mask", plain, 2, 9, {9, 1}, Mask()},
      {"rotary", plain, 2, 9, {9, 1, 5}, causal(), rotary},
      {"all options", grouped, 4, 9, {9, 1, 5}, causal() & window(7, kUnlimited), all},
      {"a ring", ring, 2, 8, {8, 8, 8, 8, 8, 8, 8, 8, 8, 1, 7, 1}, window(50, 0)},
      {"a ring with rotary", ring, 4, 1, std::vector<Index>(90, 1), causal() & window(20, 0), all},
      {"threads", batch, 4, 300, {300, 1, 50}, causal(), rotary, 3},
      {"16 bits with rotary, beyond a tile", half, 2, 1, std::vector<Index>(300, 1), causal(), rotary},
      {"16 bits", half, 2, 9, {9, 1, 1}},
  };
}

template <class T>
bool possible(const Case& c) {
  return sizeof(T) == sizeof(float) || c.cache.storage == KvStorage::same;
}

}  // namespace

TEMPLATE_TEST_CASE("a plan over a cache gives the bits of the function at every step, in its memory",
                   "[decode][cache][rotary][bits][plan][memory]", float, double) {
  ThreadPool pool(3);
  for (const Case& c : cases()) {
    if (!possible<TestType>(c)) continue;
    CAPTURE(c.name);
    KvCache<TestType> cache(c.cache);
    const CachedAttentionPlan<TestType> plan(c.cache, c.num_heads, c.max_new_tokens, c.mask, c.options,
                                             c.threads);
    Workspace workspace(plan.workspace_bytes() + Workspace::alignment);
    auto* const guard = static_cast<unsigned char*>(workspace.data()) + plan.workspace_bytes();
    AttentionOptions options;
    options.mask = c.mask;
    options.num_heads = c.num_heads;
    options.scale = c.options.scale;
    options.softcap = c.options.softcap;
    options.sinks = c.options.sinks;
    options.rotary = c.options.rotary;
    Executor* const executor = c.threads > 1 ? &pool : nullptr;
    std::uint64_t seed = 1;
    for (const Index n : c.steps) {
      CAPTURE(n, cache.kv_len());
      const Index rows = n * c.cache.batch_size;
      const auto query = random_matrix<TestType>(rows, c.num_heads * c.cache.head_dim, seed++);
      const auto key = random_matrix<TestType>(rows, c.cache.num_kv_heads * c.cache.head_dim, seed++);
      const auto value = random_matrix<TestType>(rows, c.cache.num_kv_heads * c.cache.value_dim, seed++);
      cache.append(key, value, c.options.rotary);
      std::memset(workspace.data(), 0xFF, plan.workspace_bytes() + Workspace::alignment);
      Matrix<TestType> out(rows, c.num_heads * c.cache.value_dim);
      plan.check_tensors(view(query), cache, mutable_view(out));
      plan.run(view(query), cache, mutable_view(out), workspace.data(), executor);
      CHECK(same_bits(out, scaled_dot_product_attention(query, cache, options)));
      for (std::size_t i = 0; i < Workspace::alignment; ++i) REQUIRE(guard[i] == 0xFF);
    }
  }
}

TEST_CASE("a plan over a cache serves sequences of different lengths", "[decode][cache][ragged][plan]") {
  KvCache<float> cache({.batch_size = 3, .num_kv_heads = 1, .head_dim = 8, .value_dim = 8, .capacity = 30});
  for (Index b = 0; b < 3; ++b) {
    const auto tokens = random_matrix<float>(5 + 7 * b, 8, 20 + static_cast<std::uint64_t>(b));
    cache.append_to(b, tokens, tokens);
  }
  const CachedAttentionPlan<float> plan(cache.shape(), 2, 4);
  Workspace workspace(plan.workspace_bytes());
  const auto query = random_matrix<float>(3 * 4, 16, 7);
  Matrix<float> out(12, 16);
  plan.check_tensors(view(query), cache, mutable_view(out));
  plan.run(view(query), cache, mutable_view(out), workspace.data());
  AttentionOptions options;
  options.mask = causal();
  options.num_heads = 2;
  CHECK(same_bits(out, scaled_dot_product_attention(query, cache, options)));
}

TEMPLATE_TEST_CASE("decoding with plans allocates nothing from the first step on",
                   "[decode][cache][rotary][plan][memory]", float, double) {
  using T = TestType;
  ThreadPool pool(2);
  for (const Case& c : cases()) {
    if (!possible<T>(c)) continue;
    CAPTURE(c.name);
    const Index heads = c.num_heads;
    Random random(3);
    MultiHeadAttentionConfig sizes{.d_model = 10, .num_heads = heads};
    sizes.num_kv_heads = c.cache.num_kv_heads;
    sizes.head_dim = c.cache.head_dim;
    sizes.value_dim = c.cache.value_dim;
    sizes.bias = true;
    const MultiHeadAttention<T> layer(sizes, random);
    LayerOptions options;
    options.mask = c.mask;
    options.score = c.options;
    options.executor = c.threads > 1 ? &pool : nullptr;
    // One cache for the attention alone, one for the layer with a plan, one for the layer without.
    KvCache<T> cache(c.cache);
    KvCache<T> planned(c.cache);
    KvCache<T> expected(c.cache);
    const CachedAttentionPlan<T> attention(c.cache, heads, c.max_new_tokens, c.mask, c.options, c.threads);
    const auto decode = layer.decode_plan(c.cache, c.max_new_tokens, options);
    Workspace workspace(std::max(attention.workspace_bytes(), decode.workspace_bytes()) +
                        Workspace::alignment);
    auto* const guard = static_cast<unsigned char*>(workspace.data()) + decode.workspace_bytes();
    std::uint64_t seed = 1;
    for (const Index n : c.steps) {
      const Index rows = n * c.cache.batch_size;
      const auto query = random_matrix<T>(rows, heads * c.cache.head_dim, seed++);
      const auto key = random_matrix<T>(rows, c.cache.num_kv_heads * c.cache.head_dim, seed++);
      const auto value = random_matrix<T>(rows, c.cache.num_kv_heads * c.cache.value_dim, seed++);
      const auto x = random_matrix<T>(rows, 10, seed++);
      Matrix<T> attended(rows, heads * c.cache.value_dim);
      Matrix<T> out(rows, 10);
      std::memset(workspace.data(), 0xFF, workspace.size());
      // Counted, and failing if there were one.
      const long before = allocations;
      const bool failed = with_failing_allocation("a step", 1, true, [&] {
        cache.append(key, value, c.options.rotary);
        attention.check_tensors(view(query), cache, mutable_view(attended));
        attention.run(view(query), cache, mutable_view(attended), workspace.data(), options.executor);
        std::memset(guard, 0xFF, Workspace::alignment);
        layer.decode_into(x, planned, out, decode, workspace.data(), options.executor);
      });
      CHECK_FALSE(failed);
      CHECK(allocations == before);
      CHECK(same_bits(out, layer.prefill(x, expected, options)));
      for (std::size_t i = 0; i < Workspace::alignment; ++i) REQUIRE(guard[i] == 0xFF);
    }
  }
}

TEMPLATE_TEST_CASE("a decoder of a model allocates nothing from its first token on",
                   "[decode][cache][memory]", float, double) {
  ThreadPool pool(2);
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    GptConfig config = drawn_config(seed);
    config.context += 20;
    const Gpt<TestType> model = stirred_model<TestType>(config, seed);
    const std::vector<TokenId> ids = drawn_ids(3 * config.context, config.vocab_size, seed);
    for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
      CAPTURE(seed, executor != nullptr);
      GptDecoder<TestType> decoder(model, std::nullopt, executor);
      const GptDecoder<TestType> copied(decoder);
      GptDecoder<TestType> decoders[] = {std::move(decoder), GptDecoder<TestType>(copied)};
      for (GptDecoder<TestType>& d : decoders) {
        const long before = allocations;
        const bool failed = with_failing_allocation("GptDecoder::read", 1, true, [&] {
          for (std::size_t at = 0; at < ids.size();) {
            const std::size_t n = std::min(ids.size() - at, at == 0 ? std::size_t{9} : at % 3 + 1);
            d.read(std::span(ids).subspan(at, n));
            at += n;
            if (at == 15) d.truncate(12);
          }
          d.read(ids);
        });
        CHECK_FALSE(failed);
        CHECK(allocations == before);
      }
      CHECK(same_bits(decoders[0].logits(), decoders[1].logits()));
    }
  }
}

TEST_CASE("a copy of a decoder goes its own way from the same text", "[decode][cache]") {
  const GptConfig config{.vocab_size = 11, .context = 30, .num_layers = 2, .num_heads = 2, .d_model = 8};
  const Gpt<float> model = stirred_model<float>(config, 1);
  const std::vector<TokenId> ids = drawn_ids(20, 11, 2);
  GptDecoder<float> trunk(model);
  trunk.read(std::span(ids).first(10));
  GptDecoder<float> branch(trunk);
  CHECK(same_bits(branch.logits(), trunk.logits()));
  branch.read(std::span(ids).subspan(3, 4));
  const Matrix<float> straight = trunk.read(std::span(ids).last(10));
  CHECK(same_bits(straight, model.forward(ids).bottomRows(1)));
  branch.truncate(10);
  CHECK(same_bits(branch.read(std::span(ids).last(10)), straight));
}

TEST_CASE("a prompt longer than the parts it is read in has the bits of one pass", "[decode][cache][bits]") {
  const GptConfig config{.vocab_size = 11, .context = 300, .num_layers = 2, .num_heads = 2, .d_model = 8};
  const Gpt<float> model = stirred_model<float>(config, 1);
  const std::vector<TokenId> ids = drawn_ids(300, 11, 2);
  GptDecoder<float> decoder(model);
  CHECK(same_bits(decoder.read(ids), model.forward(ids).bottomRows(1)));
}

TEST_CASE("plans over a cache refuse what holds for one length only, and what does not fit",
          "[decode][cache][errors][plan]") {
  const KvCacheOptions shape{.num_kv_heads = 2, .head_dim = 8, .value_dim = 8, .capacity = 20};
  const auto refused = [&](const Mask& mask, Index new_tokens, bool ring = false) {
    KvCacheOptions own = shape;
    own.ring = ring;
    return message_of<Error>([&] { CachedAttentionPlan<float>(own, 2, new_tokens, mask); });
  };
  const Matrix<float> matrix = Matrix<float>::Zero(1, 20);
  CHECK(contains(refused(bias(matrix), 1), "the mask has a bias, whose columns are keys"));
  CHECK(contains(refused(kv_lengths({3}), 1), "kv_lengths"));
  CHECK(contains(refused(query_offset(3), 1), "position"));
  CHECK(contains(refused(causal(), 21), "max_new_tokens is 21, the cache has a capacity of 20 tokens"));
  CHECK(contains(refused(causal(), 0), "max_new_tokens is 0"));
  CHECK(contains(refused(causal(), 1, true), "the ring keeps the last 20 tokens"));
  CHECK(contains(refused(window(20, 0), 1, true), "window left + number of queries"));
  CHECK(contains(refused(window(kUnlimited - 1, 0), 1, true), "window left + number of queries"));
  CHECK(refused(window(19, 0), 1, true) == "nothing");

  KvCache<float> cache(shape);
  const CachedAttentionPlan<float> plan(shape, 2, 3);
  Matrix<float> out(2, 16);
  const Matrix<float> x = random_matrix<float>(4, 16, 1);
  const auto checked = [&](const Matrix<float>& query, const KvCache<float>& on) {
    return message_of<Error>([&] { plan.check_tensors(view(query), on, mutable_view(out)); });
  };
  CHECK(contains(checked(x, cache), "query has 4 rows, 4 for each sequence: the plan is for up to 3"));
  CHECK(contains(checked(x.topRows(2), cache), "append their keys and values first"));
  cache.append(x, x);
  CHECK(contains(checked(x.topRows(1), cache), "out is 2 x 16"));
  CHECK(contains(checked(x.topLeftCorner(2, 8), cache), "query is 2 x 8"));
  CHECK(checked(x.topRows(2), cache) == "nothing");
  KvCacheOptions longer = shape;
  longer.capacity = 21;
  CHECK(contains(checked(x.topRows(2), KvCache<float>(longer)), "is not the one that was planned for"));

  Random random(1);
  const MultiHeadAttention<float> layer(16, 2, random);
  const auto decode = layer.decode_plan(shape, 3);
  Workspace workspace(decode.workspace_bytes());
  const auto decoded = [&](const Matrix<float>& rows) {
    const std::vector<Index> lengths = cache.lengths();
    const std::string message =
        message_of<Error>([&] { layer.decode_into(rows, cache, out, decode, workspace.data()); });
    if (message != "nothing") CHECK(cache.lengths() == lengths);
    return message;
  };
  CHECK(contains(decoded(x), "x has 4 rows, 4 for each sequence: the plan is for up to 3"));
  CHECK(contains(decoded(x.topRows(3)), "out is 2 x 16"));
  for (int step = 0; step < 8; ++step) CHECK(decoded(x.topRows(2)) == "nothing");
  CHECK(contains(decoded(x.topRows(2)), "the cache is full"));
}

TEST_CASE("a plan for any number of threads has the memory of as many as can be",
          "[decode][cache][threads][plan][memory]") {
  const KvCacheOptions cache{1, 1, 4, 4, 16, KvStorage::same, false};
  const CachedAttentionPlan<float> one(cache, 1);
  const CachedAttentionPlan<float> many(cache, 1, 1, causal(), {}, Index{1} << 58);
  CHECK(many.workspace_bytes() > one.workspace_bytes());
}
