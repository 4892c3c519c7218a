// bpe_demo: learns byte-pair encoding in front of your eyes, then encodes and decodes a text.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "demo.hpp"
#include "heed/bpe.hpp"
#include "heed/error.hpp"

namespace {

using demo::in_quotes;
using heed::BpeTokenizer;
using heed::Index;
using heed::TokenId;

struct Options {
  std::string corpus_file;
  std::string load_file;
  std::string save_file;
  std::vector<std::string> texts;
  Index vocab_size = 80;
  Index min_frequency = 2;
  Index shown_merges = 20;
};

BpeTokenizer train(const Options& options) {
  const std::string corpus =
      options.corpus_file.empty() ? demo::tutorial_corpus : demo::read_text(options.corpus_file);
  std::cout << "Corpus: "
            << (options.corpus_file.empty() ? "the tutorial's" : heed::escaped(options.corpus_file)) << ", "
            << corpus.size()
            << " bytes. Every word is cut into its characters and an end-of-word mark </w>;\n"
            << "then the most frequent pair of neighbours becomes one symbol, again and again:\n\n";
  demo::ProgressBar bar;
  const BpeTokenizer tokenizer = heed::train_bpe(
      corpus, {.vocab_size = options.vocab_size, .min_frequency = options.min_frequency},
      [&](const heed::BpeTrainStep& step) {
        bar.update(step.vocab_size, step.target_vocab_size, "tokens");
        if (step.merge.rank >= options.shown_merges) return;
        std::cout << "  merge " << step.merge.rank + 1 << ": (" << in_quotes(step.merge.pair.first) << ", "
                  << in_quotes(step.merge.pair.second) << ") -> " << in_quotes(step.merge.new_token) << "   "
                  << step.frequency << " times\n";
      });
  bar.finish();
  const Index hidden = std::ssize(tokenizer.merges()) - options.shown_merges;
  if (hidden > 0) std::cout << "  ... and " << hidden << " more (--merges N shows N)\n";
  if (tokenizer.merges().empty())
    std::cout << "  no merges: no pair is frequent enough, or no room for more tokens\n";
  std::cout << '\n';
  return tokenizer;
}

void print_vocabulary(const BpeTokenizer& tokenizer) {
  constexpr TokenId shown = 100;
  constexpr std::size_t line_width = 100;
  std::cout << "Vocabulary of " << tokenizer.vocab_size() << " tokens:\n";
  std::string line;
  for (TokenId id = 0; id < std::min<Index>(shown, tokenizer.vocab_size()); ++id) {
    const std::string entry = "  " + std::to_string(id) + " " + in_quotes(tokenizer.id_to_token(id));
    if (line.size() + entry.size() > line_width) {
      std::cout << line << '\n';
      line.clear();
    }
    line += entry;
  }
  std::cout << line << '\n';
  if (tokenizer.vocab_size() > shown)
    std::cout << "  ... and " << tokenizer.vocab_size() - shown << " more\n";
  std::cout << '\n';
}

void print_encoding(const BpeTokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  std::string tokens;
  for (const TokenId id : ids) tokens += (tokens.empty() ? "" : " ") + in_quotes(tokenizer.id_to_token(id));
  std::cout << "Text:    " << in_quotes(text) << '\n'
            << "Tokens:  " << tokens << '\n'
            << "Ids:     " << demo::list(ids) << "\n"
            << "Decoded: " << in_quotes(tokenizer.decode(ids)) << "\n";
  if (std::find(ids.begin(), ids.end(), BpeTokenizer::unk_id) != ids.end()) {
    std::cout << "         (<unk>, shown as \uFFFD: a character, or an end of a word, that no token of the "
                 "vocabulary covers)\n";
  }
  std::cout << '\n';
}

int run(const Options& options) {
  if (options.shown_merges < 0) {
    throw heed::ArgumentError("--merges is " + std::to_string(options.shown_merges) +
                              ", must not be negative");
  }
  const BpeTokenizer tokenizer =
      options.load_file.empty() ? train(options) : BpeTokenizer::load(options.load_file);
  print_vocabulary(tokenizer);
  for (const std::string& text : options.texts) print_encoding(tokenizer, text);
  if (!options.save_file.empty()) {
    tokenizer.save(options.save_file);
    std::cout << "Saved as " << heed::escaped(options.save_file) << '\n';
  }
  return 0;
}

int program(int argc, char** argv) {
  Options options;
  CLI::App app("Learns byte-pair encoding step by step, then encodes and decodes texts.");
  auto* load =
      app.add_option("--load", options.load_file, "read a tokenizer from this file instead of training one");
  app.add_option("--corpus", options.corpus_file, "text file to learn from (default: the tutorial's corpus)")
      ->check(CLI::ExistingFile)
      ->excludes(load);
  app.add_option("--vocab-size", options.vocab_size, "stop at this many tokens")->capture_default_str();
  app.add_option("--min-frequency", options.min_frequency, "stop at pairs that are less frequent")
      ->capture_default_str();
  app.add_option("--text", options.texts, "text to encode (default: two examples)")->expected(1)->take_all();
  app.add_option("--save", options.save_file, "write the tokenizer to this file");
  app.add_option("--merges", options.shown_merges, "how many merges to print")->capture_default_str();
  if (const auto code = demo::parse(app, argc, argv)) return *code;
  if (options.texts.empty()) options.texts = {"the quick brown fox", "the fox is here!"};
  return run(options);
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("bpe_demo", [&] { return program(argc, argv); });
}
