// Training and encoding of byte-pair encoding, in bytes of text per second.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "heed/text/bpe.hpp"

namespace {

using heed::BpeTokenizer;
using heed::TokenId;

constexpr heed::BpeTrainOptions train_options{.vocab_size = 8000, .min_frequency = 2};
constexpr std::int64_t megabyte = 1000000;

// Words that do not exist, of syllables of which some are much more usual than others, as in a language.
std::vector<std::string> make_words(std::mt19937& random, std::size_t count) {
  const std::string onsets[] = {"t", "s",  "n",  "r", "d", "l",  "",  "m", "c",
                                "p", "st", "th", "b", "f", "gr", "v", "qu"};
  const std::string nuclei[] = {"e", "a", "i", "o", "u", "ea", "ou", "y", "io"};
  const std::string codas[] = {"", "", "n", "r", "s", "t", "l", "nd", "ng", "m", "st", "ck"};
  const auto pick = [&random](const auto& parts) -> const std::string& {
    const double u = static_cast<double>(random()) * 0x1p-32;  // the square prefers the first parts
    return parts[static_cast<std::size_t>(u * u * static_cast<double>(std::size(parts)))];
  };
  std::vector<std::string> words(count);
  for (std::size_t i = 0; i < count; ++i) {
    // Usual words are short.
    const std::size_t syllables = 1 + random() % (i < 200 ? 1 : i < 5000 ? 3 : 4);
    for (std::size_t s = 0; s < syllables; ++s) words[i] += pick(onsets) + pick(nuclei) + pick(codas);
  }
  return words;
}

// About `size` bytes of sentences whose words follow Zipf's law: the k-th most usual one has a share of 1/k.
std::string make_text(std::int64_t size) {
  constexpr std::size_t num_words = 60000;
  std::mt19937 random(2016);
  const std::vector<std::string> words = make_words(random, num_words);
  std::vector<double> cumulative(num_words);
  double sum = 0;
  for (std::size_t k = 0; k < num_words; ++k) cumulative[k] = sum += 1.0 / static_cast<double>(k + 1);
  std::string text;
  bool sentence_start = true;
  while (std::ssize(text) < size) {
    const double u = static_cast<double>(random()) * 0x1p-32 * sum;
    const auto k = std::upper_bound(cumulative.begin(), cumulative.end(), u) - cumulative.begin();
    std::string word = words[static_cast<std::size_t>(std::min<std::ptrdiff_t>(k, num_words - 1))];
    if (sentence_start) word[0] = static_cast<char>(word[0] - 'a' + 'A');
    text += word;
    const auto roll = random() % 100;
    sentence_start = roll < 8;
    text += roll < 1 ? "!\n" : roll < 8 ? ". " : roll < 16 ? ", " : roll < 17 ? " - " : " ";
  }
  return text;
}

const std::string& text_of(std::int64_t megabytes) {
  static const std::string ten = make_text(10 * megabyte);
  static const std::string one = ten.substr(0, megabyte);
  return megabytes == 1 ? one : ten;
}

// The longest token at each place, found by trying all lengths; the text has one word.
std::vector<TokenId> plain_encode(const BpeTokenizer& tokenizer, const std::string& word) {
  std::vector<TokenId> ids;
  for (std::size_t at = 0; at <= word.size();) {
    if (const auto whole = tokenizer.token_to_id(word.substr(at) + "</w>")) {
      ids.push_back(*whole);
      break;
    }
    std::size_t length = word.size() - at;
    while (length > 0 && !tokenizer.token_to_id(word.substr(at, length))) --length;
    ids.push_back(length == 0 ? BpeTokenizer::unk_id : *tokenizer.token_to_id(word.substr(at, length)));
    at += std::max<std::size_t>(length, 1);
  }
  return ids;
}

// What is measured is right: a sample of words has the ids of the plain way.
bool is_valid(const BpeTokenizer& tokenizer, const std::string& text) {
  if (tokenizer.vocab_size() != train_options.vocab_size) return false;
  const std::string sample = text.substr(0, 100000);
  std::vector<TokenId> expected;
  for (std::size_t at = 0; at < sample.size();) {
    std::size_t end = at;
    while (end < sample.size() && std::isalpha(static_cast<unsigned char>(sample[end])) != 0) ++end;
    end = std::max(end, at + 1);
    if (sample[at] != ' ' && sample[at] != '\n') {
      const std::vector<TokenId> ids = plain_encode(tokenizer, sample.substr(at, end - at));
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    at = end;
  }
  return tokenizer.encode(sample) == expected;
}

std::string plain_decode(const BpeTokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += id == BpeTokenizer::unk_id ? "\uFFFD" : tokenizer.id_to_token(id);
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const bool word_ends = text.compare(at, 4, "</w>") == 0;
    result += word_ends ? ' ' : text[at];
    at += word_ends ? 4 : 1;
  }
  if (result.ends_with(' ')) result.pop_back();
  return result;
}

void train(benchmark::State& state, std::int64_t megabytes) {
  const std::string& text = text_of(megabytes);
  if (!is_valid(heed::train_bpe(text, train_options), text)) {
    state.SkipWithError("the trained tokenizer encodes wrongly");
    return;
  }
  for (auto _ : state) {
    const BpeTokenizer tokenizer = heed::train_bpe(text, train_options);
    benchmark::DoNotOptimize(tokenizer.merges().data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(text));
}

void encode(benchmark::State& state, std::int64_t megabytes) {
  const std::string& text = text_of(megabytes);
  const BpeTokenizer tokenizer = heed::train_bpe(text_of(1), train_options);
  if (!is_valid(tokenizer, text)) {
    state.SkipWithError("the tokenizer encodes wrongly");
    return;
  }
  std::size_t num_tokens = 0;
  for (auto _ : state) {
    const std::vector<TokenId> ids = tokenizer.encode(text);
    benchmark::DoNotOptimize(ids.data());
    benchmark::ClobberMemory();
    num_tokens = ids.size();
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(text));
  state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(num_tokens);
}

void decode(benchmark::State& state, std::int64_t megabytes) {
  const BpeTokenizer tokenizer = heed::train_bpe(text_of(1), train_options);
  const std::vector<TokenId> ids = tokenizer.encode(text_of(megabytes));
  const std::string decoded = tokenizer.decode(ids);
  if (decoded != plain_decode(tokenizer, ids)) {
    state.SkipWithError("the tokenizer decodes wrongly");
    return;
  }
  for (auto _ : state) {
    const std::string text = tokenizer.decode(ids);
    benchmark::DoNotOptimize(text.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(decoded));
}

BENCHMARK_CAPTURE(train, 1MB, 1)->Name("bpe/train/1MB")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train, 10MB, 10)->Name("bpe/train/10MB")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, 1MB, 1)->Name("bpe/encode/1MB")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, 10MB, 10)->Name("bpe/encode/10MB")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, 10MB, 10)->Name("bpe/decode/10MB")->Unit(benchmark::kMillisecond);

}  // namespace
