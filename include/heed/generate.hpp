#pragma once

// A model that writes, a token at a time, with the keys and values of what it has written in a cache.
//
//   heed::Random random(7);
//   const auto ids = heed::generate(model, prompt, {.max_new_tokens = 200, .sampling = {.temperature = 0.8}},
//   random);

#include "heed/config.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/gpt.hpp"
#include "heed/kv_cache.hpp"
#include "heed/sampling.hpp"

namespace heed {

/// A text that a model reads on its way, and the scores of what comes next.
///
/// A text may be longer than the model's context: when the context is full, the last `keep` tokens are read
/// anew as its beginning, and the text goes on. Memory: the caches of all layers, for a whole context. The
/// model must outlive this and not change meanwhile.
template <class Scalar>
class GptDecoder {
 public:
  /// keep: how much of a full context is read anew, default half. With keep = context every token of a long
  /// text sees as much as fits, at the cost of a whole context for each. Throws ArgumentError unless keep is
  /// in [1, context].
  explicit GptDecoder(const Gpt<Scalar>& model, std::optional<Index> keep = std::nullopt,
                      Executor* executor = nullptr)
      : model_(model),
        keep_(keep.value_or(std::max<Index>(1, model.config().context / 2))),
        executor_(executor) {
    if (keep_ < 1 || keep_ > context()) {
      throw_argument_error("keep is " + std::to_string(keep_) +
                           ", it must be at least 1 and at most the context, " + std::to_string(context()));
    }
    model.check_weights();
    for (const GptBlock<Scalar>& block : model.blocks)
      caches_.push_back(block.attention.make_cache(context()));
  }

  /// Reads tokens, and returns the scores of the one after them: 1 x vocab_size. Each has the bits that
  /// Gpt::forward() gives it, as long as the context was never full. Throws RangeError for a token outside
  /// the vocabulary, ArgumentError for none.
  const Matrix<Scalar>& read(std::span<const TokenId> ids) {
    if (ids.empty()) throw_argument_error("there are no tokens to read: give at least one");
    model_.check_weights();
    model_.tokens.check_ids(ids);
    const Index new_tokens = static_cast<Index>(ids.size());
    seen_.insert(seen_.end(), ids.begin(), ids.end());
    Index unread = new_tokens;
    if (num_tokens() + new_tokens > context()) {
      for (KvCache<Scalar>& cache : caches_) cache.clear();
      unread = (std::min)((std::max)(keep_, (std::min)(new_tokens, context())), std::ssize(seen_));
    }
    // No token further back will be looked at again.
    if (std::ssize(seen_) > context()) seen_.erase(seen_.begin(), seen_.end() - context());
    pass(std::span(seen_).last(static_cast<std::size_t>(unread)));
    return logits_;
  }

  /// Forgets all but the first `length` tokens in the cache, to go on in another way from there. Throws
  /// RangeError unless 0 <= length <= num_tokens(). logits() stay those of the last read().
  void truncate(Index length) {
    if (length < 0 || length > this->num_tokens()) {
      throw_range_error("the first " + std::to_string(length) + " tokens are to be kept, there are " +
                        std::to_string(this->num_tokens()));
    }
    seen_.resize(seen_.size() - static_cast<std::size_t>(this->num_tokens() - length));
    for (KvCache<Scalar>& cache : caches_) cache.truncate(0, length);
  }

  /// Of the last read().
  const Matrix<Scalar>& logits() const noexcept { return logits_; }

  /// Tokens in the cache.
  Index num_tokens() const { return caches_.front().kv_len(); }

 private:
  Index context() const { return model_.config().context; }

  void pass(std::span<const TokenId> ids) {
    Matrix<Scalar> stream = model_.embed(ids, 1, num_tokens());
    const LayerOptions options = model_.attention_options(1, executor_);
    for (std::size_t l = 0; l < model_.blocks.size(); ++l) {
      const GptBlock<Scalar>& block = model_.blocks[l];
      stream += block.attention.prefill(block.norm1.forward(stream, executor_), caches_[l], options);
      stream += block.feed_forward.forward(block.norm2.forward(stream, executor_), executor_);
    }
    logits_ = model_.scores(stream.bottomRows(1), executor_);
  }

  const Gpt<Scalar>& model_;
  Index keep_;
  Executor* executor_;
  std::vector<KvCache<Scalar>> caches_;
  std::vector<TokenId> seen_;  // the last ones, a context of them at most
  Matrix<Scalar> logits_;
};

struct GenerateOptions {
  Index max_new_tokens = 200;
  SamplingOptions sampling = {};
  std::vector<TokenId> stop_tokens = {};     ///< one of these ends the text; it is not part of the result
  std::optional<Index> keep = std::nullopt;  ///< as GptDecoder's
  Executor* executor = nullptr;              ///< default: the calling thread alone
};

/// Continues a prompt: the new tokens alone. on_token, if it is given, is called with each as soon as it is
/// there, and ends the text by returning false. The same model, prompt, options and seed give the same text
/// on any number of threads. Throws ArgumentError for an empty prompt, a negative max_new_tokens or sampling
/// options out of range, ShapeError if sampling.vocab_size, the tokenizer's, is more than the model's,
/// RangeError for a token outside the vocabulary, before anything is drawn.
template <class Scalar>
std::vector<TokenId> generate(const Gpt<Scalar>& model, std::span<const TokenId> prompt,
                              const GenerateOptions& options, Random& random,
                              const std::function<bool(TokenId)>& on_token = {}) {
  if (options.max_new_tokens < 0) {
    throw_argument_error("max_new_tokens is " + std::to_string(options.max_new_tokens) +
                         ", it must not be negative");
  }
  check_sampling(options.sampling);
  detail::require_logits_for(options.sampling, model.config().vocab_size);
  GptDecoder<Scalar> decoder(model, options.keep, options.executor);
  decoder.read(prompt);
  std::vector<TokenId> text;
  while (std::ssize(text) < options.max_new_tokens) {
    const Matrix<Scalar>& logits = decoder.logits();
    const TokenId next =
        sample_token(std::span<const Scalar>(logits.data(), static_cast<std::size_t>(logits.size())),
                     options.sampling, random);
    if (std::find(options.stop_tokens.begin(), options.stop_tokens.end(), next) != options.stop_tokens.end())
      break;
    text.push_back(next);
    if (on_token && !on_token(next)) break;
    if (std::ssize(text) < options.max_new_tokens) decoder.read(std::span(&next, 1));
  }
  return text;
}

}  // namespace heed
