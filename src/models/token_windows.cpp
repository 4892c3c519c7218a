// TokenWindows: batches of windows over a stream of tokens.

#include "heed/models/token_windows.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/ceil_div.hpp"
#include "core/require.hpp"
#include "heed/core/error.hpp"
#include "heed/core/memory.hpp"

namespace heed {

void detail::require_batch(Index batch_size, Index seq_len) {
  require_positive(batch_size, "batch_size");
  require_positive(seq_len, "seq_len");
  require_memory(matrix_bytes(2 * sizeof(TokenId), batch_size, seq_len), [&] {
    return "a batch of batch_size " + std::to_string(batch_size) + " and seq_len " + std::to_string(seq_len);
  });
}

void require_windows(Index num_tokens, Index seq_len) {
  detail::require_positive(seq_len, "seq_len");
  if (num_tokens <= seq_len) {
    throw_shape_error("there are " + std::to_string(num_tokens) + " tokens: a window of " +
                      std::to_string(seq_len) + " and the token after it need more");
  }
}

TokenWindows::TokenWindows(std::vector<TokenId> tokens, Index seq_len)
    : tokens_(std::move(tokens)), seq_len_(seq_len) {
  require_windows(std::ssize(tokens_), seq_len);
}

void TokenWindows::copy(Index start, TokenId* inputs, TokenId* targets) const noexcept {
  std::copy_n(tokens_.begin() + start, seq_len_, inputs);
  std::copy_n(tokens_.begin() + start + 1, seq_len_, targets);
}

void TokenWindows::draw(Random& random, Index batch_size, TokenBatch& batch) const {
  detail::require_batch(batch_size, seq_len_);
  const std::size_t size = static_cast<std::size_t>(batch_size * seq_len_);
  batch.inputs.resize(size);
  batch.targets.resize(size);
  batch.seq_len = seq_len_;
  for (Index b = 0; b < batch_size; ++b) {
    const Index start =
        std::min(count() - 1, static_cast<Index>(random.random() * static_cast<double>(count())));
    copy(start, batch.inputs.data() + b * seq_len_, batch.targets.data() + b * seq_len_);
  }
}

TokenBatch TokenWindows::window(Index start) const {
  if (start < 0 || start >= count()) {
    throw_range_error("the window at token " + std::to_string(start) + " is wanted, there are " +
                      std::to_string(count()));
  }
  TokenBatch batch;
  batch.inputs.resize(static_cast<std::size_t>(seq_len_));
  batch.targets.resize(static_cast<std::size_t>(seq_len_));
  batch.seq_len = seq_len_;
  copy(start, batch.inputs.data(), batch.targets.data());
  return batch;
}

std::vector<TokenBatch> TokenWindows::in_order(Index batch_size) const {
  detail::require_batch(batch_size, seq_len_);
  const Index asked = std::ssize(tokens_) - 1;
  const Index size = batch_size * seq_len_;
  std::vector<TokenBatch> batches(static_cast<std::size_t>(ceil_div(asked, size)));
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const Index first = static_cast<Index>(b) * size;
    const Index count = std::min(size, asked - first);
    batches[b].seq_len = seq_len_;
    batches[b].inputs.resize(static_cast<std::size_t>(size), tokens_.front());
    batches[b].targets.resize(static_cast<std::size_t>(size), kIgnoredTarget);
    std::copy_n(tokens_.begin() + first, count, batches[b].inputs.begin());
    std::copy_n(tokens_.begin() + first + 1, count, batches[b].targets.begin());
  }
  return batches;
}

}  // namespace heed
