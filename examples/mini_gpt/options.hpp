#pragma once

// What mini_gpt_demo can be asked for, and what of it a resumed run takes over.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "any_tokenizer.hpp"
#include "command_line.hpp"
#include "heed/models/checkpoint.hpp"
#include "heed/models/gpt_config.hpp"
#include "heed/models/sampling.hpp"

namespace demo::mini_gpt {

using heed::Index;

struct Options {
  std::string text_file;
  std::string tokenizer = "char";
  Index vocab_size = 512;
  heed::GptConfig model{.context = 64, .num_layers = 4, .num_heads = 4, .d_model = 128};
  std::string positions = "learned";
  Index batch = 12;
  Index steps = 1000;
  Index rate_steps = 0;  // 0: all of them
  Index every = 0;       // 0: a twentieth of them
  double rate = 2e-3;
  std::string save;
  std::string resume;
  std::string prompt;
  Index length = 400;
  heed::SamplingOptions sampling{.temperature = 0.8};
  std::uint64_t seed = 1337;
  Index threads = 0;
};

inline void require(bool good, const std::string& message) {
  if (!good) throw heed::ArgumentError(message);
}

/// The fields of the library's options that a flag sets.
inline const std::vector<std::pair<std::string, std::string>> field_flags = {{"num_layers", "--layers"},
                                                                             {"num_heads", "--heads"},
                                                                             {"d_model", "--d-model"},
                                                                             {"batch_size", "--batch"},
                                                                             {"seq_len", "--context"}};

/// What the ranges of single options cannot say, and can be known to be wrong before any work.
inline void check(const Options& options) {
  require(options.save.empty() || options.resume.empty() || options.save == options.resume,
          "--save and --resume name different folders: a run goes on in its own");
  require(options.save.empty() || !options.resume.empty() || !heed::has_checkpoint(options.save),
          "there is a run in " + heed::escaped(options.save) +
              " already: go on with --resume, or choose another folder");
  heed::GptConfig model = options.model;
  model.vocab_size = options.vocab_size;
  demo::in_words_of_flags(field_flags, [&] { heed::check_config(model); });
}

inline constexpr std::pair<const char*, heed::PositionKind> position_kinds[] = {
    {"learned", heed::PositionKind::learned},
    {"sinusoidal", heed::PositionKind::sinusoidal},
    {"rotary", heed::PositionKind::rotary}};

/// A run keeps its model: an option that asks for another one is refused.
inline void refuse_another_model(const CLI::App& app, const Options& options, const heed::GptConfig& own,
                                 const demo::AnyTokenizer& tokenizer, const heed::Notes& notes) {
  const auto keep = [&](const char* option, const auto& wanted, const auto& is) {
    if (app.count(option) == 0 || wanted == is) return;
    throw heed::ArgumentError(std::string(option) + " is " + demo::words(wanted) + ", the run in " +
                              heed::escaped(options.resume) + " has " + demo::words(is) +
                              ": a run keeps its model");
  };
  keep("--layers", options.model.num_layers, own.num_layers);
  keep("--heads", options.model.num_heads, own.num_heads);
  keep("--d-model", options.model.d_model, own.d_model);
  keep("--context", options.model.context, own.context);
  keep("--dropout", options.model.dropout, own.dropout);
  for (const auto& [name, kind] : position_kinds) {
    if (kind == own.positions) keep("--positions", options.positions, std::string(name));
  }
  keep("--tokenizer", options.tokenizer, std::string(tokenizer.kind()));
  if (const auto found = notes.find("vocab_size"); found != notes.end())
    keep("--vocab-size", std::to_string(options.vocab_size), found->second);
}

/// What a resumed run takes over unless the command line says otherwise. Returns its text's fingerprint,
/// empty if none was noted.
inline std::string take_over(const CLI::App& app, const heed::Notes& notes, Options& options) {
  const auto note = [&](const char* option, const char* name, auto& value, auto convert) {
    const auto found = notes.find(name);
    if (app.count(option) == 0 && found != notes.end()) value = convert(found->second);
  };
  try {
    note("--steps", "steps", options.steps,
         [](const std::string& s) { return static_cast<Index>(std::stoll(s)); });
    note("--lr-steps", "lr_steps", options.rate_steps,
         [](const std::string& s) { return static_cast<Index>(std::stoll(s)); });
    note("--batch", "batch", options.batch,
         [](const std::string& s) { return static_cast<Index>(std::stoll(s)); });
    note("--lr", "lr", options.rate, [](const std::string& s) {
      const std::optional<double> rate = demo::parsed<double>(s);  // std::stod follows the locale
      return rate ? *rate : throw std::invalid_argument(s);
    });
    note("--seed", "seed", options.seed, [](const std::string& s) { return std::stoull(s); });
    note("--vocab-size", "vocab_size", options.vocab_size,
         [](const std::string& s) { return static_cast<Index>(std::stoll(s)); });
  } catch (const std::logic_error&) {
    throw heed::FileError("the checkpoint in " + heed::escaped(options.resume) +
                          " has notes that are no numbers");
  }
  note("--text", "text", options.text_file, [](const std::string& s) { return s; });
  check(options);
  const auto found = notes.find("fingerprint");
  return found != notes.end() ? found->second : "";
}

inline void add_options(CLI::App& app, Options& options) {
  const demo::Range<Index> at_least_1{.min = 1};
  const demo::Range<Index> not_negative{.min = 0};
  demo::path(app, "--text", options.text_file, "file", "text to learn from (default: Shakespeare's sonnets)");
  demo::choice(app, "--tokenizer", options.tokenizer, {"char", "bpe"},
               "what a token is: a character or a byte pair");
  demo::number(app, "--vocab-size", options.vocab_size, "most tokens of the bpe vocabulary", {.min = 5});
  demo::number(app, "--layers", options.model.num_layers, "blocks of attention and feed-forward layer",
               at_least_1);
  demo::number(app, "--heads", options.model.num_heads, "heads of attention; they divide --d-model",
               at_least_1);
  demo::number(app, "--d-model", options.model.d_model, "numbers for each token", at_least_1);
  demo::number(app, "--context", options.model.context, "tokens that the model looks back on", at_least_1);
  demo::choice(app, "--positions", options.positions, {"learned", "sinusoidal", "rotary"},
               "how it knows their order");
  demo::number(app, "--dropout", options.model.dropout, "how much is dropped in training",
               {.min = 0, .max = 1, .without_max = true});
  demo::number(app, "--batch", options.batch, "sequences of each step", at_least_1);
  demo::number(app, "--steps", options.steps, "steps in all, those before --resume included", not_negative);
  demo::number(app, "--lr-steps", options.rate_steps, "steps over which the learning rate falls; 0: all",
               not_negative);
  demo::number(app, "--every", options.every,
               "steps from one line and checkpoint to the next; 0: a twentieth of all", not_negative);
  demo::number(app, "--lr", options.rate, "highest learning rate: it warms up, then falls along a cosine",
               {.min = 0, .max = 10, .without_min = true, .without_max = true});
  demo::path(app, "--save", options.save, "folder",
             "for checkpoints, written while it trains and at its end");
  demo::path(app, "--resume", options.resume, "folder",
             "of a checkpoint to go on from, with its model and text");
  app.add_option("--prompt", options.prompt, "what the sample begins with (default: a new line)")
      ->type_name("TEXT");
  demo::number(app, "--length", options.length, "tokens of the sample", not_negative);
  demo::number(app, "--temperature", options.sampling.temperature, "0: always the likeliest token",
               {.min = 0, .max = std::numeric_limits<double>::max(), .without_max = true});
  demo::number(app, "--top-k", options.sampling.top_k, "choose among so many; 0: all", not_negative);
  demo::number(app, "--top-p", options.sampling.top_p,
               "choose among the likeliest that are together so likely",
               {.min = 0, .max = 1, .without_min = true});
  demo::number(app, "--seed", options.seed,
               "of weights, batches and sample: the same seed writes the same text");
  demo::number(app, "--threads", options.threads, "0: one for each processor",
               demo::Range<Index>{.min = 0, .max = 1024});
}

}  // namespace demo::mini_gpt
