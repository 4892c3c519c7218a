#pragma once

// Attention over keys that lie in several places: each part's result, with its logsumexp, can be merged into
// that over all keys (Dao et al. 2022, section 3.1; Liu et al. 2023, "Ring Attention").
//
//   auto result = heed::scaled_dot_product_attention_with_logsumexp(query, key_1, value_1);
//   heed::merge_attention(result, heed::scaled_dot_product_attention_with_logsumexp(query, key_2, value_2));

#include "heed/core/config.hpp"

#include <cmath>
#include <limits>

#include "heed/attention/scaled_dot_product_attention.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/core/scalar.hpp"

namespace heed {

/// Turns (out, logsumexp) into the attention over its keys and the other part's:
///   m = max(a, b), w_a = exp(a - m), w_b = exp(b - m), out = (w_a out_a + w_b out_b) / (w_a + w_b),
///   logsumexp = m + log(w_a + w_b).
///
/// out is rows x (num_heads * value_dim), logsumexp rows x num_heads, as AttentionResult has them. Merging is
/// commutative, and associative up to rounding. A part that saw nothing (logsumexp -inf) changes no bit. Give
/// a sink to one of the parts only. Works in place on the calling thread, without memory of its own. Throws
/// ShapeError if sizes do not fit, ArgumentError if a matrix that is written overlaps another one, before
/// anything is written.
template <class O, class L, class P, class M>
void merge_attention(Eigen::DenseBase<O>& out, Eigen::DenseBase<L>& logsumexp,
                     const Eigen::DenseBase<P>& other_out, const Eigen::DenseBase<M>& other_logsumexp) {
  using Scalar = typename O::Scalar;
  using std::exp;
  using std::log;
  static_assert(detail::require_number<typename O::Scalar>());
  static_assert(detail::same_scalar<O, L, P, M>, "both parts need the same scalar type: cast them");
  const auto require_same = [](const auto& a, const auto& b, const char* name) {
    if (a.rows() != b.rows() || a.cols() != b.cols()) {
      throw_shape_error(std::string(name) + " is " + size_text(view(a)) + " in one part, " +
                        size_text(view(b)) + " in the other");
    }
  };
  require_same(out, other_out, "out");
  require_same(logsumexp, other_logsumexp, "logsumexp");
  if (out.rows() != logsumexp.rows()) {
    throw_shape_error("out has " + std::to_string(out.rows()) + " rows, logsumexp has " +
                      std::to_string(logsumexp.rows()));
  }
  const auto require_apart = [](const auto& written, const char* name, const auto& other,
                                const char* other_name) {
    if (overlap(view(written), view(other))) {
      throw_argument_error(std::string(name) + " (" + size_text(view(written)) + ") overlaps " + other_name +
                           " (" + size_text(view(other)) + ") in memory");
    }
  };
  require_apart(out, "out", other_out, "the other part's out");
  require_apart(out, "out", other_logsumexp, "the other part's logsumexp");
  require_apart(out, "out", logsumexp, "logsumexp");
  require_apart(logsumexp, "logsumexp", other_out, "the other part's out");
  require_apart(logsumexp, "logsumexp", other_logsumexp, "the other part's logsumexp");
  const Index num_heads = logsumexp.cols();
  if (out.rows() == 0 || (out.cols() == 0 && num_heads == 0)) return;
  const Index value_dim = detail::per_head(out.cols(), num_heads, "out");
  O& to = out.derived();
  L& lse = logsumexp.derived();
  const P& from = other_out.derived();
  const M& other = other_logsumexp.derived();
  for (Index i = 0; i < to.rows(); ++i) {
    for (Index h = 0; h < num_heads; ++h) {
      const Scalar a = lse(i, h);
      const Scalar b = other(i, h);
      if (detail::is_minus_infinity(b)) continue;
      if (detail::is_minus_infinity(a)) {
        for (Index c = h * value_dim; c < (h + 1) * value_dim; ++c) to(i, c) = from(i, c);
        lse(i, h) = b;
        continue;
      }
      const Scalar most = a > b ? a : b;
      const Scalar w_a = exp(a - most);
      const Scalar w_b = exp(b - most);
      const Scalar sum = w_a + w_b;
      for (Index c = h * value_dim; c < (h + 1) * value_dim; ++c)
        to(i, c) = (w_a * to(i, c) + w_b * from(i, c)) / sum;
      lse(i, h) = most + log(sum);
    }
  }
}

/// Merges whole results. Their weights, if there are any, are not merged.
template <class Scalar>
void merge_attention(AttentionResult<Scalar>& result, const AttentionResult<Scalar>& other) {
  merge_attention(result.out, result.logsumexp, other.out, other.logsumexp);
}

}  // namespace heed
