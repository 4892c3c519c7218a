// bpe_demo: learns byte-pair encoding in front of your eyes, then encodes and decodes a text.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "heed/bpe.hpp"
#include "heed/error.hpp"

namespace {

using heed::BpeTokenizer;
using heed::Index;
using heed::TokenId;

const std::string tutorial_corpus =
    "the quick brown fox jumps over the lazy dog the quick brown fox jumps over the lazy dog "
    "she sells seashells by the seashore she sells seashells by the seashore ";

struct Options {
  std::string corpus_file;
  std::string load_file;
  std::string save_file;
  std::vector<std::string> texts;
  Index vocab_size = 80;
  Index min_frequency = 2;
  Index shown_merges = 20;
};

// The length of the UTF-8 character at text[at] if it can be shown as it is: no control character (C0, DEL,
// C1), no broken sequence. Else 0.
std::size_t printable_length(std::string_view text, std::size_t at) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned lead = byte(at);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
  const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) return 0;
  }
  return lead == 0xC2 && byte(at + 1) < 0xA0 ? 0 : length;
}

// The rest is escaped, so that no text can play with the terminal.
std::string printable(std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t length = printable_length(text, at); length != 0) {
      result += text.substr(at, length);
      at += length;
      continue;
    }
    const auto byte = static_cast<unsigned char>(text[at++]);
    if (byte == '\n') {
      result += "\\n";
    } else if (byte == '\t') {
      result += "\\t";
    } else {
      result += {'\\', 'x', hex[byte >> 4U], hex[byte & 0xFU]};
    }
  }
  return result;
}

std::string in_quotes(std::string_view text) {
  std::string result(1, '\'');
  return result.append(printable(text)).append(1, '\'');
}

// A bar on the terminal for trainings that let one wait.
class ProgressBar {
 public:
  void update(Index done, Index total) {
    const auto now = Clock::now();
    if (!terminal_ || now - start_ < std::chrono::seconds(2) || now - drawn_ < std::chrono::milliseconds(100))
      return;
    drawn_ = now;
    shown_ = true;
    constexpr Index width = 40;
    const Index filled = std::min(width, width * done / std::max<Index>(total, 1));
    std::cerr << "\r[" << std::string(static_cast<std::size_t>(filled), '#')
              << std::string(static_cast<std::size_t>(width - filled), ' ') << "] " << done << " of at most "
              << total << " tokens" << std::flush;
  }
  void finish() const {
    if (shown_) std::cerr << "\r\x1B[K" << std::flush;
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_;
};

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw heed::FileError(path + ": cannot be read");
  return text;
}

BpeTokenizer train(const Options& options) {
  const std::string corpus = options.corpus_file.empty() ? tutorial_corpus : read_text(options.corpus_file);
  std::cout << "Corpus: " << (options.corpus_file.empty() ? "the tutorial's" : printable(options.corpus_file))
            << ", " << corpus.size()
            << " bytes. Every word is cut into its characters and an end-of-word mark </w>;\n"
            << "then the most frequent pair of neighbours becomes one symbol, again and again:\n\n";
  ProgressBar bar;
  const BpeTokenizer tokenizer = heed::train_bpe(
      corpus, {.vocab_size = options.vocab_size, .min_frequency = options.min_frequency},
      [&](const heed::BpeTrainStep& step) {
        bar.update(step.vocab_size, step.target_vocab_size);
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
  std::string list;
  std::string tokens;
  for (const TokenId id : ids) {
    list += (list.empty() ? "" : ", ") + std::to_string(id);
    tokens += (tokens.empty() ? "" : " ") + in_quotes(tokenizer.id_to_token(id));
  }
  std::cout << "Text:    " << in_quotes(text) << '\n'
            << "Tokens:  " << tokens << '\n'
            << "Ids:     [" << list << "]\n"
            << "Decoded: " << in_quotes(tokenizer.decode(ids)) << "\n\n";
}

void run(const Options& options) {
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
    std::cout << "Saved as " << printable(options.save_file) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  if (options.texts.empty()) options.texts = {"the quick brown fox", "the fox is here!"};
  try {
    run(options);
    std::cout.flush();
    if (!std::cout) throw heed::FileError("standard output cannot be written");
  } catch (const std::exception& error) {
    std::cerr << "bpe_demo: " << printable(error.what()) << '\n';
    return 1;
  }
  return 0;
}
