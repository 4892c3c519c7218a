#pragma once

// A model that writes, a token at a time, with the keys and values of what it has written in a cache.
//
//   heed::Random random(7);
//   const auto ids = heed::generate(model, prompt, {.max_new_tokens = 200, .sampling = {.temperature = 0.8}},
//   random);

#include "heed/core/config.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/attention/kv_cache.hpp"
#include "heed/core/scalar.hpp"
#include "heed/layers/weights.hpp"
#include "heed/models/gpt.hpp"
#include "heed/models/sampling.hpp"

namespace heed {

/// A text that a model reads on its way, and the scores of what comes next.
///
/// A text may be longer than the model's context: when the context is full, the last `keep` tokens are read
/// anew as its beginning, and the text goes on. Memory: the caches of all layers, for a whole context, and
/// what lies between the layers for 256 tokens, all of it taken by the constructor: read() and truncate()
/// allocate nothing. The model must outlive this and not change meanwhile.
template <class Scalar>
class GptDecoder {
  static_assert(detail::require_kernels<Scalar>());

 public:
  /// Prepares to read with a model. `keep` says how much of a full context is read anew, by default half.
  /// With keep = context every token of a long text sees as much as fits, at the cost of a whole context for
  /// each. Throws ArgumentError unless keep is in [1, context] and the machine has the memory, before any is
  /// taken.
  explicit GptDecoder(const Gpt<Scalar>& model, std::optional<Index> keep = std::nullopt,
                      Executor* executor = nullptr)
      : model_(model),
        keep_(checked_keep(keep, model.config().context)),
        executor_(executor),
        max_rows_((std::min)(detail::kDecoderRows, context())),
        attention_(attention_plan()) {
    const Index d = model.config().d_model;
    const Index ff = model.config().ff_size();
    for (const GptBlock<Scalar>& block : model.blocks)
      caches_.push_back(block.attention.make_cache(context()));
    seen_.reserve(static_cast<std::size_t>(context()));
    for (Matrix<Scalar>* rows : {&stream_, &normed_, &added_}) rows->setZero(max_rows_, d);
    up_.setZero(max_rows_, ff);
    if (model.config().gated) gate_.setZero(max_rows_, ff);
    logits_.setZero(1, model.config().vocab_size);
    const auto product_bytes = [&](Index rows, Index depth, Index cols) {
      return static_cast<std::size_t>(threads()) * product_workspace_bytes<Scalar>(rows, depth, cols);
    };
    workspace_.reserve((std::max)({attention_.workspace_bytes(), product_bytes(max_rows_, d, ff),
                                   product_bytes(max_rows_, ff, d), product_bytes(1, d, logits_.cols())}));
  }
  /// Copies a decoder, with its model and the text so far; the copy then goes its own way.
  GptDecoder(const GptDecoder& other) : GptDecoder(other.model_, other.keep_, other.executor_) {
    for (std::size_t l = 0; l < caches_.size(); ++l) caches_[l] = other.caches_[l];
    seen_.insert(seen_.end(), other.seen_.begin(), other.seen_.end());
    logits_ = other.logits_;
  }
  GptDecoder(GptDecoder&&) noexcept = default;

  /// Reads tokens, and returns the scores of the one after them: 1 x vocab_size. Each has the bits that
  /// Gpt::forward() gives it, as long as the context was never full. Throws RangeError for a token outside
  /// the vocabulary, ArgumentError for none, ShapeError if the model has changed its sizes; the text is then
  /// what it was.
  const Matrix<Scalar>& read(std::span<const TokenId> ids) {
    if (ids.empty()) throw_argument_error("there are no tokens to read: give at least one");
    model_.check_weights();
    model_.tokens.check_ids(ids);
    // Nothing throws from here on.
    const Index new_tokens = std::ssize(ids);
    Index unread = new_tokens;
    if (num_tokens() + new_tokens > context()) {
      for (KvCache<Scalar>& cache : caches_) cache.clear();
      unread =
          (std::min)((std::max)(keep_, (std::min)(new_tokens, context())), std::ssize(seen_) + new_tokens);
    }
    remember(ids);
    pass(std::span(seen_).last(static_cast<std::size_t>(unread)));
    return logits_;
  }

  /// Forgets all but the first `length` tokens in the cache, to go on in another way from there. Throws
  /// RangeError unless 0 <= length <= num_tokens(). logits() still belong to the last read().
  void truncate(Index length) {
    if (length < 0 || length > this->num_tokens()) {
      throw_range_error("the first " + std::to_string(length) + " tokens are to be kept, there are " +
                        std::to_string(this->num_tokens()));
    }
    seen_.resize(seen_.size() - static_cast<std::size_t>(this->num_tokens() - length));
    for (KvCache<Scalar>& cache : caches_) cache.truncate(0, length);
  }

  /// Returns the logits of the last read(); zeros before the first.
  const Matrix<Scalar>& logits() const noexcept { return logits_; }

  /// Returns the number of tokens in the cache.
  Index num_tokens() const { return caches_.front().kv_len(); }

 private:
  using Rows = RowFunctions<Scalar>;
  using View = MatrixView<Scalar>;
  using ConstView = MatrixView<const Scalar>;

  static Index checked_keep(std::optional<Index> keep, Index context) {
    const Index kept = keep.value_or((std::max<Index>)(1, context / 2));
    if (kept < 1 || kept > context) {
      throw_argument_error("keep is " + std::to_string(kept) +
                           ", it must be at least 1 and at most the context, " + std::to_string(context));
    }
    return kept;
  }

  MultiHeadAttentionDecodePlan<Scalar> attention_plan() const {
    model_.check_weights();
    const GptConfig& config = model_.config();
    detail::require_gpt_memory(
        detail::plus_bytes(gpt_bytes<Scalar>(config), gpt_decoder_bytes<Scalar>(config, threads())),
        "with the keys and values of a whole context, a GPT", config);
    const MultiHeadAttention<Scalar>& attention = model_.blocks.front().attention;
    const KvCacheOptions cache{.batch_size = 1,
                               .num_kv_heads = attention.num_kv_heads(),
                               .head_dim = attention.head_dim(),
                               .value_dim = attention.value_dim(),
                               .capacity = context()};
    return attention.decode_plan(cache, max_rows_, model_.attention_options(1, executor_));
  }

  Index context() const { return model_.config().context; }
  Index threads() const { return detail::threads_of(executor_); }

  /// Remembers the last tokens, a context of them at most: none further back will be looked at again.
  void remember(std::span<const TokenId> ids) noexcept {
    const auto fresh = ids.last((std::min)(ids.size(), static_cast<std::size_t>(context())));
    const Index kept = (std::min)(std::ssize(seen_), context() - std::ssize(fresh));
    seen_.erase(seen_.begin(), seen_.end() - kept);
    seen_.insert(seen_.end(), fresh.begin(), fresh.end());  // there is room for them
  }

  void pass(std::span<const TokenId> ids) noexcept {
    while (!ids.empty()) {
      const auto part = ids.first((std::min)(ids.size(), static_cast<std::size_t>(max_rows_)));
      ids = ids.subspan(part.size());
      const View stream = read_part(part);
      if (ids.empty()) write_logits(stream.block(stream.rows - 1, 0, 1, stream.cols));
    }
  }

  /// Runs the blocks on up to max_rows_ tokens: their vectors behind the last block.
  View read_part(std::span<const TokenId> ids) noexcept {
    const Index rows = std::ssize(ids);
    const auto top = [rows](Matrix<Scalar>& matrix) {
      return mutable_view(matrix).block(0, 0, rows, matrix.cols());
    };
    const View stream = top(stream_);
    const View normed = top(normed_);
    const View added = top(added_);
    const View up = top(up_);
    Rows::gather(view(model_.tokens.table), ids.data(), stream);
    const ConstView positions = model_.position_table();
    if (!positions.empty())
      Rows::add(stream, positions.block(num_tokens(), 0, rows, stream.cols), stream, executor_);
    for (std::size_t l = 0; l < model_.blocks.size(); ++l) {
      const GptBlock<Scalar>& block = model_.blocks[l];
      norm(block.norm1, stream, normed);
      attention_.run(detail::layer_tensors<Scalar>(normed, block.attention.projections(), added), caches_[l],
                     workspace_.data(), executor_);
      Rows::add(stream, added, stream, executor_);
      norm(block.norm2, stream, normed);
      const FeedForward<Scalar>& ff = block.feed_forward;
      product(normed, ff.up, up);
      if (ff.gate) {
        const View gate = top(gate_);
        product(normed, *ff.gate, gate);
        Rows::gated(ff.activation, gate, up, up, executor_);
      } else {
        Rows::activation(ff.activation, up, up, executor_);
      }
      product(up, ff.down, added);
      Rows::add(stream, added, stream, executor_);
    }
    return stream;
  }

  void write_logits(const ConstView& last) noexcept {
    const View normed = mutable_view(normed_).block(0, 0, 1, normed_.cols());
    norm(model_.final_norm, last, normed);
    run_product<Scalar>(normed, model_.output_view(), mutable_view(logits_), workspace_.data(), threads(),
                        executor_);
  }

  void norm(const Norm<Scalar>& layer, const ConstView& x, const View& out) const noexcept {
    Rows::norm(x, view(layer.weight), detail::view_unless_empty(layer.bias), layer.options, out, executor_);
  }
  void product(const ConstView& x, const Linear<Scalar>& layer, const View& out) const noexcept {
    run_product<Scalar>(x, view(layer.w), out, workspace_.data(), threads(), executor_,
                        detail::view_unless_empty(layer.b));
  }

  const Gpt<Scalar>& model_;
  Index keep_;
  Executor* executor_;
  Index max_rows_;
  MultiHeadAttentionDecodePlan<Scalar> attention_;
  std::vector<KvCache<Scalar>> caches_;
  std::vector<TokenId> seen_;  ///< The last ones, a context of them at most.
  Matrix<Scalar> stream_, normed_, added_, up_, gate_;
  Matrix<Scalar> logits_;
  Workspace workspace_;
};

/// How a text is continued, and where it ends.
struct GenerateOptions {
  Index max_new_tokens = 200;
  SamplingOptions sampling = {};
  std::vector<TokenId> stop_tokens = {};     ///< One of these ends the text; it is not part of the result.
  std::optional<Index> keep = std::nullopt;  ///< How much of a full context is read anew: see GptDecoder.
  Executor* executor = nullptr;              ///< Default: the calling thread alone.
};

/// Continues a prompt: the new tokens alone. on_token, if it is given, is called with each as soon as it is
/// there, and ends the text by returning false. Equal models, prompts, options and seeds give equal texts on
/// any number of threads. Throws ArgumentError for an empty prompt, a negative max_new_tokens or sampling
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
