// mini_gpt_demo: a small GPT learns from a text, and writes. With no argument the text is Shakespeare's
// sonnets, and it takes less than a minute. Shows how the loss falls, a sample, what a head looks at in it,
// and proves that the trained model does not see the future.
//
//   mini_gpt_demo --text my_letters.txt --steps 3000 --save run    # Ctrl-C saves and ends
//   mini_gpt_demo --resume run                                     # goes on where it stopped, and writes
//   mini_gpt_demo --resume run --steps 0 --prompt "Dear"           # only writes

#include <csignal>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "any_tokenizer.hpp"
#include "command_line.hpp"
#include "heed/heed.hpp"
#include "mini_gpt/display.hpp"
#include "mini_gpt/options.hpp"
#include "mini_gpt/training.hpp"

namespace {

using namespace demo::mini_gpt;

int run(const CLI::App& app, Options& options) {
  check(options);
  // Before anything is read or saved, and whether or not the parent process ignores it: what a shell starts
  // in the background does.
  std::signal(SIGINT, on_interrupt);
  heed::ThreadPool pool(options.threads);
  heed::Executor* const executor = pool.concurrency() > 1 ? &pool : nullptr;
  std::optional<std::string> text;
  std::optional<heed::Gpt<Scalar>> model;
  std::optional<demo::AnyTokenizer> tokenizer;
  std::string noted_fingerprint;
  std::optional<Run> run;
  std::string text_fingerprint;
  const auto prepare_run = [&] {
    if (!text) text = read_text(options);
    text_fingerprint = fingerprint(*text);
    require(noted_fingerprint.empty() || noted_fingerprint == text_fingerprint,
            "the run in " + heed::escaped(options.resume) +
                " has learned from another text: give that one with --text, or write only, with --steps 0");
    run = prepare(options, *tokenizer, *text);
  };
  if (options.resume.empty()) {
    text = read_text(options);
    tokenizer = options.tokenizer == "char" ? demo::AnyTokenizer::characters(*text)
                                            : demo::AnyTokenizer::byte_pairs(*text, options.vocab_size);
    options.model.vocab_size = tokenizer->vocab_size();
    if (options.steps > 0) prepare_run();  // a text that is too short is known before memory is taken
    require_memory(options, pool.concurrency());
    heed::Random initial(options.seed);
    model.emplace(options.model, initial);
  } else {
    model = heed::load_model<Scalar>(options.resume);
    tokenizer = demo::AnyTokenizer::from_json(heed::load_tokenizer_json(options.resume));
    const heed::Notes notes = heed::checkpoint_notes(options.resume);
    refuse_another_model(app, options, model->config(), *tokenizer, notes);
    noted_fingerprint = take_over(app, notes, options);
    options.model = model->config();
    require_memory(options, pool.concurrency());
    options.save = options.resume;
  }
  // A wrong prompt is known before the training.
  const std::vector<TokenId> prompt = prompt_of(options, *tokenizer);
  heed::GptTrainer<Scalar> trainer(*model, {.batch_size = options.batch, .dropout_seed = options.seed},
                                   executor);
  heed::Random random(options.seed + 1);
  if (!options.resume.empty()) (void)heed::resume(options.resume, trainer, random);
  const Index done = trainer.optimizer().steps();

  if (!run && done < options.steps) prepare_run();
  demo::say("Model: ", demo::count_of(options.model.num_layers, "layer") + ", " +
                           demo::count_of(options.model.num_heads, "head") + ", d_model " +
                           std::to_string(options.model.d_model) + ", context " +
                           std::to_string(options.model.context) + ": " +
                           std::to_string(heed::num_parameters(*model)) + " weights; " +
                           demo::count_of(pool.concurrency(), "thread") + ", " + heed::isa());
  if (run) {
    if (!options.resume.empty()) std::cout << "Goes on at step " << done << "\n";
    const std::string tokenizer_json = tokenizer->to_json();
    Training training(options, tokenizer_json, text_fingerprint, trainer, random);
    if (const auto code = train(training, *run, options)) return *code;
    show_curve(*run, tokenizer->unit());
  } else {
    std::signal(SIGINT, SIG_DFL);
    if (interrupted) return interrupted_code;
    std::cout << "It has learned for " << demo::count_of(done, "step") << "\n";
  }
  return write_sample(options, *model, *tokenizer, prompt, executor);
}

int program(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Trains a small GPT on a text and lets it write. Exits with 1 if the trained model fails the causal "
      "check or its loss leaves the numbers, with 2 if an argument is wrong, and with 130 after Ctrl-C."};
  add_options(app, options);
  if (const auto code = demo::parse(app, argc, argv)) return *code;
  for (const auto& [name, kind] : position_kinds) {
    if (options.positions == name) options.model.positions = kind;
  }
  return run(app, options);
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("mini_gpt_demo", [&] { return program(argc, argv); });
}
