// attention_demo: a text on its way through the tokenizer, the embedding with its positions, and multi-head
// attention with a causal mask, to a heat map of who attends to whom; and then the proof that nobody attends
// to the future. With no argument it is the tutorial's example, number for number.

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "corpus.hpp"
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
  bool own_text = false;  // not the tutorial's
  std::optional<Index> vocab_size;
  Index min_frequency = 2;
  Index d_model = 16;
  Index heads = 2;
  Index head = 0;
  std::optional<std::uint64_t> seed;
  bool no_mask = false;
};

/// Seeds of the tutorial; --seed replaces all three by its own number and the two that follow.
struct Seeds {
  std::uint64_t embedding = 0xC0FFEE;
  std::uint64_t projections = 0xBEEF;
  std::uint64_t future = 0xCAFE;
};

std::string size_text(const Matrix<double>& m) {
  return std::to_string(m.rows()) + " x " + std::to_string(m.cols());
}

std::string first_numbers(const Matrix<double>& m) {
  std::string text;
  for (Index j = 0; j < std::min<Index>(4, m.cols()); ++j)
    text += (j == 0 ? "" : ", ") + demo::fixed(m(0, j), 9);
  return text + (m.cols() > 4 ? ", ..." : "");
}

/// What the ranges of single options cannot say.
void check(const Options& options) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw heed::ArgumentError(message);
  };
  require(options.d_model % options.heads == 0, "--heads is " + std::to_string(options.heads) +
                                                    ", it must divide --d-model, which is " +
                                                    std::to_string(options.d_model));
  require(options.head < options.heads, "--head is " + std::to_string(options.head) +
                                            ", heads are counted from 0 to " +
                                            std::to_string(options.heads - 1));
  require(!options.text.empty(), "--text is empty: give one with a word in it");
  require(!heed::BpeTokenizer().encode(options.text).empty(),
          "--text has white space alone: give one with a word in it");
}

heed::BpeTokenizer train(const Options& options) {
  const demo::Corpus corpus = demo::corpus_for(
      options.corpus_file, options.own_text ? std::vector{options.text} : std::vector<std::string>{});
  demo::say("1. ", "Tokenizer: byte-pair encoding, learned from " +
                       (options.corpus_file.empty() && !options.own_text
                            ? "a corpus of " + std::to_string(corpus.bytes()) + " bytes"
                            : heed::escaped(corpus.name) + ", " + std::to_string(corpus.bytes()) + " bytes"));
  demo::ProgressBar bar;
  const heed::BpeTokenizer tokenizer = demo::in_words_of_flags({{"vocab_size", "--vocab-size"}}, [&] {
    return heed::train_bpe(corpus.views(),
                           {.vocab_size = options.vocab_size.value_or(corpus.vocab_size),
                            .min_frequency = options.min_frequency},
                           [&](const heed::BpeTrainStep& step) {
                             bar.update(step.vocab_size, step.target_vocab_size, "tokens");
                           });
  });
  bar.finish();
  demo::say("   ", "vocabulary: " + std::to_string(tokenizer.vocab_size()) + " tokens, " +
                       std::to_string(tokenizer.merges().size()) + " merges");
  if (!tokenizer.merges().empty()) {
    const heed::BpeMerge& first = tokenizer.merges().front();
    demo::say("   ", "first merge: (" + demo::in_quotes(first.pair.first) + ", " +
                         demo::in_quotes(first.pair.second) + ") -> " + demo::in_quotes(first.new_token));
  }
  return tokenizer;
}

std::vector<TokenId> encode(const heed::BpeTokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> ids = tokenizer.encode(text);
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) tokens.push_back(demo::in_quotes(tokenizer.id_to_token(id)));
  demo::say("   text:    ", demo::in_quotes(text));
  demo::say("   tokens:  ", tokens);
  demo::say("   ids:     ", demo::list(ids));
  demo::say("   decoded: ", demo::in_quotes(tokenizer.decode(ids)));
  if (const std::string sentence = demo::about_unknown(ids); !sentence.empty()) demo::say("   ", sentence);
  std::cout << "\n";
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
  demo::say("5. Weights of head " + std::to_string(options.head) + ": who looks at whom");
  demo::say(
      "   A row is a token, its columns are the tokens in the same order: the more it looks at one, the " +
      std::string(more) + " the cell.");
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
  demo::say("   position 0 before / after: " + demo::fixed(out(0, 0), 9) + " / " +
            demo::fixed(after(0, 0), 9));
  return std::abs(out(0, 0) - after(0, 0)) <= 1e-9;
}

int run(const Options& options) {
  check(options);
  Seeds seeds;
  if (options.seed) seeds = {*options.seed, *options.seed + 1, *options.seed + 2};

  const heed::BpeTokenizer tokenizer = train(options);
  const std::vector<TokenId> ids = encode(tokenizer, options.text);

  heed::Random embedding_random(seeds.embedding);
  const heed::TokenEmbedding<double> embedding(tokenizer.vocab_size(), options.d_model, embedding_random);
  const Matrix<double> embedded = embedding.forward(ids);
  const heed::SinusoidalPositions<double> positions(std::ssize(ids), options.d_model);
  const Matrix<double> x = heed::add_positions(embedded, positions);
  demo::say("2. ", "Embedding: each id picks a row of a " + std::to_string(embedding.vocab_size()) + " x " +
                       std::to_string(options.d_model) + " table");
  demo::say("   shape: " + size_text(embedded) + ", first numbers: " + first_numbers(embedded));
  std::cout << "\n";
  demo::say("3. ", "Positions: sines and cosines are added, so that order counts");
  demo::say("   shape: " + size_text(x) + ", first numbers: " + first_numbers(x));

  heed::Random projection_random(seeds.projections);
  const heed::MultiHeadAttention<double> attention(options.d_model, options.heads, projection_random, 0.3);
  heed::LayerOptions layer;
  if (!options.no_mask) layer.mask = heed::causal();
  const auto result = attention.forward_with_weights(x, layer);
  const auto weights = result.weights.head(options.head);
  const heed::RowSumReport sums = heed::rows_sum_to_one(result.weights.stacked);
  std::cout << "\n";
  demo::say("4. ", "Multi-head attention: " + demo::count_of(options.heads, "head") + " on " +
                       std::to_string(options.d_model / options.heads) + " columns each, " +
                       (options.no_mask ? "no mask: every token looks at every token"
                                        : "causal mask: a token looks at itself and back"));
  demo::say("   (nothing is trained: the weights are random, what matters is how the numbers flow)");
  demo::say("   shape: " + size_text(result.out) + ", first numbers: " + first_numbers(result.out));
  demo::say("   each row of weights sums to 1: " + std::string(sums.passed ? "yes" : "NO") +
            ", largest error " + demo::scientific(sums.largest_error, 1));
  std::cout << "\n";

  show_weights(weights, tokenizer, ids, options);

  std::cout << "\n";
  demo::say("6. ", "Causal check: change the future, the past must not notice");
  const bool first = check_first_position(attention, x, result.out, layer, seeds.future);
  const heed::CausalReport causal = heed::verify_causal(attention, x, layer.mask);
  demo::say("   " + demo::count_of(causal.cuts, "future") +
            " tried, largest difference before the change: " + demo::general(causal.largest_difference) +
            (causal.largest_difference == 0 ? " (not one bit has changed)" : ""));
  if (!causal.passed) {
    demo::say("   position " + std::to_string(causal.position) + " changed when position " +
              std::to_string(causal.cut) + " and later ones did");
  }
  const bool passed = first && causal.passed;
  std::cout << "   verdict: " << (passed ? "causal, within 1e-9" : "NOT causal") << "\n";
  if (!passed && options.no_mask)
    demo::say("   (as it must be: without the mask, every token sees the future)");
  return passed && sums.passed ? 0 : 1;
}

int program(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Shows a text on its way to attention weights, and proves that the future stays unseen. "
      "Exits with 1 if a check fails, as it does with --no-mask, and with 2 if an argument is wrong."};
  const demo::Range<Index> at_least_1{.min = 1};
  const demo::Range<Index> not_negative{.min = 0};
  app.add_option("--text", options.text, "the text to look at")->type_name("TEXT")->capture_default_str();
  demo::path(
      app, "--corpus", options.corpus_file, "file",
      "text to learn the tokenizer from (default: the tutorial's; with --text, Shakespeare's sonnets and "
      "that text)");
  demo::number(app, "--vocab-size", options.vocab_size,
               "most tokens of the vocabulary (default: 80 with the tutorial's corpus, else 8000)",
               {.min = 5});
  demo::number(app, "--min-frequency", options.min_frequency, "pairs that are less frequent are not merged",
               not_negative);
  demo::number(app, "--d-model", options.d_model, "numbers for each token", at_least_1);
  demo::number(app, "--heads", options.heads, "heads of attention; they divide --d-model", at_least_1);
  demo::number(app, "--head", options.head, "the head whose weights are drawn, from 0", not_negative);
  demo::number(app, "--seed", options.seed,
               "of embedding, projections and changed futures (default: the tutorial's)");
  demo::choice(app, "--form", options.form, {"auto", "blocks", "ascii", "color"}, "how weights are drawn");
  app.add_flag("--no-mask", options.no_mask, "let every token see every token");
  if (const auto code = demo::parse(app, argc, argv)) return *code;
  options.own_text = app.count("--text") > 0;
  return run(options);
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("attention_demo", [&] { return program(argc, argv); });
}
