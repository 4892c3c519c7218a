#pragma once

// What the results of a drawn problem are held to: the naive loops, in the same scalar and in long double.

#include <algorithm>

#include "heed/attention/flex_attention.hpp"
#include "option_cases.hpp"

namespace heed::test {

/// Calls f with the problem's score function and predicate as the engine takes them.
template <class T, class F>
void with_functions(const Problem& p, const F& f) {
  const auto visible = visible_where(some_predicate, some_predicate_may_see);
  const auto call = [&](const auto& score, const auto& see) {
    using Functions = detail::FunctorFunctions<T, std::decay_t<decltype(score)>, std::decay_t<decltype(see)>>;
    f(Functions(score, see).functions());
  };
  if (p.scored) {
    p.restricted ? call(some_score, visible) : call(some_score, SeesAll{});
  } else if (p.restricted) {
    call(KeepScore{}, visible);
  } else {
    f(ScoreFunctions<T>{});
  }
}

/// The naive loops of reference.hpp in any scalar type.
template <class T>
AttentionResult<T> loops(const Problem& p) {
  const Poured<T> in(p);
  AttentionResult<T> result;
  result.out.resize(p.shape.query_rows(), p.shape.num_heads * p.shape.value_dim);
  result.weights.resize(p.shape);
  result.logsumexp.resize(p.shape.query_rows(), p.shape.num_heads);
  AttentionTensors<T> tensors;
  tensors.query = view(in.query);
  tensors.key = view(in.key);
  tensors.value = view(in.value);
  tensors.out = mutable_view(result.out);
  tensors.weights = mutable_view(result.weights.stacked);
  tensors.logsumexp = mutable_view(result.logsumexp);
  with_functions<T>(p, [&](const ScoreFunctions<T>& functions) {
    reference::attention(p.shape, in.options.mask, detail::score_options(in.options), tensors, functions);
  });
  return result;
}

/// What a row of one head may be off by. The contract's bound counts the rounding of dot products, weights
/// and sums. Softcap, biases, slopes and rotary positions each round the score once more or a few times, by
/// at most eps times the largest number on its way, `reach`; and scores that are all off by d move no
/// weighted mean by more than 2 d max|value|. So each of these options adds 2 eps * reach to the contract's 4
/// eps.
struct Slack {
  long double value;      // the largest visible |value|
  long double allowance;  // in units of eps
};

inline Slack slack_of(const Problem& p, Index b, Index h, Index i) {
  const AttentionShape& s = p.shape;
  const Index kv_head = h / (s.num_heads / s.num_kv_heads);
  const double scale = std::abs(p.scale.value_or(1 / std::sqrt(static_cast<double>(s.head_dim))));
  const double query =
      p.in.query.block(s.query_start(b) + i, h * s.head_dim, 1, s.head_dim).cast<double>().norm();
  const Index biases = std::count_if(p.matrices.begin(), p.matrices.end(), [](const MaskMatrixCase& m) {
    return m.kind == MaskMatrix::Kind::bias;
  });
  double value = 0;
  double product = 0;
  double distance = 0;
  for (Index j = 0; j < s.kv_len_of(b); ++j) {
    if (!p.sees(b, h, i, j)) continue;
    const Index row = s.kv_start(b) + j;
    for (Index c = 0; c < s.value_dim; ++c)
      value = std::max<double>(value, std::abs(p.in.value(row, kv_head * s.value_dim + c)));
    const double key = p.in.key.block(row, kv_head * s.head_dim, 1, s.head_dim).cast<double>().norm();
    product = std::max(product, scale * query * key);
    distance = std::max(distance, std::abs(static_cast<double>(p.position(b, i) - j)));
  }
  const double slope = p.slopes.empty() ? 0 : p.slopes[static_cast<std::size_t>(h)];
  const double reach = product + 2 * static_cast<double>(biases) + slope * distance + p.scored;
  const int more = (p.softcap > 0) + (biases > 0) + !p.slopes.empty() + p.rotary.has_value() + p.scored;
  return {value, 4 + 2 * more * reach};
}

/// The largest error of each result, as a multiple of what is allowed.
struct Excess {
  double out = 0;
  double weights = 0;
  double logsumexp = 0;
};

template <class T>
Excess excess_of(const Problem& p, const AttentionResult<T>& result) {
  const auto exact = loops<long double>(p);
  const auto naive = loops<T>(p);
  const AttentionShape& s = p.shape;
  const auto eps = static_cast<long double>(std::numeric_limits<T>::epsilon());
  Excess excess;
  const auto take = [](double& worst, long double got, long double loop, long double truth,
                       long double slack) {
    const long double allowed = 2 * std::abs(loop - truth) + slack;
    const long double error = std::abs(got - truth);
    if (error > 0) worst = std::max(worst, static_cast<double>(error / allowed));
    if (std::isnan(error)) worst = kInf<double>;
  };
  for (Index b = 0; b < s.batch_size; ++b) {
    for (Index h = 0; h < s.num_heads; ++h) {
      for (Index i = 0; i < s.query_len_of(b); ++i) {
        const Index row = s.query_start(b) + i;
        const Slack slack = slack_of(p, b, h, i);
        for (Index c = h * s.value_dim; c < (h + 1) * s.value_dim; ++c) {
          take(excess.out, result.out(row, c), naive.out(row, c), exact.out(row, c),
               slack.allowance * eps * slack.value);
        }
        bool any = false;
        for (Index j = 0; j < s.kv_len_of(b); ++j) {
          const T weight = result.weights.head(h, b)(i, j);
          const long double truth = exact.weights.head(h, b)(i, j);
          if (!p.sees(b, h, i, j)) {  // exactly: the oracle agrees on who is hidden
            if (weight != 0 || truth != 0) excess.weights = kInf<double>;
            continue;
          }
          any = true;
          if (truth == 0) excess.weights = kInf<double>;
          // As out would be for values of a unit matrix.
          take(excess.weights, weight, naive.weights.head(h, b)(i, j), truth, slack.allowance * eps);
        }
        if (any || !p.sinks.empty()) {
          const long double truth = exact.logsumexp(row, h);
          take(excess.logsumexp, result.logsumexp(row, h), naive.logsumexp(row, h), truth,
               eps * (slack.allowance + std::abs(truth)));
        } else if (result.logsumexp(row, h) != -kInf<T>) {
          excess.logsumexp = kInf<double>;
        }
        if (!any && !result.out.block(row, h * s.value_dim, 1, s.value_dim).isZero(0))
          excess.out = kInf<double>;
      }
    }
  }
  return excess;
}

template <class T>
bool same_results(const AttentionResult<T>& a, const AttentionResult<T>& b) {
  return same_bits(a.out, b.out) && same_bits(a.weights.stacked, b.weights.stacked) &&
         same_bits(a.logsumexp, b.logsumexp);
}

/// Whether a part of a problem, on its own, has the bits that it has in the whole.
template <class T>
bool part_has_same_bits(const Problem& p, const AttentionResult<T>& whole, Index b, std::optional<Index> head,
                        Index first, Index rows) {
  const AttentionShape& s = p.shape;
  const AttentionResult<T> part = Poured<T>(p.part(b, head, first, rows)).run();
  const Index row = s.query_start(b) + first;
  const Index from = head.value_or(0);
  const Index heads = head ? 1 : s.num_heads;
  bool same = same_bits(part.out, whole.out.block(row, from * s.value_dim, rows, heads * s.value_dim)) &&
              same_bits(part.logsumexp, whole.logsumexp.block(row, from, rows, heads));
  for (Index h = 0; same && h < heads; ++h)
    same = same_bits(part.weights.head(h), whole.weights.head(from + h, b).middleRows(first, rows));
  return same;
}

/// Fills with NaN, Inf and garbage what no row sees.
inline void poison_hidden(Problem& p) {
  const AttentionShape& s = p.shape;
  const Index group = s.num_heads / s.num_kv_heads;
  const float poisons[] = {kNaN<float>, kInf<float>, -kInf<float>, std::numeric_limits<float>::max()};
  for (Index b = 0; b < s.batch_size; ++b) {
    for (Index kv_head = 0; kv_head < s.num_kv_heads; ++kv_head) {
      for (Index j = 0; j < s.kv_len_of(b); ++j) {
        bool seen = false;
        for (Index h = kv_head * group; !seen && h < (kv_head + 1) * group; ++h) {
          for (Index i = 0; !seen && i < s.query_len_of(b); ++i) seen = p.sees(b, h, i, j);
        }
        if (seen) continue;
        const float poison = poisons[static_cast<std::size_t>(j + b) % std::size(poisons)];
        p.in.key.block(s.kv_start(b) + j, kv_head * s.head_dim, 1, s.head_dim).setConstant(poison);
        p.in.value.block(s.kv_start(b) + j, kv_head * s.value_dim, 1, s.value_dim).setConstant(poison);
      }
    }
  }
}

}  // namespace heed::test
