// bpe_demo: learns byte-pair encoding in front of your eyes, then encodes and decodes a text.

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.hpp"
#include "corpus.hpp"
#include "demo.hpp"
#include "heed/core/error.hpp"
#include "heed/text/bpe.hpp"

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
  std::optional<Index> vocab_size;
  Index min_frequency = 2;
  Index shown_merges = 20;
};

BpeTokenizer train(const Options& options) {
  const demo::Corpus corpus = demo::corpus_for(options.corpus_file, options.texts);
  demo::say("Corpus: ",
            heed::escaped(corpus.name) + ", " + std::to_string(corpus.bytes()) +
                " bytes. Every word is cut into its characters and an end-of-word mark </w>; then "
                "the most frequent pair of neighbors becomes one symbol, again and again:");
  std::cout << '\n';
  demo::ProgressBar bar;
  const auto show = [&](const heed::BpeTrainStep& step) {
    bar.update(step.vocab_size, step.target_vocab_size, "tokens");
    if (step.merge.rank >= options.shown_merges) return;
    demo::say("  merge " + std::to_string(step.merge.rank + 1) + ": ",
              "(" + in_quotes(step.merge.pair.first) + ", " + in_quotes(step.merge.pair.second) + ") -> " +
                  in_quotes(step.merge.new_token) + "   " + std::to_string(step.frequency) + " times");
  };
  const BpeTokenizer tokenizer = heed::train_bpe(
      corpus.views(),
      {.vocab_size = options.vocab_size.value_or(corpus.vocab_size), .min_frequency = options.min_frequency},
      show);
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
  std::cout << "Vocabulary of " << tokenizer.vocab_size() << " tokens:\n";
  std::vector<std::string> entries;
  for (TokenId id = 0; id < std::min<Index>(shown, tokenizer.vocab_size()); ++id)
    entries.push_back(" " + std::to_string(id) + " " + in_quotes(tokenizer.id_to_token(id)));
  demo::say(" ", entries);
  if (tokenizer.vocab_size() > shown)
    std::cout << "  ... and " << tokenizer.vocab_size() - shown << " more\n";
  std::cout << '\n';
}

void print_encoding(const BpeTokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids) tokens.push_back(in_quotes(tokenizer.id_to_token(id)));
  demo::say("Text:    ", in_quotes(text));
  demo::say("Tokens:  ", tokens);
  demo::say("Ids:     ", demo::list(ids));
  demo::say("Decoded: ", in_quotes(tokenizer.decode(ids)));
  if (const std::string sentence = demo::about_unknown(ids); !sentence.empty())
    demo::say("         ", sentence);
  std::cout << '\n';
}

int run(const Options& options) {
  for (const std::string& text : options.texts) {
    if (text.empty()) throw heed::ArgumentError("--text is empty: give one with a word in it");
  }
  const BpeTokenizer tokenizer =
      options.load_file.empty() ? train(options) : BpeTokenizer::load(options.load_file);
  print_vocabulary(tokenizer);
  const std::vector<std::string> examples = {"the quick brown fox", "the fox is here!"};
  for (const std::string& text : options.texts.empty() ? examples : options.texts)
    print_encoding(tokenizer, text);
  if (!options.save_file.empty()) {
    tokenizer.save(options.save_file);
    std::cout << "Saved as " << heed::escaped(options.save_file) << '\n';
  }
  return 0;
}

int program(int argc, char** argv) {
  Options options;
  CLI::App app("Learns byte-pair encoding step by step, then encodes and decodes texts.");
  demo::path(app, "--load", options.load_file, "file", "a tokenizer to take instead of training one");
  demo::path(
      app, "--corpus", options.corpus_file, "file",
      "text to learn from (default: the tutorial's; with --text, Shakespeare's sonnets and that text)");
  demo::number(app, "--vocab-size", options.vocab_size,
               "stop at this many tokens (default: 80 with the tutorial's corpus, else 8000)", {.min = 5});
  demo::number(app, "--min-frequency", options.min_frequency, "stop at pairs that are less frequent",
               {.min = 0});
  app.add_option("--text", options.texts,
                 "text to encode; several times: several texts (default: two examples)")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all();
  demo::path(app, "--save", options.save_file, "file", "where to write the tokenizer");
  demo::number(app, "--merges", options.shown_merges, "how many merges to print", {.min = 0});
  if (const auto code = demo::parse(app, argc, argv)) return *code;
  if (!options.load_file.empty() && !options.corpus_file.empty())
    throw heed::ArgumentError("--load and --corpus exclude each other: a tokenizer is read or learned");
  return run(options);
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("bpe_demo", [&] { return program(argc, argv); });
}
