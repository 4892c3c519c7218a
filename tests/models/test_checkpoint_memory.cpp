// Checkpoints and tokenizers when memory is short, and how much of it a file can make them take.

#include "allocation_sweep.hpp"
#include "gpt_cases.hpp"
#include "heed/models/checkpoint.hpp"
#include "heed/text/bpe.hpp"
#include "heed/text/char_tokenizer.hpp"
#include "safetensors_bytes.hpp"

namespace {

using namespace heed;
using namespace heed::test;
using heed_test::Bytes;
using heed_test::bytes_of;
using heed_test::file_of;
using heed_test::read_bytes;
using heed_test::refusal_of;
using heed_test::TemporaryFolder;
using heed_test::write_bytes;

const GptConfig tiny_config{.vocab_size = 3, .context = 2, .num_layers = 1, .num_heads = 1, .d_model = 2};
const std::string tokenizer_json = CharTokenizer("abc").to_json();

/// A model with what trains it, stepped until its weights are its own.
struct Training {
  Random random;
  Gpt<float> model;
  GptTrainer<float> trainer;

  explicit Training(std::uint64_t seed, int steps = 1)
      : random(seed), model(tiny_config, random), trainer(model, {.batch_size = 1}) {
    for (int step = 0; step < steps; ++step) trainer.step(drawn_batch(2, 3, seed), 0.01);
  }
};

std::vector<Bytes> contents(const TemporaryFolder& folder) {
  std::vector<std::string> names = folder.names();
  std::sort(names.begin(), names.end());
  std::vector<Bytes> result;
  for (const std::string& name : names) {
    result.push_back(bytes_of(name));
    result.push_back(read_bytes(folder / name));
  }
  return result;
}

/// The bytes that loading a folder asks for, all together. It must be refused.
std::size_t bytes_to_refuse(const TemporaryFolder& folder) {
  const std::size_t before = allocated_bytes;
  const std::string message = refusal_of([&] { load_model<float>(folder.path()); });
  const std::size_t bytes = allocated_bytes - before;
  CAPTURE(message);
  CHECK_FALSE(message.empty());
  return bytes;
}

struct Nothing {};
Nothing nothing() {
  return {};
}
void unchecked(const Nothing&) {}

}  // namespace

TEST_CASE("a save that runs out of memory is bad_alloc, and leaves the checkpoint or the one before it",
          "[checkpoint][memory]") {
  const TemporaryFolder folder;
  Training first(1);
  Training second(2);
  const auto save = [&](const Training& training) {
    save_checkpoint(folder.path(), training.trainer, training.random, tokenizer_json, {{"a", "b"}});
  };
  save(second);
  const std::vector<Bytes> new_files = contents(folder);
  save(first);
  const std::vector<Bytes> old_files = contents(folder);
  REQUIRE(old_files != new_files);
  sweep_allocations(
      "save_checkpoint", [&] { return save(first), Nothing(); }, [&](Nothing) { save(second); },
      [&](Nothing) { CHECK((contents(folder) == old_files)); },
      [&](Nothing) { CHECK((contents(folder) == new_files)); });
}

TEST_CASE("a load or resume that runs out of memory is bad_alloc, and changes nothing",
          "[checkpoint][memory]") {
  const TemporaryFolder folder;
  const Training saved(3);
  save_checkpoint(folder.path(), saved.trainer, saved.random, tokenizer_json, {{"a", "b"}});
  const TrainingState<float> state(saved.trainer);
  CHECK(numbers_of(load_model<float>(folder.path())) == state.weights);
  sweep_allocations(
      "load_model", nothing, [&](Nothing) { (void)load_model<float>(folder.path()); }, unchecked, unchecked);

  Training other(4);
  const TrainingState<float> before(other.trainer);
  const auto random = other.random.state();
  Notes notes;
  sweep_allocations(
      "resume",
      [&] {
        notes.clear();
        return Nothing();
      },
      [&](Nothing) { notes = resume(folder.path(), other.trainer, other.random); },
      [&](Nothing) {
        CHECK(TrainingState<float>(other.trainer).is(before));
        CHECK(other.random.state() == random);
      },
      [&](Nothing) {
        CHECK(notes == Notes{{"a", "b"}});
        CHECK(TrainingState<float>(other.trainer).resumes_as(state));
        CHECK(other.random.state() == saved.random.state());
        other.random.restore(random);
        other.trainer.optimizer().restore(before.steps, before.first_moments, before.second_moments);
        std::size_t next = 0;
        for (const Parameter<float>& weight : parameters(other.model)) {
          for (Index i = 0; i < weight.value.rows; ++i) {
            for (Index j = 0; j < weight.value.cols; ++j) weight.value(i, j) = before.weights[next++];
          }
        }
      });
  CHECK(contains(config_to_json(tiny_config), "\"vocab_size\": 3"));
  sweep_allocations(
      "config_from_json", nothing, [](Nothing) { (void)config_from_json(config_to_json(tiny_config)); },
      unchecked, unchecked);
}

TEST_CASE("a tokenizer that runs out of memory is bad_alloc", "[checkpoint][memory]") {
  const CharTokenizer characters("hello, world \u4F60\u597D");
  const std::string json = characters.to_json();
  const std::vector<TokenId> ids = characters.encode("hello");
  sweep_allocations(
      "CharTokenizer", nothing, [](Nothing) { CharTokenizer("hello, world \u4F60\u597D"); }, unchecked,
      unchecked);
  sweep_allocations(
      "CharTokenizer::from_json", nothing, [&](Nothing) { (void)CharTokenizer::from_json(json); }, unchecked,
      unchecked);
  sweep_allocations(
      "CharTokenizer::to_json", nothing, [&](Nothing) { (void)characters.to_json(); }, unchecked, unchecked);
  sweep_allocations(
      "CharTokenizer::encode and decode", nothing,
      [&](Nothing) { (void)characters.decode(characters.encode("hello")); }, unchecked, unchecked);

  sweep_allocations(
      "train_bpe", nothing, [](Nothing) { (void)train_bpe("low low lower", {.vocab_size = 30}); }, unchecked,
      unchecked);
  const BpeTokenizer pairs = train_bpe("low low lower", {.vocab_size = 30});
  const std::string pairs_json = pairs.to_json();
  sweep_allocations(
      "BpeTokenizer::from_json", nothing, [&](Nothing) { (void)BpeTokenizer::from_json(pairs_json); },
      unchecked, unchecked);
  sweep_allocations(
      "BpeTokenizer::to_json, encode and decode", nothing,
      [&](Nothing) {
        (void)pairs.to_json();
        (void)pairs.decode(pairs.encode("lowest slow"));
      },
      unchecked, unchecked);
}

TEST_CASE("a folder makes load_model take no more memory than a small multiple of its files",
          "[checkpoint][memory]") {
  constexpr std::size_t multiple = 24;
  const TemporaryFolder folder;
  const auto write = [&](const GptConfig& config, const Bytes& file) {
    write_bytes(folder / "config.json", bytes_of(config_to_json(config)));
    write_bytes(folder / "checkpoint.safetensors", file);
    return multiple * (file.size() + 4096);
  };
  const auto half_bytes = [](std::size_t count, const std::string& name = "x") {
    return file_of("{\"" + name + "\":{\"dtype\":\"F4\",\"shape\":[" + std::to_string(2 * count) +
                       "],\"data_offsets\":[0," + std::to_string(count) + "]}}",
                   Bytes(count));
  };
  GptConfig config{.vocab_size = 1, .context = 1, .num_layers = 500'000, .num_heads = 1, .d_model = 1};
  config.d_ff = 1;
  config.rms_norm = true;
  CHECK(bytes_to_refuse(folder) < 100'000);  // an empty folder
  {
    INFO("as many layers as half a byte for each weight allows, in no tensor of their own");
    const std::size_t limit = write(config, half_bytes(5'000'000));
    CHECK(bytes_to_refuse(folder) < limit / 8);
  }
  {
    INFO("a table of half bytes");
    config.num_layers = 1;
    config.d_model = 2'000'000;
    config.vocab_size = 1;
    config.num_layers = 1;
    const std::size_t limit = write(config, half_bytes(1'000'000, "tokens.table"));
    CHECK(bytes_to_refuse(folder) < limit);
  }
  {
    INFO("a table of positions that is in no file");
    Random random(1);
    config = tiny_config;
    config.positions = PositionKind::sinusoidal;
    Gpt<float> model(config, random);
    const GptTrainer<float> trainer(model, {.batch_size = 1});
    const TemporaryFolder good;
    save_checkpoint(good.path(), trainer, random, "");
    config.context = 5'000'000;
    (void)write(config, read_bytes(good / "checkpoint.safetensors"));
    CHECK(bytes_to_refuse(folder) < 100'000);
  }
  {
    INFO("a header of nothing but tensors without numbers");
    std::string header = "{";
    for (int n = 0; n < 20'000; ++n) {
      header += (n == 0 ? "\"" : ",\"") + std::to_string(n) +
                R"(":{"dtype":"F4","shape":[0],"data_offsets":[0,0]})";
    }
    config = tiny_config;
    const std::size_t limit = write(config, file_of(header + "}"));
    CHECK(bytes_to_refuse(folder) < limit);
  }
  {
    INFO("a header of nothing but notes");
    std::string header = R"({"__metadata__":{)";
    for (int n = 0; n < 100'000; ++n) header += (n == 0 ? "\"" : ",\"") + std::to_string(n) + R"(":"")";
    const std::size_t limit = write(config, file_of(header + "}}"));
    CHECK(bytes_to_refuse(folder) < limit);
  }
  {
    INFO("a configuration of nothing but fields, and one of nothing but brackets");
    std::string fields = "{";
    for (int n = 0; n < 100'000; ++n) fields += (n == 0 ? "\"" : ",\"") + std::to_string(n) + "\":0";
    for (const std::string& text : {fields + "}", std::string(1'000'000, '[')}) {
      write_bytes(folder / "config.json", bytes_of(text));
      CHECK(bytes_to_refuse(folder) < multiple * text.size());
    }
  }
}
