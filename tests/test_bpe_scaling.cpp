// Long words and hostile vocabularies: time in proportion to the text, and little stack.

#include <pthread.h>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <algorithm>
#include <climits>
#include <ctime>
#include <exception>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/bpe.hpp"

namespace {

using heed::BpeTokenizer;
using heed::TokenId;

#ifdef NDEBUG
constexpr std::size_t million = 1000000;
#else
constexpr std::size_t million = 100000;  // unoptimised, perhaps under a sanitizer
#endif

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double seconds_of(const std::function<void()>& work) {
  const double start = cpu_seconds();
  work();
  return cpu_seconds() - start;
}

// malloc keeps freed memory below some size and gives it back to the system above, and new memory of the
// system can cost more time than the work done in it. Here it keeps all, so that a size and its double are
// treated alike.
void keep_freed_memory() {
#ifdef M_MMAP_MAX
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

// Time for four times the size: about 4 where it grows with the size, 16 where it grows with its square.
constexpr double kHalfWayToSquare = 8;

// How many times longer four times the size takes. prepare(size) makes the work for one size. A busy machine
// has slow spells and cold caches, which only ever add time: the least time of each size counts, and as long
// as their ratio looks bad they are measured again.
double growth_of(const std::function<std::function<void()>(std::size_t)>& prepare, std::size_t size) {
  keep_freed_memory();
  const auto single = prepare(size);
  const auto fourfold = prepare(4 * size);
  double least_single = std::numeric_limits<double>::infinity();
  double least_fourfold = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 12 && (round < 2 || least_fourfold >= kHalfWayToSquare * least_single);
       ++round) {
    least_single = std::min(least_single, seconds_of(single));
    least_fourfold = std::min(least_fourfold, seconds_of(fourfold));
  }
  return least_fourfold / least_single;
}

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

TEST_CASE("a million equal or random characters train, encode, decode and load on a small stack") {
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

TEST_CASE("training on one long word takes time in proportion to its length") {
  for (const unsigned letters : {1U, 2U, 26U}) {
    const auto prepare = [letters](std::size_t size) {
      return [text = random_letters(size, letters)] {
        (void)heed::train_bpe(text, {.vocab_size = 8000, .min_frequency = 2});
      };
    };
    INFO(letters << " letters");
    CHECK(growth_of(prepare, million / 2) < kHalfWayToSquare);
  }
}

TEST_CASE("encoding one long word takes time in proportion to its length") {
  for (const unsigned letters : {1U, 2U, 26U}) {
    const BpeTokenizer tokenizer =
        heed::train_bpe(random_letters(million / 4, letters), {.vocab_size = 1000, .min_frequency = 2});
    const auto prepare = [&tokenizer, letters](std::size_t size) {
      return [&tokenizer, text = random_letters(size, letters)] { (void)tokenizer.encode(text); };
    };
    INFO(letters << " letters");
    CHECK(growth_of(prepare, million) < kHalfWayToSquare);
  }
}

TEST_CASE("encoding stays fast where long tokens begin like the text and then differ") {
  // "b" behind a run: the token a..ab makes a plain search walk down the whole run from each of its letters.
  const std::size_t run = 20000;
  const std::string corpus = std::string(run, 'a') + "b " + std::string(run, 'a') + "b";
  const BpeTokenizer tokenizer = heed::train_bpe(corpus, {.vocab_size = 100, .min_frequency = 2});
  REQUIRE(tokenizer.token_to_id(std::string(run, 'a') + "b</w>").has_value());
  const auto prepare = [&tokenizer](std::size_t size) {
    std::string text;
    while (text.size() < size) text += std::string(run - 1, 'a') + "c";
    return [&tokenizer, text] { (void)tokenizer.encode(text); };
  };
  CHECK(growth_of(prepare, 2 * million) < kHalfWayToSquare);
}
