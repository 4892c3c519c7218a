#pragma once

// The steps of mini_gpt_demo's training: progress, looks at what is held out, checkpoints and Ctrl-C.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "any_tokenizer.hpp"
#include "demo.hpp"
#include "heed/heed.hpp"
#include "mini_gpt/options.hpp"
#include "sonnets.hpp"

namespace demo::mini_gpt {

using heed::TokenId;
using Scalar = float;

// Ctrl-C: the step under way is finished, then the run is saved. A second one ends the program at once. The
// exit code is 130 whenever it comes, as shells report a program that Ctrl-C ended.
inline constexpr int interrupted_code = 130;
inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch no lock");

extern "C" inline void on_interrupt(int) {
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

/// "22.4 GB"
inline std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* units[] = {"bytes", "KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000; value /= 1000) ++unit;
  return demo::fixed(value, unit == 0 || value >= 100 ? 0 : 1) + " " + units[unit];
}

/// Says what the model and its training take, and refuses more than the machine has, before any of it is
/// taken.
inline void require_memory(const Options& options, Index threads) {
  const std::uint64_t model = heed::gpt_bytes<Scalar>(options.model);
  const std::uint64_t training =
      heed::gpt_trainer_bytes<Scalar>(options.model, options.batch, options.model.context, threads);
  const std::uint64_t machine = heed::physical_memory();
  const std::string sizes = bytes_text(model) + " for the model, " + bytes_text(training) +
                            " for its training; this machine has " + bytes_text(machine);
  demo::say("Memory: ", sizes);
  require(model <= machine && training <= machine - model,
          sizes + ": take a smaller --context, --batch, --d-model or fewer --layers");
}

/// What a training learns from, and how far it came.
struct Run {
  heed::TokenWindows train;
  std::vector<heed::TokenBatch> held_out;  // empty if the text is too short to hold any out
  std::vector<double> steps, losses;       // of training, averaged between two looks at what is held out
  std::vector<double> held_out_losses;
};

/// What is written beside a checkpoint to know its text again: bytes and a hash (FNV-1a of 64 bits).
inline std::string fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return std::to_string(text.size()) + " bytes, " + std::to_string(hash);
}

inline std::string read_text(const Options& options) {
  return options.text_file.empty() ? std::string(demo::sonnets) : demo::read_corpus(options.text_file);
}

inline Run prepare(const Options& options, const demo::AnyTokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  const Index context = options.model.context;
  const Index held = std::ssize(ids) / 10;
  const bool hold = held > context && std::ssize(ids) - held > context;
  demo::say("Text: ",
            (options.text_file.empty() ? "Shakespeare's sonnets" : heed::escaped(options.text_file)) + ", " +
                std::to_string(text.size()) + " bytes, " + demo::count_of(std::ssize(ids), tokenizer.unit()) +
                " of " + std::to_string(tokenizer.vocab_size()) + " kinds; " +
                (hold ? "the last tenth is held out" : "too short to hold any of it out"));
  if (const std::string sentence = tokenizer.about_unknown(ids); !sentence.empty()) demo::say(sentence);
  const auto middle = ids.end() - (hold ? held : 0);
  std::vector<heed::TokenBatch> held_out;
  if (hold) {
    const heed::TokenWindows windows({middle, ids.end()}, context);
    held_out = demo::in_words_of_flags(field_flags, [&] { return windows.in_order(options.batch); });
  }
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
              demo::fixed(seconds, 1) + " s: " +
              demo::fixed(static_cast<double>((done() - first) * tokens) / seconds, 0) + " tokens/s");
  }

  Index done() const { return trainer_.optimizer().steps(); }

  void save(const std::string& folder) const {
    heed::save_checkpoint(folder, trainer_, random_, tokenizer_json_,
                          {{"steps", std::to_string(options_.steps)},
                           {"lr_steps", std::to_string(options_.rate_steps)},
                           {"batch", std::to_string(options_.batch)},
                           {"lr", demo::general(options_.rate, 17)},
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
                  demo::fixed(loss, 3) + "  " + demo::fixed(tokens / each, 0) + " tokens/s  " +
                  demo::fixed(each * static_cast<double>(options_.steps - done()), 0) + " s left");
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
      std::cout << "  loss " << demo::fixed(*loss, 4);
    }
    double held_out = 0;
    if (!run.held_out.empty()) {
      held_out = trainer_.loss(run.held_out);
      if (loss) run.held_out_losses.push_back(held_out);
      std::cout << "  held out " << demo::fixed(held_out, 4);
    }
    std::cout << std::endl;
    if (!std::isfinite(held_out)) {
      throw heed::TrainingError("step " + std::to_string(done()) + ": the loss of what is held out is " +
                                demo::fixed(held_out, 4));
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

/// Where a run is saved for which no folder was given.
inline std::string unused_folder() {
  std::string folder = "mini_gpt_interrupted";
  for (int n = 2; heed::has_checkpoint(folder); ++n) folder = "mini_gpt_interrupted_" + std::to_string(n);
  return folder;
}

/// Trains until all steps are done. Returns an exit code if the program ends here: by Ctrl-C, or because the
/// loss has left the numbers.
inline std::optional<int> train(Training& training, Run& run, const Options& options) {
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

}  // namespace demo::mini_gpt
