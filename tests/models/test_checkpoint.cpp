// Checkpoints: a training that goes on from one as if it had never stopped, and folders that hold something
// else, broken files, or what a killed process left.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "deadly_calls.hpp"
#include "gpt_cases.hpp"
#include "heed/models/checkpoint.hpp"
#include "heed/models/generate.hpp"
#include "heed/text/bpe.hpp"
#include "safetensors_bytes.hpp"

namespace {

using namespace heed;
using namespace heed::test;
using heed_test::Bytes;
using heed_test::bytes_of;
using heed_test::read_bytes;
using heed_test::refusal_of;
using heed_test::TemporaryFolder;
using heed_test::write_bytes;
using Json = nlohmann::ordered_json;

const GptConfig small_config{.vocab_size = 12, .context = 8, .num_layers = 2, .num_heads = 2, .d_model = 8};
constexpr GptTrainerOptions small_options{.batch_size = 3, .seq_len = 6};
const std::string tokenizer_json = "{\"characters\": [\"a\"]}\n";

/// All that a training is: draws from one generator, a model, and what moves it.
template <class Scalar>
struct Training {
  Random random;
  Gpt<Scalar> model;
  GptTrainer<Scalar> trainer;
  TokenWindows windows{drawn_ids(200, 12, 1), 6};
  TokenBatch batch;

  explicit Training(const GptConfig& config, std::uint64_t seed)
      : random(seed), model(config, random), trainer(model, small_options) {}

  /// With a model from elsewhere.
  explicit Training(const Gpt<Scalar>& loaded) : random(99), model(loaded), trainer(model, small_options) {}

  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      windows.draw(random, 3, batch);
      trainer.step(batch.inputs, batch.targets, 0.01);
    }
  }
};

/// A checkpoint after three steps.
struct Saved {
  TemporaryFolder folder;
  Training<float> training{small_config, 2};
  Bytes good;

  Saved() {
    training.train(3);
    save_checkpoint(folder.path(), training.trainer, training.random, tokenizer_json, {{"a", "b"}});
    good = read_bytes(folder / "checkpoint.safetensors");
  }

  /// The message with which resume() and load_model() refuse the folder. Both must, naming the file, and
  /// nothing may have changed; "" if not.
  std::string refusal(const std::string& file, bool loads_as_well = false) const {
    Training<float> other(small_config, 3);
    other.train(1);
    const TrainingState<float> before(other.trainer);
    const auto random = other.random.state();
    std::string message = refusal_of([&] { resume(folder.path(), other.trainer, other.random); });
    CHECK(TrainingState<float>(other.trainer).is(before));
    CHECK(other.random.state() == random);
    CHECK(contains(message, (folder / file).string()));
    const std::string of_load = refusal_of([&] { load_model<float>(folder.path()); });
    CHECK((of_load.empty() ? loads_as_well : contains(of_load, (folder / file).string())));
    return message;
  }

  /// Writes the checkpoint anew, with what change(tensors) makes of the tensors that were saved.
  template <class F>
  void rewrite(const F& change) const {
    const SafetensorsFile file = SafetensorsFile::parse(good, "saved");
    std::vector<TensorBytes> tensors;
    for (const TensorInfo& info : file.tensors())
      tensors.push_back({info.name, info.dtype, info.shape, file.bytes(info.name)});
    change(tensors);
    write_safetensors(folder / "checkpoint.safetensors", tensors, file.metadata());
  }
};

TensorBytes& named(std::vector<TensorBytes>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
}

template <class Scalar>
void check_resumes(const GptConfig& config) {
  const TemporaryFolder folder;
  Training<Scalar> whole(config, 4);
  whole.train(20);

  Training<Scalar> first(config, 4);
  first.train(10);
  const Notes notes = {{"step", "10"}, {"text", "日本\n\"\\"}, {"", ""}};
  save_checkpoint(folder.path(), first.trainer, first.random, tokenizer_json, notes);
  const TrainingState<Scalar> saved(first.trainer);
  first.train(3);  // what was saved does not follow

  Training<Scalar> second(load_model<Scalar>(folder.path()));
  CHECK(same_bits(std::span<const Scalar>(numbers_of(second.model)), std::span<const Scalar>(saved.weights)));
  CHECK(resume(folder.path(), second.trainer, second.random) == notes);
  CHECK(checkpoint_notes(folder.path()) == notes);
  CHECK(TrainingState<Scalar>(second.trainer).resumes_as(saved));
  second.train(10);
  CHECK(TrainingState<Scalar>(second.trainer).is(TrainingState<Scalar>(whole.trainer)));
  CHECK(second.batch.inputs == whole.batch.inputs);
  CHECK(second.random.state() == whole.random.state());
  const auto write = [](Training<Scalar>& training) {
    return generate(training.model, training.batch.inputs, {.max_new_tokens = 20}, training.random);
  };
  CHECK(write(second) == write(whole));

  // The program that made the model from its own configuration may take it up as well.
  Training<Scalar> third(config, 5);
  third.train(2);
  resume(folder.path(), third.trainer, third.random);
  third.train(10);
  CHECK(TrainingState<Scalar>(third.trainer).is(TrainingState<Scalar>(whole.trainer)));
}

/// Weights, moments, notes and generator that all show one number.
void mark(GptTrainer<float>& trainer, Random& random, int number) {
  for (const Parameter<float>& weight : trainer.parameters()) {
    for (Index i = 0; i < weight.value.rows; ++i) {
      for (Index j = 0; j < weight.value.cols; ++j) weight.value(i, j) = static_cast<float>(number);
    }
  }
  const std::vector<float> moments(trainer.optimizer().first_moments().size(), static_cast<float>(number));
  trainer.optimizer().restore(number, moments, moments);
  random = Random(static_cast<std::uint64_t>(number));
}

bool is_marked(const GptTrainer<float>& trainer, const Random& random, int number) {
  const TrainingState<float> state(trainer);
  const auto all = [&](const std::vector<float>& numbers) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](float n) { return n == static_cast<float>(number); });
  };
  return all(state.weights) && all(state.first_moments) && all(state.second_moments) &&
         state.steps == number && random.state() == Random(static_cast<std::uint64_t>(number)).state();
}

}  // namespace

TEST_CASE("a training that was saved and taken up again goes on bit for bit", "[checkpoint]") {
  check_resumes<float>(small_config);
  check_resumes<double>(small_config);
  GptConfig config = small_config;
  config.dropout = 0.2;
  config.bias = true;
  config.gated = true;
  config.num_kv_heads = 1;
  config.positions = PositionKind::rotary;
  check_resumes<float>(config);
  config.tied = false;
  config.d_ff = 5;
  config.rms_norm = true;
  config.norm_epsilon = 1e-4 / 3;
  config.activation = Activation::silu;
  config.positions = PositionKind::sinusoidal;
  check_resumes<double>(config);
}

TEST_CASE("a configuration survives its JSON", "[checkpoint]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    GptConfig config = drawn_config(seed);
    config.dropout = seed % 2 == 0 ? 0 : 1.0 / static_cast<double>(seed + 2);
    GptConfig expected = config;
    expected.num_kv_heads = config.kv_heads();
    expected.d_ff = config.ff_size();
    const std::string json = config_to_json(config);
    REQUIRE(config_from_json(json) == expected);
    REQUIRE(config_to_json(config_from_json(json)) == json);
  }
}

TEST_CASE("a model of any configuration loads as it was saved", "[checkpoint]") {
  for (std::uint64_t seed = 0; seed < (kSlowRun ? 20 : 60); ++seed) {
    CAPTURE(seed);
    const TemporaryFolder folder;
    Gpt<double> model = stirred_model<double>(drawn_config(seed), seed);
    const GptTrainer<double> trainer(model, {.batch_size = 1});
    save_checkpoint(folder.path(), trainer, Random(seed), "");
    const std::vector<double> loaded = numbers_of(load_model<double>(folder.path()));
    CHECK(same_bits(std::span<const double>(loaded), std::span<const double>(numbers_of(model))));
  }
}

TEST_CASE("what is in the folder is what was saved, and nothing else", "[checkpoint]") {
  const Saved saved;
  std::vector<std::string> names = saved.folder.names();
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"checkpoint.safetensors", "config.json", "tokenizer.json"});
  CHECK(has_checkpoint(saved.folder.path()));
  CHECK(load_tokenizer_json(saved.folder.path()) == tokenizer_json);
  CHECK(config_from_json(config_to_json(small_config)) == load_model<float>(saved.folder.path()).config());
  const SafetensorsFile file = SafetensorsFile::open(saved.folder / "checkpoint.safetensors");
  std::size_t tensors = 0;
  saved.training.model.for_each_parameter([&](const std::string& name, const auto& matrix) {
    ++tensors;
    CHECK(file.at(name).shape == std::vector<std::ptrdiff_t>{matrix.rows(), matrix.cols()});
    CHECK(file.at(name).dtype == Dtype::f32);
  });
  CHECK(file.tensors().size() == tensors + 4);
}

TEST_CASE("a folder is made where there is none, with what leads to it, and refused where it cannot be",
          "[checkpoint][errors]") {
  const TemporaryFolder folder;
  Training<float> training(small_config, 6);
  const auto save = [&](const std::filesystem::path& path) {
    save_checkpoint(path, training.trainer, training.random, tokenizer_json);
  };
  CHECK_FALSE(has_checkpoint(folder / "a"));
  save(folder / "a" / "b");
  CHECK(has_checkpoint(folder / "a" / "b"));
  save(folder / "a" / "b");  // again, in its place
  write_bytes(folder / "file", Bytes(1));
  CHECK(contains(refusal_of([&] { save(folder / "file"); }), "file"));
  CHECK(contains(refusal_of([&] { save(folder / "file" / "x"); }), "file/x"));
  CHECK(read_bytes(folder / "file") == Bytes(1));
  CHECK(contains(refusal_of([&] { load_model<float>(folder / "no"); }), "no/config.json"));
  CHECK(contains(refusal_of([&] { load_tokenizer_json(folder / "no"); }), "no/tokenizer.json"));
  CHECK(contains(refusal_of([&] { checkpoint_notes(folder / "no"); }), "no/checkpoint.safetensors"));
}

TEST_CASE("a folder with the checkpoint of another model is left as it is", "[checkpoint]") {
  const Saved saved;
  std::vector<Bytes> before;
  const auto contents = [&] {
    std::vector<Bytes> files;
    for (const char* name : {"checkpoint.safetensors", "config.json", "tokenizer.json"})
      files.push_back(read_bytes(saved.folder / name));
    return files;
  };
  before = contents();
  GptConfig other = small_config;
  other.num_heads = 4;
  Training<float> training(other, 7);
  CHECK(contains(refusal_of([&] {
                   save_checkpoint(saved.folder.path(), training.trainer, training.random, tokenizer_json);
                 }),
                 (saved.folder / "config.json").string()));
  CHECK(contains(refusal_of([&] {
                   save_checkpoint(saved.folder.path(), saved.training.trainer, training.random, "{}");
                 }),
                 (saved.folder / "tokenizer.json").string()));
  CHECK(contents() == before);
  CHECK(saved.folder.names().size() == 3);
  CHECK(contains(refusal_of([&] { resume(saved.folder.path(), training.trainer, training.random); }),
                 "another configuration"));
  // A configuration alone is no checkpoint: a process that died while it saved its first one.
  std::filesystem::remove(saved.folder / "checkpoint.safetensors");
  save_checkpoint(saved.folder.path(), training.trainer, training.random, "{}");
  CHECK(load_model<float>(saved.folder.path()).config().num_heads == 4);
}

TEST_CASE("a configuration that is written in another way is the same one", "[checkpoint]") {
  const Saved saved;
  Json json = Json::parse(config_to_json(small_config));
  const Json first = json["dropout"];
  json.erase("dropout");
  Json other = {{"dropout", first}};
  other.update(json);
  write_bytes(saved.folder / "config.json", bytes_of(other.dump()));
  save_checkpoint(saved.folder.path(), saved.training.trainer, saved.training.random, tokenizer_json);
  CHECK(load_model<float>(saved.folder.path()).config().num_layers == 2);
}

TEST_CASE("a tokenizer with more tokens than its model is refused with both numbers, one with fewer is not",
          "[checkpoint][errors]") {
  const auto characters = [](int count) {
    std::string json = "{\"characters\": [";
    for (int c = 0; c < count; ++c)
      json += (c == 0 ? "\"" : ", \"") + std::string(1, static_cast<char>('a' + c)) + '"';
    return json + "]}";
  };
  const auto pairs = [](Index size) {
    const BpeTokenizer tokenizer = train_bpe("abcdefghi abcdefghi", {.vocab_size = size});
    REQUIRE(tokenizer.vocab_size() == size);
    return tokenizer.to_json();
  };
  for (const bool bpe : {false, true}) {
    CAPTURE(bpe);
    const std::string more = bpe ? pairs(15) : characters(15);
    const Saved saved;  // for 12 tokens
    const auto before = read_bytes(saved.folder / "tokenizer.json");
    const auto save = [&](const std::filesystem::path& folder, const std::string& json) {
      save_checkpoint(folder, saved.training.trainer, saved.training.random, json);
    };
    CHECK(contains(message_of<ArgumentError>([&] { save(saved.folder.path(), more); }),
                   "the tokenizer has 15 tokens, the model is for 12"));
    CHECK(read_bytes(saved.folder / "tokenizer.json") == before);
    write_bytes(saved.folder / "tokenizer.json", bytes_of(more));
    CHECK(contains(saved.refusal("tokenizer.json"), "the tokenizer has 15 tokens, the model is for 12"));
    for (const int fewer : {11, 12}) {
      if (bpe && fewer == 11) continue;  // its special tokens and characters alone are 14
      const TemporaryFolder folder;
      save(folder.path(), characters(fewer));
      CHECK(load_model<float>(folder.path()).config().vocab_size == 12);
    }
  }
}

TEST_CASE("a model whose table of positions is many times its weights is refused, saved or loaded",
          "[checkpoint][errors]") {
  for (const PositionKind kind : {PositionKind::sinusoidal, PositionKind::rotary}) {
    GptConfig config = small_config;
    config.positions = kind;
    config.context = (1 << 20) / (kind == PositionKind::rotary ? 4 : 8);
    const TemporaryFolder folder;
    const auto save = [&](const GptConfig& of) {
      Random random(1);
      Gpt<float> model(of, random);
      const GptTrainer<float> trainer(model, {.batch_size = 1, .seq_len = 4});
      save_checkpoint(folder.path(), trainer, random, "");
    };
    save(config);
    CHECK(load_model<float>(folder.path()).config().context == config.context);
    ++config.context;
    CHECK(contains(message_of<ArgumentError>([&] { save(config); }), "whose table of positions has"));
    std::ofstream(folder / "config.json") << config_to_json(config);
    CHECK(contains(refusal_of([&] { load_model<float>(folder.path()); }), "whose table of positions has"));
  }
}

TEST_CASE("files that are somebody's own are not overwritten", "[checkpoint]") {
  for (const std::string name : {"config.json", "tokenizer.json"}) {
    TemporaryFolder folder;
    std::ofstream(folder / name) << "{\"mine\": 1}";
    Training<float> training(small_config, 7);
    CHECK(contains(refusal_of([&] {
                     save_checkpoint(folder.path(), training.trainer, training.random, tokenizer_json);
                   }),
                   name));
    CHECK(read_bytes(folder / name).size() == 11);
    CHECK(!has_checkpoint(folder.path()));
  }
}

TEST_CASE("a checkpoint with more than its model, or with a state that no training has, is refused",
          "[checkpoint][errors]") {
  const Saved saved;
  GptConfig smaller = small_config;
  smaller.num_layers = 1;
  std::ofstream(saved.folder / "config.json") << config_to_json(smaller);
  CHECK(contains(refusal_of([&] { load_model<float>(saved.folder.path()); }), "blocks.1."));
  AdamW<float> optimizer(saved.training.trainer.parameters());
  const std::vector<float> good(optimizer.first_moments().size(), 0.5F);
  std::vector<float> bad = good;
  bad[1] = -1;
  const auto refused = [&](Index steps, const std::vector<float>& first, const std::vector<float>& second) {
    return message_of<ArgumentError>([&] { optimizer.restore(steps, first, second); });
  };
  CHECK(contains(refused(1, good, bad), "second moment"));
  bad[1] = std::numeric_limits<float>::infinity();
  CHECK(contains(refused(1, bad, good), "first moment"));
  CHECK(contains(refused(std::numeric_limits<Index>::max(), good, good), "steps is "));
  CHECK(optimizer.steps() == 0);
  CHECK(optimizer.first_moments()[0] == 0);
}

TEST_CASE("a configuration that is nested deeply, or asks for a table without end, is refused",
          "[checkpoint][errors]") {
  const Saved saved;
  const std::string deep(200000, '[');
  std::ofstream(saved.folder / "config.json")
      << "{\"vocab_size\": " << deep << std::string(deep.size(), ']') << "}";
  CHECK(contains(refusal_of([&] { load_model<float>(saved.folder.path()); }), "\"vocab_size\" is array"));
  for (const PositionKind kind : {PositionKind::sinusoidal, PositionKind::rotary, PositionKind::learned}) {
    GptConfig config = small_config;
    config.positions = kind;
    config.context = Index{1} << 34;
    std::ofstream(saved.folder / "config.json") << config_to_json(config);
    CHECK(contains(refusal_of([&] { load_model<float>(saved.folder.path()); }), "checkpoint.safetensors"));
  }
}

TEST_CASE("files that are missing, cut short or full of something else are refused, and nothing changes",
          "[checkpoint][errors]") {
  for (const std::string name : {"config.json", "checkpoint.safetensors"}) {
    CAPTURE(name);
    {
      const Saved saved;
      std::filesystem::remove(saved.folder / name);
      CHECK(contains(saved.refusal(name), "No such file"));
    }
    const Saved saved;
    const Bytes good = read_bytes(saved.folder / name);
    const std::size_t step = std::max<std::size_t>(1, good.size() / 25);
    for (std::size_t size = 0; size + 2 < good.size(); size += step) {
      CAPTURE(size);
      write_bytes(saved.folder / name, Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
      CHECK_FALSE(saved.refusal(name).empty());
    }
    write_bytes(saved.folder / name, Bytes(good.size(), std::byte{'x'}));
    CHECK_FALSE(saved.refusal(name).empty());
    write_bytes(saved.folder / name, good);
    Training<float> other(small_config, 8);
    CHECK(resume(saved.folder.path(), other.trainer, other.random) == Notes{{"a", "b"}});
  }
}

TEST_CASE("a configuration with fields too many, too few or of another kind is refused by their names",
          "[checkpoint][errors]") {
  const Saved saved;
  const Json good = Json::parse(config_to_json(small_config));
  const auto refusal = [&](const Json& json) {
    write_bytes(saved.folder / "config.json", bytes_of(json.dump()));
    return saved.refusal("config.json");
  };
  for (const auto& [name, value] : good.items()) {
    CAPTURE(name);
    Json json = good;
    json.erase(name);
    CHECK(contains(refusal(json), "no \"" + name + "\""));
    for (const Json& wrong : {Json(nullptr), Json("x"), Json::array({1}), Json::object(), Json(-1.5)}) {
      json = good;
      json[name] = wrong;
      const std::string message = refusal(json);
      CHECK(contains(message, name));
    }
    if (value.is_number_integer()) {
      for (const Json& wrong : {Json(0), Json(-4), Json(1.5), Json(1e30), Json(true), Json(UINT64_MAX)}) {
        json[name] = wrong;
        CHECK(contains(refusal(json), name));
      }
    } else if (value.is_boolean()) {
      json[name] = 1;
      CHECK(contains(refusal(json), "true or false"));
    }
  }
  Json more = good;
  more["dropuot"] = 0.1;
  CHECK(contains(refusal(more), "16 fields, 15 are known"));
  Json kind = good;
  kind["positions"] = "absolute";
  const std::string unknown = refusal(kind);
  CHECK(contains(unknown, "absolute"));
  CHECK(contains(unknown, "it must be one of learned, sinusoidal, rotary"));
  for (const Json& json : {Json(nullptr), Json::array(), Json(3)})
    CHECK(contains(refusal(json), "no JSON object"));

  std::string twice = good.dump();
  twice.insert(1, R"("tied": false, )");
  write_bytes(saved.folder / "config.json", bytes_of(twice));
  CHECK(contains(saved.refusal("config.json"), "\"tied\" twice"));
  CHECK(contains(refusal_of([&] { config_from_json(twice); }), "\"tied\" twice"));
  Json zero = good;
  zero["num_heads"] = 3;
  CHECK(contains(refusal_of([&] { config_from_json(zero.dump()); }), "num_heads, which is 3"));
}

TEST_CASE("a configuration that its weights do not fill is refused before memory is taken for it",
          "[checkpoint][errors]") {
  const Saved saved;
  const std::string weights = "checkpoint.safetensors";
  for (const char* name : {"vocab_size", "num_layers", "d_model", "d_ff"}) {
    Json json = Json::parse(config_to_json(small_config));
    json[name] = 2147483646;
    write_bytes(saved.folder / "config.json", bytes_of(json.dump()));
    CHECK(contains(refusal_of([&] { load_model<float>(saved.folder.path()); }), "fewer numbers"));
  }
  // Few enough for what the moments bring as well; then the first tensor is found to be another.
  Json json = Json::parse(config_to_json(small_config));
  json["vocab_size"] = 13;
  write_bytes(saved.folder / "config.json", bytes_of(json.dump()));
  const std::string message = refusal_of([&] { load_model<float>(saved.folder.path()); });
  CHECK(contains(message, "tokens.table has other sizes than the model's, which is 13 x 8"));
  CHECK(contains(message, (saved.folder / weights).string()));
}

TEST_CASE("tensors that are missing or of another size or kind are refused by their names",
          "[checkpoint][errors]") {
  const std::string weights = "checkpoint.safetensors";
  const std::vector<float> floats(5000);
  const std::vector<double> doubles(5000);
  const std::vector<std::int64_t> longs(5000);
  const auto some = [](const auto& values, std::ptrdiff_t count) {
    return std::as_bytes(std::span(values).first(static_cast<std::size_t>(count)));
  };
  const Saved saved;
  const SafetensorsFile file = SafetensorsFile::open(saved.folder / weights);
  for (const TensorInfo& info : file.tensors()) {
    const std::string& name = info.name;
    CAPTURE(name);
    const bool is_state = name.starts_with("optimizer.") || name == "random.state";
    saved.rewrite(
        [&](auto& tensors) { std::erase_if(tensors, [&](const auto& t) { return t.name == name; }); });
    CHECK(contains(saved.refusal(weights, is_state), name));
    saved.rewrite([&](auto& tensors) {
      TensorBytes& tensor = named(tensors, name);
      tensor.shape.resize(std::max<std::size_t>(1, tensor.shape.size()), 1);
      ++tensor.shape[0];
      const std::ptrdiff_t size = tensor.shape[0] * (tensor.shape.size() == 2 ? tensor.shape[1] : 1);
      tensor.bytes = tensor.dtype == Dtype::i64 ? some(longs, size) : some(floats, size);
    });
    CHECK(contains(saved.refusal(weights, is_state), name));
    saved.rewrite([&](auto& tensors) {
      TensorBytes& tensor = named(tensors, name);
      tensor.bytes = some(doubles, static_cast<std::ptrdiff_t>(info.size));
      tensor.dtype = Dtype::f64;
    });
    CHECK(contains(saved.refusal(weights, true), name + " is F64"));
  }
  // The same numbers in another order of rows and columns are another matrix.
  saved.rewrite([&](auto& tensors) {
    TensorBytes& table = named(tensors, "tokens.table");
    std::swap(table.shape[0], table.shape[1]);
  });
  CHECK(contains(saved.refusal(weights), "tokens.table has other sizes than the model's, which is 12 x 8"));
}

TEST_CASE("a state that no optimizer or generator can have is refused", "[checkpoint][errors]") {
  const Saved saved;
  const auto refusal = [&](const std::string& name, const std::vector<std::int64_t>& values) {
    saved.rewrite([&](auto& tensors) {
      named(tensors, name) = tensor_bytes<std::int64_t>(name, {std::ssize(values)}, values);
    });
    return saved.refusal("checkpoint.safetensors", true);
  };
  CHECK(contains(refusal("optimizer.steps", {-1}), "steps is -1"));
  std::vector<std::int64_t> state(625, 7);
  CHECK_FALSE(contains(refusal("random.state", std::vector<std::int64_t>(624, 7)), "random.state is"));
  state.back() = 625;
  CHECK(contains(refusal("random.state", state), "the last is 625"));
  state.back() = 3;
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1} << 32, INT64_MIN}) {
    state[5] = wrong;
    CHECK(contains(refusal("random.state", state), "random.state has " + std::to_string(wrong)));
  }
}

TEST_CASE("a training in double does not go on from a checkpoint in float", "[checkpoint]") {
  const Saved saved;
  Training<double> training(small_config, 9);
  training.train(1);
  const TrainingState<double> before(training.trainer);
  const auto random = training.random.state();
  const std::string message =
      refusal_of([&] { resume(saved.folder.path(), training.trainer, training.random); });
  CHECK(contains(message, (saved.folder / "checkpoint.safetensors").string()));
  CHECK(contains(message, "is F32, this training needs F64"));
  CHECK(TrainingState<double>(training.trainer).is(before));
  CHECK(training.random.state() == random);
  // Its weights are those of a model in double, which has all floats.
  const std::vector<double> weights = numbers_of(load_model<double>(saved.folder.path()));
  const std::vector<float> floats = numbers_of(saved.training.model);
  CHECK(std::equal(weights.begin(), weights.end(), floats.begin(), floats.end()));
}

TEST_CASE("notes that are no UTF-8 are refused, and the checkpoint stays", "[checkpoint][errors]") {
  const Saved saved;
  const Bytes before = read_bytes(saved.folder / "checkpoint.safetensors");
  CHECK(message_of<ArgumentError>([&] {
          save_checkpoint(saved.folder.path(), saved.training.trainer, saved.training.random, tokenizer_json,
                          {{"k", "\xFF"}});
        }) != "nothing");
  CHECK(read_bytes(saved.folder / "checkpoint.safetensors") == before);
}

TEST_CASE("a process killed at any moment of a save leaves the checkpoint before it or the one after",
          "[checkpoint]") {
  const TemporaryFolder folder;
  Random random(1);
  Gpt<float> model(small_config, random);
  GptTrainer<float> trainer(model, small_options);
  const auto save = [&](int number) {
    mark(trainer, random, number);
    save_checkpoint(folder.path(), trainer, random, tokenizer_json, {{"number", std::to_string(number)}});
  };
  save(1);
  int last = 1;
  int killed_before = 0;
  int killed_after = 0;
  for (long moments = 0;; moments += kSlowRun ? 5 : 1) {
    CAPTURE(moments, last);
    const int next = last + 1;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      moments_to_live = moments;
      try {
        save(next);
        ::_exit(0);
      } catch (...) {
      }
      ::_exit(1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    REQUIRE((killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)));

    Gpt<float> read = load_model<float>(folder.path());
    GptTrainer<float> resumed(read, small_options);
    Random restored(0);
    const Notes notes = resume(folder.path(), resumed, restored);
    const int number = std::stoi(notes.at("number"));
    REQUIRE((number == next || (killed && number == last)));
    REQUIRE(is_marked(resumed, restored, number));
    REQUIRE(load_tokenizer_json(folder.path()) == tokenizer_json);
    if (!killed) break;
    ++(number == last ? killed_before : killed_after);
    last = number;
  }
  CHECK(killed_before >= 5);
  CHECK(killed_after >= (kSlowRun ? 0 : 1));
  save(last + 2);
  CHECK(checkpoint_notes(folder.path()).at("number") == std::to_string(last + 2));
}

TEST_CASE("a generator goes on from its state, wherever in a block that was", "[checkpoint]") {
  for (const int used : {0, 1, 311, 623, 624, 625, 2000}) {
    Random random(42);
    for (int n = 0; n < used; ++n) random.next_word();
    const auto state = random.state();
    CHECK(random.state() == state);
    Random other(7);
    other.random();
    other.restore(state);
    CHECK(other.state() == state);
    for (int n = 0; n < 1500; ++n) REQUIRE(other.next_word() == random.next_word());
    CHECK(other.random() == random.random());
    CHECK(other.state() == random.state());
  }
}

TEST_CASE("a state that is none is refused, and the generator stays as it is", "[checkpoint][errors]") {
  Random random(42);
  const auto before = random.state();
  std::vector<std::uint32_t> state(before.begin(), before.end());
  const auto refusal = [&] { return message_of<ArgumentError>([&] { random.restore(state); }); };
  for (const std::uint32_t used : {625U, 1000U, UINT32_MAX}) {
    state.back() = used;
    CHECK(contains(refusal(), "the last is " + std::to_string(used)));
  }
  state.back() = 624;
  CHECK(refusal() == "nothing");
  for (const std::size_t size : {std::size_t{624}, std::size_t{626}, std::size_t{1}, std::size_t{0}}) {
    state.resize(size);
    CHECK(contains(refusal(), "this one has " + std::to_string(size)));
  }
  CHECK(random.state() == before);
}
