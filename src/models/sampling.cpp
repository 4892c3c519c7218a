// Draws one token from logits: temperature, top-k and top-p.

#include "heed/models/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"

namespace heed {

namespace {

template <class T>
TokenId largest(std::span<const T> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// How many of the candidates, the likeliest first, are together as likely as top_p says.
std::size_t nucleus(const std::vector<double>& weights, double top_p) {
  const double wanted = top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum >= wanted) return i + 1;
  }
  return weights.size();
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw_argument_error("temperature is " + detail::number_text(options.temperature) +
                         ", it must be finite and not negative");
  }
  if (options.top_k < 0)
    throw_argument_error("top_k is " + std::to_string(options.top_k) + ", it must not be negative");
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw_argument_error("top_p is " + detail::number_text(options.top_p) + ", it must be in (0, 1]");
  if (options.vocab_size && *options.vocab_size < 1) {
    throw_argument_error("vocab_size is " + std::to_string(*options.vocab_size) +
                         ", at least one token must be left to draw");
  }
}

void detail::require_logits_for(const SamplingOptions& options, Index num_logits) {
  if (options.vocab_size && *options.vocab_size > num_logits) {
    throw_shape_error("vocab_size is " + std::to_string(*options.vocab_size) + ", there are only " +
                      std::to_string(num_logits) + " logits: the tokenizer is not the model's");
  }
}

template <class T>
TokenId sample_token(std::span<const T> logits, const SamplingOptions& options, Random& random) {
  check_sampling(options);
  if (logits.empty()) throw_shape_error("there are no logits to choose from");
  detail::require_logits_for(options, std::ssize(logits));
  if (options.vocab_size) logits = logits.first(static_cast<std::size_t>(*options.vocab_size));
  bool any_finite = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (detail::is_nan(logits[i]))
      throw_argument_error("the logit of token " + std::to_string(i) + " is NaN");
    any_finite = any_finite || detail::is_finite(logits[i]);
  }
  if (!any_finite) {
    throw_argument_error("none of the " + std::to_string(logits.size()) +
                         " logits is finite: there is no token to draw");
  }
  if (options.temperature == 0 || options.top_k == 1) return largest(logits);

  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), TokenId{0});
  const auto logit = [&](TokenId id) { return static_cast<double>(logits[static_cast<std::size_t>(id)]); };
  const bool limited = options.top_p < 1 || (options.top_k > 0 && options.top_k < std::ssize(ids));
  if (limited) {
    std::sort(ids.begin(), ids.end(),
              [&](TokenId a, TokenId b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
    if (options.top_k > 0 && options.top_k < std::ssize(ids))
      ids.resize(static_cast<std::size_t>(options.top_k));
  }
  const double max = logit(limited ? ids.front() : largest(logits));
  std::vector<double> weights(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // An infinite score, or a quotient that overflows, is at one end or the other: never inf - inf.
    weights[i] = logit(ids[i]) == max ? 1 : std::exp((logit(ids[i]) - max) / options.temperature);
  }
  const std::size_t kept = options.top_p < 1 ? nucleus(weights, options.top_p) : weights.size();
  weights.resize(kept);
  const double draw = random.random() * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::size_t last = 0;  // what rounding may leave over at the end goes to the last one that is possible
  for (std::size_t i = 0; i < kept; ++i) {
    sum += weights[i];
    if (draw < sum) return ids[i];
    if (weights[i] > 0) last = i;
  }
  return ids[last];
}

template TokenId sample_token(std::span<const float>, const SamplingOptions&, Random&);
template TokenId sample_token(std::span<const double>, const SamplingOptions&, Random&);

}  // namespace heed
