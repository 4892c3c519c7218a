// What the machine has no memory for is refused by its bytes before any is taken; what it has memory for
// takes as much as was counted.

#include "allocation_sweep.hpp"
#include "gpt_cases.hpp"
#include "heed/attention/kv_cache.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "heed/layers/positions.hpp"
#include "heed/models/generate.hpp"
#include "heed/models/gpt_memory.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// The ArgumentError of a call that asks for all the machine's memory many times over. It takes next to none.
template <class Call>
std::string refusal(const Call& call) {
  const std::size_t before = allocated_bytes;
  const std::string message = message_of<ArgumentError>(call);
  CAPTURE(message);
  CHECK(allocated_bytes - before < 100'000);
  CHECK(contains(message, "this machine has " + std::to_string(physical_memory()) + " bytes of memory"));
  return message;
}

constexpr Index huge = Index{1} << 40;
constexpr Index large = Index{1} << 30;

GptConfig config_of(PositionKind positions, bool gated) {
  GptConfig config{.vocab_size = 500, .context = 96, .num_layers = 3, .num_heads = 2, .d_model = 64};
  config.positions = positions;
  config.gated = gated;
  config.bias = gated;
  config.tied = !gated;
  config.dropout = gated ? 0.1 : 0;
  config.num_kv_heads = gated ? 1 : 2;
  return config;
}

}  // namespace

TEST_CASE("layers of absurd sizes are refused by their bytes before any memory is taken",
          "[memory][rotary][cache][errors]") {
  Random random(1);
  CHECK(contains(refusal([&] { TokenEmbedding<float>(large, 4096, random); }),
                 "a matrix of 1073741824 x 4096 needs 17592186044416 bytes"));
  CHECK(contains(refusal([&] { TokenEmbedding<double>(huge, huge, random); }),
                 "needs more bytes than can be counted"));
  CHECK(
      contains(refusal([&] { Linear<float>(large, large, random); }), "a matrix of 1073741824 x 1073741824"));
  CHECK(contains(refusal([&] { FeedForward<float>(large, 4 * large, random); }), "a feed-forward layer of"));
  CHECK(contains(refusal([&] { Norm<double>(huge * 64); }), "a matrix of 1 x 70368744177664"));
  CHECK(contains(refusal([&] { MultiHeadAttention<float>(large, 1, random); }),
                 "multi-head attention of d_model 1073741824, num_heads 1, head_dim 1073741824"));
  CHECK(contains(refusal([&] {
                   MultiHeadAttention<double>(
                       {.d_model = 8, .num_heads = huge * 4096, .head_dim = huge * 4096}, random);
                 }),
                 "needs more bytes than can be counted"));
  CHECK(contains(refusal([] { SinusoidalPositions<float>(huge, 16); }), "a matrix of 1099511627776 x 16"));
  CHECK(contains(refusal([] { Rotary(64, huge); }), "a rotary of 1099511627776 positions and rotary_dim 64"));
  CHECK(contains(refusal([] {
                   KvCache<float>(
                       {.num_kv_heads = 8, .head_dim = 128, .value_dim = 128, .capacity = large * 64});
                 }),
                 "a cache of 1 sequence with 68719476736 tokens, 8 heads"));
  CHECK(contains(
      refusal([] {
        KvCache<double>(
            {.batch_size = huge, .num_kv_heads = huge, .head_dim = huge, .value_dim = 1, .capacity = huge});
      }),
      "needs more bytes than can be counted"));
  CHECK(KvCache<float>::bytes_of({.head_dim = huge, .value_dim = huge, .capacity = 1}) > physical_memory());
}

TEST_CASE("a GPT of absurd sizes, its training and its decoder are refused by their bytes",
          "[memory][rotary][cache][errors]") {
  Random random(1);
  GptConfig config{.vocab_size = 96, .num_layers = 100'000, .num_heads = 32, .d_model = 4096};
  const std::string message = refusal([&] { Gpt<float>(config, random); });
  CHECK(contains(message, "a GPT of 100000 layers, d_model 4096, d_ff 16384, vocab_size 96 and context 64"));
  CHECK(contains(message, "needs " + std::to_string(gpt_bytes<float>(config)) + " bytes"));
  config.num_layers = huge;
  config.d_model = large;
  CHECK(contains(refusal([&] { Gpt<double>(config, random); }), "more bytes than can be counted"));
  CHECK(gpt_bytes<float>(config) == std::numeric_limits<std::uint64_t>::max());
  CHECK(gpt_decoder_bytes<float>(config) == std::numeric_limits<std::uint64_t>::max());
  CHECK(gpt_trainer_bytes<float>(config, huge) == std::numeric_limits<std::uint64_t>::max());
  for (const PositionKind positions : {PositionKind::sinusoidal, PositionKind::rotary}) {
    config = config_of(positions, false);
    config.context = large * 256;
    CHECK(contains(refusal([&] { Gpt<float>(config, random); }), "and context 274877906944"));
  }

  config = config_of(PositionKind::rotary, false);
  config.context = 100'000;
  Gpt<float> model(config, random);
  CHECK(contains(refusal([&] { GptTrainer<float>(model, {.batch_size = 1000}); }),
                 "training with batch_size 1000 and seq_len 100000 a GPT of 3 layers"));
  CHECK(contains(refusal([&] { GptTrainer<float>(model, {.batch_size = huge * 4096}); }), "a batch of"));
  const TokenWindows windows(drawn_ids(200, 12, 1), 6);
  TokenBatch batch;
  CHECK(contains(refusal([&] { windows.draw(random, huge, batch); }),
                 "batch_size 1099511627776 and seq_len 6"));
  CHECK(contains(message_of<ShapeError>([] { require_windows(10'000, 100'000); }),
                 "there are 10000 tokens: a window of 100000 and the token after it need more"));
}

TEMPLATE_TEST_CASE("a GPT, its trainer and its decoder take the bytes that were counted, to a twentieth",
                   "[memory][rotary][cache]", float, double) {
  for (const PositionKind positions :
       {PositionKind::learned, PositionKind::sinusoidal, PositionKind::rotary}) {
    for (const bool gated : {false, true}) {
      const GptConfig config = config_of(positions, gated);
      CAPTURE(static_cast<int>(positions), gated);
      // Within a twentieth: the objects around the matrices have a round number, and what is taken has
      // strings that are given back.
      const auto check_bytes = [](std::size_t taken, std::uint64_t counted) {
        CHECK(static_cast<double>(counted) > 0.95 * static_cast<double>(taken));
        CHECK(static_cast<double>(counted) < 1.05 * static_cast<double>(taken));
      };
      Random random(1);
      std::size_t before = allocated_bytes;
      Gpt<TestType> model(config, random);
      if (model.rotary()) (void)model.rotary()->template table<TestType>();
      check_bytes(allocated_bytes - before, gpt_bytes<TestType>(config));

      before = allocated_bytes;
      GptTrainer<TestType> trainer(model, {.batch_size = 5, .seq_len = 80});
      check_bytes(allocated_bytes - before, gpt_trainer_bytes<TestType>(config, 5, 80));
      const TokenBatch batch = drawn_batch(400, 500, 2);
      before = allocated_bytes;
      trainer.step(batch.inputs, batch.targets, 1e-3);
      CHECK(allocated_bytes == before);

      before = allocated_bytes;
      const GptDecoder<TestType> decoder(model);
      CHECK(allocated_bytes - before >= 3 * 2 * 96 * 32 * sizeof(TestType));
      check_bytes(allocated_bytes - before, gpt_decoder_bytes<TestType>(config));
    }
  }
}
