#pragma once

// What mini_gpt_demo shows of a model: how its loss fell, a sample of its text, what a head looks at, and
// that it does not see the future.

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "any_tokenizer.hpp"
#include "demo.hpp"
#include "heed/heed.hpp"
#include "mini_gpt/options.hpp"
#include "mini_gpt/training.hpp"

namespace demo::mini_gpt {

inline void show_curve(const Run& run, const char* unit) {
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
inline void show_head(const heed::Gpt<Scalar>& model, const demo::AnyTokenizer& tokenizer,
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

inline bool show_causal_check(const heed::Gpt<Scalar>& model, const std::vector<TokenId>& ids) {
  const heed::CausalReport report =
      heed::verify_causal([&](const heed::Matrix<Scalar>& x) { return model.logits(x); }, model.embed(ids));
  std::cout << '\n';
  demo::say("Causal check of the trained model: " + demo::count_of(report.cuts, "future") +
            " tried, largest difference before the change: " + demo::general(report.largest_difference));
  std::cout << "verdict: " << (report.passed ? "causal, within 1e-9" : "NOT causal") << "\n";
  return report.passed;
}

/// Without a prompt: from the beginning of a line, if the vocabulary has lines.
inline std::vector<TokenId> prompt_of(const Options& options, const demo::AnyTokenizer& tokenizer) {
  if (!options.prompt.empty()) {
    std::vector<TokenId> ids = tokenizer.encode(options.prompt);
    require(!ids.empty(), "--prompt has white space alone: give one with a word in it");
    if (const std::string sentence = tokenizer.about_unknown(ids); !sentence.empty())
      demo::say("Prompt: ", sentence);
    return ids;
  }
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.id_to_token(id) == "\n") return {id};
  }
  return {0};
}

/// Line by line, each made safe for the terminal, long ones broken between words.
inline void print_text(const std::string& text) {
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

inline int write_sample(const Options& options, const heed::Gpt<Scalar>& model,
                        const demo::AnyTokenizer& tokenizer, const std::vector<TokenId>& prompt,
                        heed::Executor* executor) {
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

}  // namespace demo::mini_gpt
