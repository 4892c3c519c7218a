#pragma once

// From scores to a token.
//
//   const heed::TokenId next = heed::sample_token(logits, {.temperature = 0.8, .top_k = 40}, random);

#include "heed/core/config.hpp"

#include <optional>
#include <span>

#include "heed/core/random.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/token.hpp"
#include "heed/core/view.hpp"

namespace heed {

/// Which tokens may be drawn, and how boldly.
struct SamplingOptions {
  double temperature = 1;  ///< Scores are divided by it; 0: always the largest.
  Index top_k = 0;         ///< Only the top_k likeliest tokens; 0, or more than there are: all.
  double top_p = 1;        ///< Of these only the likeliest whose probabilities together reach top_p; 1: all.
  /// Only tokens below it: the size of the tokenizer's vocabulary, where the model has rows that no token
  /// belongs to. Default: all.
  std::optional<Index> vocab_size = std::nullopt;
};

/// Throws ArgumentError unless temperature is finite and not negative, top_k not negative, top_p in (0, 1],
/// and vocab_size positive.
HEED_EXPORT void check_sampling(const SamplingOptions& options);

namespace detail {

/// Throws ShapeError if the tokenizer has more tokens than there are logits.
HEED_EXPORT void require_logits_for(const SamplingOptions& options, Index num_logits);

}  // namespace detail

/// Draws one token with the probabilities that softmax(logits / temperature) gives to the tokens that the
/// options leave (top_p: Holtzman et al. 2020). Among equal scores the lowest token comes first, so
/// temperature 0 and top_k 1 always give the first of the largest. It draws one number from `random`, for
/// those two options none. All is computed in double, in one order: equal logits and seeds give one token on
/// any number of threads. Logits of tokens from vocab_size on are not looked at. Throws as check_sampling,
/// ShapeError for no logits or fewer than vocab_size, ArgumentError for one that is NaN, or if none is
/// finite. T is float or double.
template <class T>
HEED_EXPORT TokenId sample_token(std::span<const T> logits, const SamplingOptions& options, Random& random);

/// Refuses scores of another type with a sentence.
template <class T>
requires(!has_kernels<T>) TokenId sample_token(std::span<const T>, const SamplingOptions&, Random&) {
  static_assert(detail::require_kernels<T>());
  return 0;
}

extern template TokenId sample_token(std::span<const float>, const SamplingOptions&, Random&);
extern template TokenId sample_token(std::span<const double>, const SamplingOptions&, Random&);

}  // namespace heed
