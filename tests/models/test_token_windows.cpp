// Windows over a stream of tokens: how many there are, where drawn ones start, and all of them in order.

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/core/random.hpp"
#include "heed/models/token_windows.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// 0, 1, 2, ...: a window shows where it is from.
std::vector<TokenId> counted(Index count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), TokenId{0});
  return tokens;
}

}  // namespace

TEST_CASE("five tokens have one window of four", "[windows]") {
  const TokenWindows windows({7, 8, 9, 10, 11}, 4);
  CHECK(windows.count() == 1);
  const TokenBatch only = windows.window(0);
  CHECK(only.inputs == std::vector<TokenId>{7, 8, 9, 10});
  CHECK(only.targets == std::vector<TokenId>{8, 9, 10, 11});
  Random random(1);
  TokenBatch batch;
  windows.draw(random, 3, batch);
  for (std::size_t b = 0; b < 3; ++b) {
    CHECK(
        std::equal(only.inputs.begin(), only.inputs.end(), batch.inputs.begin() + 4 * static_cast<long>(b)));
    CHECK(std::equal(only.targets.begin(), only.targets.end(),
                     batch.targets.begin() + 4 * static_cast<long>(b)));
  }
  CHECK(contains(message_of<RangeError>([&] { windows.window(1); }), "token 1 is wanted, there are 1"));
  CHECK(contains(message_of<RangeError>([&] { windows.window(-1); }), "token -1"));
}

TEST_CASE("too few tokens for a window are refused with both numbers", "[windows][errors]") {
  CHECK(contains(message_of<ShapeError>([] { TokenWindows(counted(4), 4); }),
                 "there are 4 tokens: a window of 4 and the token after it need more"));
  CHECK(contains(message_of<ShapeError>([] { TokenWindows({}, 1); }), "there are 0 tokens"));
  for (const Index wrong : {Index{0}, Index{-1}, std::numeric_limits<Index>::min()}) {
    CHECK(contains(message_of<ShapeError>([&] { TokenWindows(counted(9), wrong); }),
                   "seq_len is " + std::to_string(wrong)));
  }
  CHECK(contains(message_of<ShapeError>([] { TokenWindows(counted(9), std::numeric_limits<Index>::max()); }),
                 "there are 9 tokens"));
}

TEST_CASE("drawn windows start everywhere, equally often, and targets are inputs one later", "[windows]") {
  const TokenWindows seven(counted(7), 4);
  Random random(2);
  TokenBatch batch;
  std::set<TokenId> starts;
  for (int n = 0; n < 1000; ++n) {
    seven.draw(random, 1, batch);
    starts.insert(batch.inputs[0]);
  }
  CHECK(starts == std::set<TokenId>{0, 1, 2});

  const TokenWindows windows(counted(25), 5);
  std::vector<double> found(20);
  windows.draw(random, 10000, batch);
  REQUIRE(batch.inputs.size() == 50000);
  REQUIRE(batch.targets.size() == 50000);
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    REQUIRE(batch.targets[i] == batch.inputs[i] + 1);
    if (i % 5 == 0) {
      ++found[static_cast<std::size_t>(batch.inputs[i])];
    } else {
      REQUIRE(batch.inputs[i] == batch.inputs[i - 1] + 1);
    }
  }
  double chi_square = 0;
  for (const double often : found) chi_square += (often - 500) * (often - 500) / 500;
  CHECK(chi_square < 50.8);  // of 19 degrees of freedom: once in 10000
}

TEST_CASE("a drawn window takes one number from the generator", "[windows]") {
  const TokenWindows windows(counted(1000), 7);
  Random random(3);
  Random other(3);
  TokenBatch batch;
  windows.draw(random, 5, batch);
  for (std::size_t b = 0; b < 5; ++b)
    CHECK(batch.inputs[7 * b] == static_cast<TokenId>(other.random() * 993));
  CHECK(random.state() == other.state());
  for (const Index wrong : {Index{1} << 62, std::numeric_limits<Index>::max()}) {
    const std::string expected = "a batch of batch_size " + std::to_string(wrong) + " and seq_len 7";
    CHECK(contains(message_of<ArgumentError>([&] { windows.draw(random, wrong, batch); }), expected));
    CHECK(contains(message_of<ArgumentError>([&] { windows.in_order(wrong); }), expected));
  }
  for (const Index wrong : {Index{0}, Index{-2}}) {
    CHECK(contains(message_of<ShapeError>([&] { windows.draw(random, wrong, batch); }),
                   "batch_size is " + std::to_string(wrong)));
    CHECK(contains(message_of<ShapeError>([&] { windows.in_order(wrong); }),
                   "batch_size is " + std::to_string(wrong)));
  }
  CHECK(random.state() == other.state());
  CHECK(batch.inputs.size() == 35);
}

TEST_CASE("in order, every token but the first is asked for once", "[windows]") {
  for (const Index seq_len : {1, 2, 3, 4, 7}) {
    for (Index tokens = seq_len + 1; tokens < 40; ++tokens) {
      for (const Index batch_size : {1, 2, 5, 50}) {
        CAPTURE(seq_len, tokens, batch_size);
        const std::vector<TokenBatch> batches = TokenWindows(counted(tokens), seq_len).in_order(batch_size);
        TokenId next = 1;
        for (const TokenBatch& batch : batches) {
          REQUIRE(std::ssize(batch.inputs) == batch_size * seq_len);
          REQUIRE(batch.targets.size() == batch.inputs.size());
          REQUIRE(batch.targets[0] != kIgnoredTarget);
          for (std::size_t i = 0; i < batch.targets.size(); ++i) {
            // What fills the last batch is a token as well.
            REQUIRE((batch.inputs[i] >= 0 && batch.inputs[i] < tokens));
            if (batch.targets[i] == kIgnoredTarget) {
              REQUIRE(next == tokens);
              continue;
            }
            REQUIRE(batch.targets[i] == next);
            REQUIRE(batch.inputs[i] == next - 1);
            ++next;
          }
        }
        REQUIRE(next == tokens);
      }
    }
  }
}
