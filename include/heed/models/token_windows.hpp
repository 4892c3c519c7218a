#pragma once

// What a language model learns from: windows over a stream of tokens, each with the same window one token
// later.
//
//   const heed::TokenWindows windows(tokenizer.encode(text), 64);
//   heed::TokenBatch batch;
//   windows.draw(random, 32, batch);
//   trainer.step(batch, 1e-3);

#include "heed/core/config.hpp"

#include <span>
#include <vector>

#include "heed/core/random.hpp"
#include "heed/core/token.hpp"
#include "heed/core/view.hpp"

namespace heed {

namespace detail {

/// Throws ShapeError unless both are at least 1, ArgumentError unless the machine has the memory for inputs
/// and targets of batch_size * seq_len tokens.
HEED_EXPORT void require_batch(Index batch_size, Index seq_len);

}  // namespace detail

/// Throws ShapeError, with both numbers, unless there are more tokens than seq_len, which is at least 1: what
/// is known of a text before a model or windows are made for it.
HEED_EXPORT void require_windows(Index num_tokens, Index seq_len);

/// Sequences one after another: as GptTrainer takes them.
struct TokenBatch {
  std::vector<TokenId> inputs;
  std::vector<TokenId> targets;  ///< The token after each of inputs.
  Index seq_len = 0;             ///< Tokens of each sequence; 0: not said.
};

/// All windows of seq_len tokens that have a token after them: tokens - seq_len of them.
class HEED_EXPORT TokenWindows {
 public:
  /// Throws ShapeError unless there are more tokens than seq_len, which is at least 1.
  TokenWindows(std::vector<TokenId> tokens, Index seq_len);

  Index count() const noexcept { return static_cast<Index>(tokens_.size()) - seq_len_; }
  Index seq_len() const noexcept { return seq_len_; }
  std::span<const TokenId> tokens() const noexcept { return tokens_; }

  /// Draws batch_size windows, each any of all with equal probability, by one random number for each. After
  /// the first call for a batch size nothing is allocated.
  void draw(Random& random, Index batch_size, TokenBatch& batch) const;

  /// Returns the window that starts at a token. Throws RangeError unless 0 <= start < count().
  TokenBatch window(Index start) const;

  /// Returns batches that together ask for every token but the first once, in order, as if the stream were
  /// read in pieces of seq_len; what is left of the last batch is filled with ignored targets.
  std::vector<TokenBatch> in_order(Index batch_size) const;

 private:
  void copy(Index start, TokenId* inputs, TokenId* targets) const noexcept;

  std::vector<TokenId> tokens_;
  Index seq_len_;
};

}  // namespace heed
