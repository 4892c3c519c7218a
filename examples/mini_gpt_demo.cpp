// mini_gpt_demo: a small GPT learns from a text, and writes. With no argument the text is Shakespeare's
// sonnets, and it takes less than a minute. Shows how the loss falls, a sample, what a head looks at in it,
// and proves that the trained model does not see the future.
//
//   mini_gpt_demo --text my_letters.txt --steps 3000 --save run    # Ctrl-C saves and ends
//   mini_gpt_demo --resume run                                     # goes on where it stopped, and writes
//   mini_gpt_demo --resume run --steps 0 --prompt "Dear"           # only writes

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "any_tokenizer.hpp"
#include "command_line.hpp"
#include "demo.hpp"
#include "heed/heed.hpp"
#include "sonnets.hpp"

namespace {

using heed::Index;
using heed::TokenId;
using Scalar = float;

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

// Ctrl-C: the step under way is finished, then the run is saved. A second one ends the program at once. The
// exit code is 130 whenever it comes, as shells report a program that Ctrl-C ended.
constexpr int interrupted_code = 130;
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch no lock");

extern "C" void on_interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

std::string number(double value, const char* format = "%.4f") {
  char text[64];
  (void)std::snprintf(text, sizeof text, format, value);
  return text;
}

/// What a training learns from, and how far it came.
struct Run {
  heed::TokenWindows train;
  std::vector<heed::TokenBatch> held_out;  // empty if the text is too short to hold any out
  std::vector<double> steps, losses;       // of training, averaged between two looks at what is held out
  std::vector<double> held_out_losses;
};

/// What is written beside a checkpoint to know its text again: bytes and a hash (FNV-1a of 64 bits).
std::string fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return std::to_string(text.size()) + " bytes, " + std::to_string(hash);
}

std::string read_text(const Options& options) {
  return options.text_file.empty() ? std::string(demo::sonnets) : demo::read_corpus(options.text_file);
}

void require(bool good, const std::string& message) {
  if (!good) throw heed::ArgumentError(message);
}

/// The fields of the library's options that a flag sets.
const std::vector<std::pair<std::string, std::string>> field_flags = {
    {"num_layers", "--layers"}, {"num_heads", "--heads"}, {"d_model", "--d-model"}};

/// What the ranges of single options cannot say, and can be known to be wrong before any work.
void check(const Options& options) {
  require(options.save.empty() || options.resume.empty() || options.save == options.resume,
          "--save and --resume name different folders: a run goes on in its own");
  require(options.save.empty() || !options.resume.empty() || !heed::has_checkpoint(options.save),
          "there is a run in " + heed::escaped(options.save) +
              " already: go on with --resume, or choose another folder");
  heed::GptConfig model = options.model;
  model.vocab_size = options.vocab_size;
  demo::in_words_of_flags(field_flags, [&] { heed::check_config(model); });
}

constexpr std::pair<const char*, heed::PositionKind> position_kinds[] = {
    {"learned", heed::PositionKind::learned},
    {"sinusoidal", heed::PositionKind::sinusoidal},
    {"rotary", heed::PositionKind::rotary}};

/// A run keeps its model: an option that asks for another one is refused.
void refuse_another_model(const CLI::App& app, const Options& options, const heed::GptConfig& own,
                          const demo::AnyTokenizer& tokenizer, const heed::Notes& notes) {
  const auto keep = [&](const char* option, const auto& wanted, const auto& is) {
    if (app.count(option) == 0 || wanted == is) return;
    std::ostringstream message;
    message << option << " is " << wanted << ", the run in " << heed::escaped(options.resume) << " has " << is
            << ": a run keeps its model";
    throw heed::ArgumentError(message.str());
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
std::string take_over(const CLI::App& app, const heed::Notes& notes, Options& options) {
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
    note("--lr", "lr", options.rate, [](const std::string& s) { return std::stod(s); });
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

Run prepare(const Options& options, const demo::AnyTokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  const Index context = options.model.context;
  const Index held = std::ssize(ids) / 10;
  const bool hold = held > context && std::ssize(ids) - held > context;
  demo::say("Text: ",
            (options.text_file.empty() ? "Shakespeare's sonnets" : heed::escaped(options.text_file)) + ", " +
                std::to_string(text.size()) + " bytes, " + demo::count_of(std::ssize(ids), tokenizer.unit()) +
                " of " + std::to_string(tokenizer.vocab_size()) + " kinds; " +
                (hold ? "the last tenth is held out" : "too short to hold any of it out"));
  const auto middle = ids.end() - (hold ? held : 0);
  std::vector<heed::TokenBatch> held_out;
  if (hold) held_out = heed::TokenWindows({middle, ids.end()}, context).in_order(options.batch);
  return {heed::TokenWindows({ids.begin(), middle}, context), std::move(held_out), {}, {}, {}};
}

class Training {
 public:
  Training(const Options& options, const std::string& tokenizer_json, const std::string& text_fingerprint,
           heed::GptTrainer<Scalar>& trainer, heed::Random& random)
      : options_(options),
        tokenizer_json_(tokenizer_json),
        fingerprint_(text_fingerprint),
        trainer_(trainer),
        random_(random) {}

  /// Steps until all are done or Ctrl-C. Throws TrainingError if the loss leaves the numbers.
  void go_on(Run& run) {
    const Index falling = options_.rate_steps > 0 ? options_.rate_steps : options_.steps;
    const heed::CosineSchedule schedule{options_.rate, options_.rate / 10, std::min<Index>(100, falling / 10),
                                        falling};
    const Index first = done();
    const Index every = options_.every > 0 ? options_.every : std::max<Index>(1, options_.steps / 20);
    look(run, std::nullopt);
    heed::TokenBatch batch;
    double sum = 0;
    Index counted = 0;
    start_ = Clock::now();
    while (done() < options_.steps && !interrupted) {
      run.train.draw(random_, options_.batch, batch);
      const heed::TrainingStep step = trainer_.step(batch, schedule.at(done()));
      sum += step.loss;
      ++counted;
      show_progress(first, step.loss);
      if (done() % every == 0 || done() == options_.steps) {
        look(run, sum / static_cast<double>(counted));
        sum = 0;
        counted = 0;
        if (!options_.save.empty()) save(options_.save);
      }
    }
    bar_.finish();
    if (done() == first) return;
    const double seconds = seconds_since_start();
    const Index tokens = options_.batch * options_.model.context;
    demo::say(demo::count_of(done() - first, "step") + " of " + std::to_string(tokens) + " tokens in " +
              number(seconds, "%.1f") + " s: " +
              number(static_cast<double>((done() - first) * tokens) / seconds, "%.0f") + " tokens/s");
  }

  Index done() const { return trainer_.optimizer().steps(); }

  void save(const std::string& folder) const {
    heed::save_checkpoint(folder, trainer_, random_, tokenizer_json_,
                          {{"steps", std::to_string(options_.steps)},
                           {"lr_steps", std::to_string(options_.rate_steps)},
                           {"batch", std::to_string(options_.batch)},
                           {"lr", number(options_.rate, "%.17g")},
                           {"seed", std::to_string(options_.seed)},
                           {"vocab_size", std::to_string(options_.vocab_size)},
                           {"text", options_.text_file},
                           {"fingerprint", fingerprint_}});
  }

 private:
  using Clock = std::chrono::steady_clock;

  double seconds_since_start() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void show_progress(Index first, double loss) {
    const double seconds = seconds_since_start();
    const double each = seconds / static_cast<double>(done() - first);
    const double tokens = static_cast<double>(options_.batch * options_.model.context);
    bar_.show(done(), options_.steps,
              "step " + std::to_string(done()) + "/" + std::to_string(options_.steps) + "  loss " +
                  number(loss, "%.3f") + "  " + number(tokens / each, "%.0f") + " tokens/s  " +
                  number(each * static_cast<double>(options_.steps - done()), "%.0f") + " s left");
  }

  /// The loss of what is held out, beside that of training since the last look. Throws TrainingError if it
  /// has left the numbers, before a checkpoint would keep such weights.
  void look(Run& run, std::optional<double> loss) {
    if (!loss && run.held_out.empty()) return;
    bar_.finish();
    std::cout << "  step " << done();
    if (loss) {
      run.steps.push_back(static_cast<double>(done()));
      run.losses.push_back(*loss);
      std::cout << "  loss " << number(*loss);
    }
    double held_out = 0;
    if (!run.held_out.empty()) {
      held_out = trainer_.loss(run.held_out);
      if (loss) run.held_out_losses.push_back(held_out);
      std::cout << "  held out " << number(held_out);
    }
    std::cout << std::endl;
    if (!std::isfinite(held_out)) {
      throw heed::TrainingError("step " + std::to_string(done()) + ": the loss of what is held out is " +
                                number(held_out));
    }
  }

  const Options& options_;
  const std::string& tokenizer_json_;
  const std::string& fingerprint_;
  heed::GptTrainer<Scalar>& trainer_;
  heed::Random& random_;
  demo::ProgressBar bar_;
  Clock::time_point start_ = Clock::now();
};

void show_curve(const Run& run, const char* unit) {
  if (run.losses.size() < 2) return;
  const heed::Terminal terminal = heed::query_terminal();
  heed::PlotOptions look;
  look.title = "Loss in nats for each " + std::string(unit);
  look.x_label = "step";
  look.width = std::clamp<Index>(terminal.width, 40, 100);
  look.height = 12;
  look.color = heed::color_depth(heed::ColorMode::automatic, terminal) != heed::ColorDepth::none;
  look.charset = terminal.unicode || !terminal.interactive ? heed::Charset::utf8 : heed::Charset::ascii;
  std::vector<heed::Series> series = {{"training", run.steps, run.losses}};
  if (!run.held_out_losses.empty()) series.push_back({"held out", run.steps, run.held_out_losses});
  std::cout << '\n' << heed::plot_curves(series, look);
}

/// A head of the last layer over the beginning of the sample.
void show_head(const heed::Gpt<Scalar>& model, const demo::AnyTokenizer& tokenizer,
               const std::vector<TokenId>& ids) {
  const Index layer = model.config().num_layers - 1;
  const auto weights = model.attention_weights(ids, layer);
  const heed::Matrix<Scalar> head = weights.head(0);
  const heed::Matrix<Scalar> scaled = head.array().colwise() / head.rowwise().maxCoeff().array();
  const heed::Terminal terminal = heed::query_terminal();
  heed::HeatMapOptions look;
  look.form = heed::heat_map_form(heed::color_depth(heed::ColorMode::automatic, terminal),
                                  terminal.unicode || !terminal.interactive);
  look.max_width = std::max<Index>(40, terminal.width);
  for (const TokenId id : ids) look.row_labels.push_back(tokenizer.id_to_token(id));
  std::cout << '\n';
  demo::say(
      "Head 0 of layer " + std::to_string(layer) +
      " over the beginning of the sample: a row is a token, its columns the tokens it looks at, each row "
      "scaled by its largest weight");
  std::cout << heed::heat_map(scaled, look);
}

bool show_causal_check(const heed::Gpt<Scalar>& model, const std::vector<TokenId>& ids) {
  const heed::CausalReport report =
      heed::verify_causal([&](const heed::Matrix<Scalar>& x) { return model.logits(x); }, model.embed(ids));
  std::cout << '\n';
  demo::say("Causal check of the trained model: " + demo::count_of(report.cuts, "future") +
            " tried, largest difference before the change: " + number(report.largest_difference, "%g"));
  std::cout << "verdict: " << (report.passed ? "causal, within 1e-9" : "NOT causal") << "\n";
  return report.passed;
}

/// Without a prompt: from the beginning of a line, if the vocabulary has lines.
std::vector<TokenId> prompt_of(const Options& options, const demo::AnyTokenizer& tokenizer) {
  if (!options.prompt.empty()) {
    std::vector<TokenId> ids = tokenizer.encode(options.prompt);
    require(!ids.empty(), "--prompt has white space alone: give one with a word in it");
    return ids;
  }
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.id_to_token(id) == "\n") return {id};
  }
  return {0};
}

/// Line by line, each made safe for the terminal, long ones broken between words.
void print_text(const std::string& text) {
  const auto longest = static_cast<std::size_t>(std::min<Index>(demo::columns(), 80) - 4);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    while (line.size() > longest) {
      const std::size_t blank = line.rfind(' ', longest);
      const std::size_t end = blank == std::string::npos || blank == 0 ? line.size() : blank;
      std::cout << "  " << heed::escaped(line.substr(0, end)) << '\n';
      line.erase(0, std::min(line.size(), end + 1));
    }
    std::cout << "  " << heed::escaped(line) << '\n';
  }
}

int write_sample(const Options& options, const heed::Gpt<Scalar>& model, const demo::AnyTokenizer& tokenizer,
                 const std::vector<TokenId>& prompt, heed::Executor* executor) {
  heed::Random random(options.seed + 2);
  heed::GenerateOptions how;
  how.max_new_tokens = options.length;
  how.sampling = options.sampling;
  how.sampling.vocab_size = tokenizer.vocab_size();
  how.executor = executor;
  std::vector<TokenId> ids = prompt;
  const std::vector<TokenId> text = heed::generate<Scalar>(model, prompt, how, random);
  ids.insert(ids.end(), text.begin(), text.end());
  std::cout << '\n';
  demo::say("Sample (temperature " + demo::digits(options.sampling.temperature) + ", seed " +
            std::to_string(options.seed) + "):");
  print_text(tokenizer.decode(ids));
  ids.resize(static_cast<std::size_t>(std::min<Index>({std::ssize(ids), model.config().context, 40})));
  show_head(model, tokenizer, ids);
  return show_causal_check(model, ids) ? 0 : 1;
}

/// Where a run is saved for which no folder was given.
std::string unused_folder() {
  std::string folder = "mini_gpt_interrupted";
  for (int n = 2; heed::has_checkpoint(folder); ++n) folder = "mini_gpt_interrupted_" + std::to_string(n);
  return folder;
}

/// Trains until all steps are done. Returns an exit code if the program ends here: by Ctrl-C, or because the
/// loss has left the numbers.
std::optional<int> train(Training& training, Run& run, const Options& options) {
  // A folder that cannot be written is known before the training.
  if (!options.save.empty() && options.resume.empty()) training.save(options.save);
  try {
    training.go_on(run);
  } catch (const heed::TrainingError& error) {
    std::cerr << "mini_gpt_demo: " << error.what() << "\n";
    if (!options.save.empty() && heed::has_checkpoint(options.save))
      std::cerr << "The last checkpoint is in " << heed::escaped(options.save) << ". ";
    std::cerr << "A smaller --lr may help.\n";
    return 1;
  }
  std::signal(SIGINT, SIG_DFL);  // before the look at what came until then: none is lost in between
  if (interrupted) {
    const std::string folder = options.save.empty() ? unused_folder() : options.save;
    training.save(folder);
    demo::say("Stopped at step " + std::to_string(training.done()) + " of " + std::to_string(options.steps) +
              ", saved. To go on: --resume " + heed::escaped(folder));
    return interrupted_code;
  }
  if (!options.save.empty()) std::cout << "Saved in " << heed::escaped(options.save) << "\n";
  return std::nullopt;
}

int run(const CLI::App& app, Options& options) {
  check(options);
  // Before anything is read or saved, and whether or not the parent process ignores it: what a shell starts
  // in the background does.
  std::signal(SIGINT, on_interrupt);
  std::optional<std::string> text;
  std::optional<heed::Gpt<Scalar>> model;
  std::optional<demo::AnyTokenizer> tokenizer;
  std::string noted_fingerprint;
  if (options.resume.empty()) {
    text = read_text(options);
    tokenizer = options.tokenizer == "char" ? demo::AnyTokenizer::characters(*text)
                                            : demo::AnyTokenizer::byte_pairs(*text, options.vocab_size);
    options.model.vocab_size = tokenizer->vocab_size();
    heed::Random initial(options.seed);
    model.emplace(options.model, initial);
  } else {
    model = heed::load_model<Scalar>(options.resume);
    tokenizer = demo::AnyTokenizer::from_json(heed::load_tokenizer_json(options.resume));
    const heed::Notes notes = heed::checkpoint_notes(options.resume);
    refuse_another_model(app, options, model->config(), *tokenizer, notes);
    noted_fingerprint = take_over(app, notes, options);
    options.model = model->config();
    options.save = options.resume;
  }
  // A wrong prompt is known before the training.
  const std::vector<TokenId> prompt = prompt_of(options, *tokenizer);
  heed::ThreadPool pool(options.threads);
  heed::Executor* const executor = pool.concurrency() > 1 ? &pool : nullptr;
  heed::GptTrainer<Scalar> trainer(*model, {.batch_size = options.batch, .dropout_seed = options.seed},
                                   executor);
  heed::Random random(options.seed + 1);
  if (!options.resume.empty()) (void)heed::resume(options.resume, trainer, random);
  const Index done = trainer.optimizer().steps();

  std::optional<Run> run;
  std::string text_fingerprint;
  if (done < options.steps) {
    if (!text) text = read_text(options);
    text_fingerprint = fingerprint(*text);
    require(noted_fingerprint.empty() || noted_fingerprint == text_fingerprint,
            "the run in " + heed::escaped(options.resume) +
                " has learned from another text: give that one with --text, or write only, with --steps 0");
    run = prepare(options, *tokenizer, *text);
  }
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
  demo::number(app, "--threads", options.threads, "0: one for each processor", not_negative);
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
