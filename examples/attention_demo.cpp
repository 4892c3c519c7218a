// attention_demo: a text on its way through the tokenizer, the embedding with its positions, and multi-head
// attention with a causal mask, to a heat map of who attends to whom; and then the proof that nobody attends
// to the future. With no argument it is the tutorial's example, number for number.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "demo.hpp"
#include "heed/heed.hpp"

namespace {

using heed::Index;
using heed::Matrix;
using heed::TokenId;

struct Options {
  std::string text = "the quick brown fox";
  std::string corpus_file;
  std::string form = "auto";
  Index vocab_size = 80;
  Index min_frequency = 2;
  Index d_model = 16;
  Index heads = 2;
  Index head = 0;
  std::string seed;
  bool no_mask = false;
};

/// Seeds of the tutorial; --seed replaces all three by its own number and the two that follow.
struct Seeds {
  std::uint64_t embedding = 0xC0FFEE;
  std::uint64_t projections = 0xBEEF;
  std::uint64_t future = 0xCAFE;
};

std::string number(double value, const char* format = "%.9f") {
  char text[64];
  (void)std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string size_of(const Matrix<double>& m) {
  return std::to_string(m.rows()) + " x " + std::to_string(m.cols());
}

std::string first_numbers(const Matrix<double>& m) {
  std::string text;
  for (Index j = 0; j < std::min<Index>(4, m.cols()); ++j) text += (j == 0 ? "" : ", ") + number(m(0, j));
  return text + (m.cols() > 4 ? ", ..." : "");
}

/// A seed as the generator takes it: 0 to 2^64 - 1, in decimal.
std::uint64_t seed_of(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    throw heed::ArgumentError("--seed is \"" + text +
                              "\", it must be a whole number from 0 to 18446744073709551615");
  }
  return seed;
}

/// What can be known to be wrong before any work.
void check(const Options& options) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw heed::ArgumentError(message);
  };
  require(options.d_model >= 1,
          "--d-model is " + std::to_string(options.d_model) + ", it must be at least 1");
  require(options.heads >= 1 && options.d_model % options.heads == 0,
          "--heads is " + std::to_string(options.heads) + ", it must divide --d-model, which is " +
              std::to_string(options.d_model));
  require(options.head >= 0 && options.head < options.heads, "--head is " + std::to_string(options.head) +
                                                                 ", heads are counted from 0 to " +
                                                                 std::to_string(options.heads - 1));
}

heed::BpeTokenizer train(const Options& options) {
  const std::string corpus =
      options.corpus_file.empty() ? demo::tutorial_corpus : demo::read_text(options.corpus_file);
  if (corpus.empty())
    throw heed::ArgumentError("the corpus " + options.corpus_file + " is empty: nothing to learn from");
  std::cout << "1. Tokenizer: byte-pair encoding, learned from a corpus of " << corpus.size() << " bytes\n";
  demo::ProgressBar bar;
  const heed::BpeTokenizer tokenizer = heed::train_bpe(
      corpus, {.vocab_size = options.vocab_size, .min_frequency = options.min_frequency},
      [&](const heed::BpeTrainStep& step) { bar.update(step.vocab_size, step.target_vocab_size, "tokens"); });
  bar.finish();
  std::cout << "   vocabulary: " << tokenizer.vocab_size() << " tokens, " << tokenizer.merges().size()
            << " merges\n";
  if (!tokenizer.merges().empty()) {
    const heed::BpeMerge& first = tokenizer.merges().front();
    std::cout << "   first merge: (" << demo::in_quotes(first.pair.first) << ", "
              << demo::in_quotes(first.pair.second) << ") -> " << demo::in_quotes(first.new_token) << "\n";
  }
  return tokenizer;
}

std::vector<TokenId> encode(const heed::BpeTokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> ids = tokenizer.encode(text);
  std::cout << "   text:    " << demo::in_quotes(text) << "\n   tokens: ";
  for (const TokenId id : ids) std::cout << ' ' << demo::in_quotes(tokenizer.id_to_token(id));
  std::cout << "\n   ids:     " << demo::list(ids)
            << "\n   decoded: " << demo::in_quotes(tokenizer.decode(ids)) << "\n\n";
  if (ids.empty()) throw heed::ArgumentError("the text has no tokens: give one with a word in it");
  return ids;
}

/// Blocks as the tutorial draws them, or what the terminal can show.
heed::HeatMapForm form_of(const std::string& name) {
  if (name == "blocks") return heed::HeatMapForm::blocks;
  if (name == "ascii") return heed::HeatMapForm::ascii;
  const heed::Terminal terminal = heed::query_terminal();
  const auto mode = name == "color" ? heed::ColorMode::always : heed::ColorMode::automatic;
  const heed::ColorDepth depth = heed::color_depth(mode, terminal);
  return depth == heed::ColorDepth::none ? heed::HeatMapForm::blocks
                                         : heed::heat_map_form(depth, terminal.unicode);
}

void show_weights(const Matrix<double>& weights, const heed::BpeTokenizer& tokenizer,
                  const std::vector<TokenId>& ids, const Options& options) {
  heed::HeatMapOptions look;
  look.form = form_of(options.form);
  look.max_width = std::max<Index>(40, heed::query_terminal().width);
  for (const TokenId id : ids) look.row_labels.push_back(tokenizer.id_to_token(id));
  if (look.form == heed::HeatMapForm::ascii) look.col_labels = look.row_labels;
  const char* more = look.form == heed::HeatMapForm::blocks  ? "fuller"
                     : look.form == heed::HeatMapForm::ascii ? "larger"
                                                             : "brighter";
  std::cout
      << "5. Weights of head " << options.head << ": who looks at whom\n"
      << "   A row is a token, its columns are the tokens in the same order: the more it looks at one, the "
      << more << " the cell.\n";
  // The first token looks at itself alone, with weight 1; beyond some tokens all other weights are too small
  // to show beside it.
  constexpr Index longest_on_one_scale = 8;
  if (weights.rows() <= longest_on_one_scale) {
    std::cout << heed::heat_map(weights, look);
  } else {
    std::cout << "   Each row is scaled by its largest weight.\n";
    const Matrix<double> scaled = weights.array().colwise() / weights.rowwise().maxCoeff().array();
    std::cout << heed::heat_map(scaled, look);
  }
}

/// The tutorial's own check: replace the future, and look at position 0.
bool check_first_position(const heed::MultiHeadAttention<double>& attention, const Matrix<double>& x,
                          const Matrix<double>& out, const heed::LayerOptions& layer, std::uint64_t seed) {
  heed::Random random(seed);
  Matrix<double> other = x;
  for (Index i = 1; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) other(i, j) = random.uniform(-1, 1);
  }
  const Matrix<double> after = attention.forward(other, layer);
  std::cout << "   position 0 before / after: " << number(out(0, 0)) << " / " << number(after(0, 0)) << "\n";
  return std::abs(out(0, 0) - after(0, 0)) <= 1e-9;
}

int run(const Options& options) {
  check(options);
  Seeds seeds;
  if (!options.seed.empty()) {
    const std::uint64_t seed = seed_of(options.seed);
    seeds = {seed, seed + 1, seed + 2};
  }

  const heed::BpeTokenizer tokenizer = train(options);
  const std::vector<TokenId> ids = encode(tokenizer, options.text);

  heed::Random embedding_random(seeds.embedding);
  const heed::TokenEmbedding<double> embedding(tokenizer.vocab_size(), options.d_model, embedding_random);
  const Matrix<double> embedded = embedding.forward(ids);
  const heed::SinusoidalPositions<double> positions(std::ssize(ids), options.d_model);
  const Matrix<double> x = heed::add_positional(embedded, positions);
  std::cout << "2. Embedding: each id picks a row of a " << embedding.vocab_size() << " x " << options.d_model
            << " table\n   shape: " << size_of(embedded) << ", first numbers: " << first_numbers(embedded)
            << "\n\n"
            << "3. Positions: sines and cosines are added, so that order counts\n   shape: " << size_of(x)
            << ", first numbers: " << first_numbers(x) << "\n\n";

  heed::Random projection_random(seeds.projections);
  const heed::MultiHeadAttention<double> attention(options.d_model, options.heads, projection_random, 0.3);
  heed::LayerOptions layer;
  if (!options.no_mask) layer.mask = heed::causal();
  const auto result = attention.forward_with_weights(x, layer);
  const auto weights = result.weights.head(options.head);
  const heed::RowSumReport sums = heed::rows_sum_to_one(result.weights.stacked);
  std::cout << "4. Multi-head attention: " << demo::count_of(options.heads, "head") << " on "
            << options.d_model / options.heads << " columns each, "
            << (options.no_mask ? "no mask: every token looks at every token\n"
                                : "causal mask: a token looks at itself and back\n")
            << "   (nothing is trained: the weights are random, what matters is how the numbers flow)\n"
            << "   shape: " << size_of(result.out) << ", first numbers: " << first_numbers(result.out)
            << "\n   each row of weights sums to 1: " << (sums.passed ? "yes" : "NO") << ", largest error "
            << number(sums.largest_error, "%.1e") << "\n\n";

  show_weights(weights, tokenizer, ids, options);

  std::cout << "\n6. Causal check: change the future, the past must not notice\n";
  const bool first = check_first_position(attention, x, result.out, layer, seeds.future);
  const heed::CausalReport causal = heed::verify_causal(attention, x, layer.mask);
  std::cout << "   " << demo::count_of(causal.cuts, "future")
            << " tried, largest difference before the change: " << number(causal.largest_difference, "%g")
            << (causal.largest_difference == 0 ? " (not one bit has changed)" : "") << "\n";
  if (!causal.passed) {
    std::cout << "   position " << causal.position << " changed when position " << causal.cut
              << " and later ones did\n";
  }
  const bool passed = first && causal.passed;
  std::cout << "   verdict: " << (passed ? "causal, within 1e-9" : "NOT causal") << "\n";
  if (!passed && options.no_mask)
    std::cout << "   (as it must be: without the mask, every token sees the future)\n";
  return passed && sums.passed ? 0 : 1;
}

int program(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Shows a text on its way to attention weights, and proves that the future stays unseen.\n"
      "Exits with 1 if a check fails, as it does with --no-mask."};
  app.add_option("--text", options.text, "the text to look at")->capture_default_str();
  app.add_option("--corpus", options.corpus_file,
                 "text file to learn the tokenizer from (default: the tutorial's corpus)");
  app.add_option("--vocab-size", options.vocab_size, "most tokens of the vocabulary")->capture_default_str();
  app.add_option("--min-frequency", options.min_frequency, "pairs that are less frequent are not merged")
      ->capture_default_str();
  app.add_option("--d-model", options.d_model, "numbers for each token")->capture_default_str();
  app.add_option("--heads", options.heads, "heads of attention; they divide d-model")->capture_default_str();
  app.add_option("--head", options.head, "the head whose weights are drawn, from 0")->capture_default_str();
  app.add_option("--seed", options.seed,
                 "seed of embedding, projections and changed futures (default: the tutorial's)");
  app.add_option("--form", options.form, "how weights are drawn")
      ->check(CLI::IsMember({"auto", "blocks", "ascii", "color"}))
      ->capture_default_str();
  app.add_flag("--no-mask", options.no_mask, "let every token see every token");
  if (const auto code = demo::parse(app, argc, argv)) return *code;
  return run(options);
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("attention_demo", [&] { return program(argc, argv); });
}
