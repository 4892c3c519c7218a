// Long words and hostile vocabularies: work in proportion to the text, and little stack.

#include <pthread.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/text/bpe.hpp"
#include "work_count.hpp"

namespace {

using heed::BpeTokenizer;
using heed::TokenId;

#ifdef NDEBUG
constexpr std::size_t million = 1000000;
#else
constexpr std::size_t million = 100000;  // unoptimised, perhaps under a sanitizer
#endif

// Work for four times the size, over that for the size: 4 where it grows with the size, little more where
// with its logarithm as well, 16 where it grows with its square. work_count() makes it the same number
// wherever it is run. prepare(size) makes the work.
double growth_of(const std::function<std::function<void()>(std::size_t)>& prepare, std::size_t size) {
  const auto cost = [&](std::size_t of_size) {
    const auto work = prepare(of_size);
    const std::uint64_t before = heed::test::work_count();
    work();
    return static_cast<double>(heed::test::work_count() - before);
  };
  const double single = cost(size);
  REQUIRE(single > static_cast<double>(size));
  return cost(4 * size) / single;
}

constexpr double proportional = 6;

std::string random_letters(std::size_t size, unsigned num_letters) {
  std::mt19937 random(22);
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % num_letters);
  return text;
}

std::vector<std::string> long_texts(std::size_t size) {
  std::vector<std::string> texts;
  for (const char c : {'a', '^', ' ', '\n', '0'}) texts.emplace_back(size, c);
  texts.push_back(random_letters(size, 26));
  texts.push_back(random_letters(size, 2));
  return texts;
}

// Runs work on a thread with a stack of 256 KB.
void on_small_stack(std::function<void()> work) {
  struct Job {
    std::function<void()> work;
    std::exception_ptr error;
  } job{std::move(work), nullptr};
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 256UL * 1024UL) == 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    auto& the_job = *static_cast<Job*>(argument);
    try {
      the_job.work();
    } catch (...) {
      the_job.error = std::current_exception();
    }
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &job) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace

TEST_CASE("a million equal or random characters train, encode, decode and load on a small stack",
          "[bpe][scaling]") {
  for (const std::string& text : long_texts(million)) {
    std::string decoded;
    bool equal = false;
    on_small_stack([&] {
      const BpeTokenizer tokenizer = heed::train_bpe(text, {.vocab_size = 2000, .min_frequency = 2});
      decoded = tokenizer.decode(tokenizer.encode(text));
      equal = BpeTokenizer::from_json(tokenizer.to_json()) == tokenizer;
    });
    CHECK(equal);
    std::string expected = text;
    if (text[0] == ' ' || text[0] == '\n') expected.clear();
    if (text[0] == '^') {
      expected.clear();
      for (std::size_t i = 0; i < text.size(); ++i) expected += i == 0 ? "^" : " ^";
    }
    // The end of a word that was seen once is no token.
    if (decoded.ends_with("\xEF\xBF\xBD")) decoded.resize(decoded.size() - 3);
    CHECK(decoded == expected);
  }
}

TEST_CASE("training on one long word takes work in proportion to its length", "[bpe][scaling]") {
  for (const unsigned letters : {1U, 2U, 26U}) {
    const auto prepare = [letters](std::size_t size) {
      return [text = random_letters(size, letters)] {
        (void)heed::train_bpe(text, {.vocab_size = 8000, .min_frequency = 2});
      };
    };
    INFO(letters << " letters");
    CHECK(growth_of(prepare, million / 10) < proportional);
  }
}

TEST_CASE("encoding one long word takes work in proportion to its length", "[bpe][scaling]") {
  for (const unsigned letters : {1U, 2U, 26U}) {
    const BpeTokenizer tokenizer =
        heed::train_bpe(random_letters(million / 4, letters), {.vocab_size = 1000, .min_frequency = 2});
    const auto prepare = [&tokenizer, letters](std::size_t size) {
      return [&tokenizer, text = random_letters(size, letters)] { (void)tokenizer.encode(text); };
    };
    INFO(letters << " letters");
    CHECK(growth_of(prepare, million / 10) < proportional);
  }
}

TEST_CASE("encoding takes work in proportion to a text that begins like long tokens and then differs",
          "[bpe][scaling]") {
  // "b" behind a run: the token a..ab makes a plain search walk down the whole run from each of its letters.
  const auto prepare = [](std::size_t run) {
    std::string word(run, 'a');
    word += 'b';
    BpeTokenizer tokenizer = heed::train_bpe(word + ' ' + word, {.vocab_size = 100, .min_frequency = 2});
    REQUIRE(tokenizer.token_to_id(word + "</w>").has_value());
    word[run - 1] = 'c';
    word.pop_back();
    return [tokenizer = std::move(tokenizer), text = word] { (void)tokenizer.encode(text); };
  };
  CHECK(growth_of(prepare, million / 200) < proportional);
}
