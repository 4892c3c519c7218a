// What an attention may be asked for, and with which matrices.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attention/require.hpp"
#include "heed/attention/plan.hpp"
#include "heed/core/error.hpp"

namespace heed {

using detail::count_of;
using detail::require_not_negative;
using detail::require_positive;
using detail::require_possible;
using detail::require_product;

namespace {

void check_starts(const std::vector<Index>& starts, const char* name, Index batch_size, Index longest) {
  if (starts.empty()) return;
  if (static_cast<Index>(starts.size()) != batch_size + 1) {
    throw_shape_error(std::string(name) + " has " + std::to_string(starts.size()) + " numbers, " +
                      count_of(batch_size, "sequence") + " need one more than there are sequences");
  }
  if (starts.front() != 0)
    throw_shape_error(std::string(name) + " begins with " + std::to_string(starts.front()) + ", not with 0");
  for (std::size_t b = 1; b < starts.size(); ++b) {
    if (starts[b] < starts[b - 1]) {
      throw_shape_error(std::string(name) + " falls from " + std::to_string(starts[b - 1]) + " to " +
                        std::to_string(starts[b]) + " at sequence " + std::to_string(b - 1));
    }
    if (starts[b] - starts[b - 1] > longest) {
      throw_shape_error(std::string(name) + " gives sequence " + std::to_string(b - 1) + " " +
                        std::to_string(starts[b] - starts[b - 1]) + " rows, the longest is said to have " +
                        std::to_string(longest));
    }
  }
  require_possible(starts.back(), name);
}

/// Sequences that lengths or query positions may tell apart; the first stands for all that are alike.
Index distinct_sequences(const AttentionShape& shape, const Mask& mask) {
  const bool alike = shape.query_starts.empty() && shape.kv_starts.empty() && mask.same_for_all();
  return alike ? std::min<Index>(shape.batch_size, 1) : shape.batch_size;
}

void check_rotary(const Rotary& rotary, const AttentionShape& shape, const Mask& mask) {
  if (rotary.rotary_dim() > shape.head_dim) {
    throw_shape_error("rotary_dim is " + std::to_string(rotary.rotary_dim()) + ", head_dim is " +
                      std::to_string(shape.head_dim));
  }
  const Index positions = rotary.max_positions();
  for (Index b = 0; b < distinct_sequences(shape, mask); ++b) {
    const Index query_len = shape.query_len_of(b);
    const Index kv_len = shape.kv_len_of(b);
    const Index first = mask.query_offset(query_len, kv_len, b);
    const bool queries_fit = query_len == 0 || (first > -positions && first <= positions - query_len);
    if (!queries_fit || kv_len > positions) {
      const Index last = causal().reach(first, query_len - 1).last;  // the sum might be no Index
      throw_shape_error("rotary has angles for the positions " +
                        std::to_string(first < 0 ? 1 - positions : 0) + " to " +
                        std::to_string(positions - 1) + ", sequence " + std::to_string(b) +
                        " has keys at 0 to " + std::to_string(kv_len - 1) + " and queries at " +
                        std::to_string(first) + " to " + std::to_string(last));
    }
  }
}

}  // namespace

void check_attention(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
                     ScalarType scalar, bool with_functions) {
  require_not_negative(shape.batch_size, "batch_size");
  require_not_negative(shape.query_len, "query_len");
  require_not_negative(shape.kv_len, "kv_len");
  require_positive(shape.num_heads, "num_heads");
  require_positive(shape.num_kv_heads, "num_kv_heads");
  require_positive(shape.head_dim, "head_dim");
  require_positive(shape.value_dim, "value_dim");
  if (shape.num_heads % shape.num_kv_heads != 0) {
    throw_shape_error("num_heads is " + std::to_string(shape.num_heads) +
                      ", not a multiple of num_kv_heads, which is " + std::to_string(shape.num_kv_heads));
  }
  require_possible(shape.batch_size, "batch_size");
  require_possible(shape.num_heads, "num_heads");
  require_possible(shape.query_len, "query_len");
  require_possible(shape.kv_len, "kv_len");
  require_possible(shape.head_dim, "head_dim");
  require_possible(shape.value_dim, "value_dim");
  require_product(shape.batch_size, shape.num_heads, "batch_size * num_heads");
  require_product(shape.batch_size * shape.num_heads, shape.query_len, "batch_size * num_heads * query_len");
  require_product(shape.batch_size, shape.kv_len, "batch_size * kv_len");
  require_product(shape.num_heads, shape.head_dim, "num_heads * head_dim");
  require_product(shape.num_heads, shape.value_dim, "num_heads * value_dim");
  check_starts(shape.query_starts, "query_starts", shape.batch_size, shape.query_len);
  check_starts(shape.kv_starts, "kv_starts", shape.batch_size, shape.kv_len);
  if (options.scale && !std::isfinite(*options.scale))
    throw_argument_error("scale is " + detail::number_text(*options.scale) + ", it must be finite");
  if (!std::isfinite(options.softcap) || options.softcap < 0) {
    throw_argument_error("softcap is " + detail::number_text(options.softcap) +
                         ", it must be positive, or 0 for none");
  }
  if (!options.sinks.empty() && static_cast<Index>(options.sinks.size()) != shape.num_heads) {
    throw_shape_error("sinks has " + count_of(static_cast<Index>(options.sinks.size()), "number") +
                      ", there are " + count_of(shape.num_heads, "head"));
  }
  for (const double sink : options.sinks) {
    if (std::isnan(sink) || sink == std::numeric_limits<double>::infinity()) {
      throw_argument_error("a sink is " + detail::number_text(sink) +
                           ", it must be finite, or -inf for a head without one");
    }
  }
  mask.check_sizes(shape.mask_sizes(), scalar);
  for (Index b = 0; !shape.kv_starts.empty() && b < shape.batch_size; ++b)
    mask.check_kv_length(b, shape.kv_len_of(b));
  const char* const asking = detail::asking_for_positions(options, with_functions);
  const bool equal = shape.query_starts.empty() && shape.kv_starts.empty();
  const Index sequences =
      std::max<Index>(distinct_sequences(shape, mask), equal ? 1 : 0);  // lengths count anyway
  for (Index b = 0; b < sequences; ++b) {
    const Index offset = mask.query_offset(shape.query_len_of(b), shape.kv_len_of(b), b, asking);
    const bool near = offset >= -Mask::kMaxOffset && offset <= Mask::kMaxOffset;
    if (!near && (with_functions || !mask.alibi_slopes().empty())) {
      throw_argument_error("query_offset is " + std::to_string(offset) + ", " +
                           (with_functions ? "a function of scores" : "alibi") +
                           " is told positions within " + std::to_string(Mask::kMaxOffset) + " of key 0");
    }
  }
  if (options.rotary) check_rotary(*options.rotary, shape, mask);
}

void detail::check_sizes(const AttentionShape& shape, const UntypedAttentionTensors& tensors) {
  const Index query_rows = shape.query_rows();
  const Index kv_rows = shape.kv_rows();
  const auto sequences_of = [&](const std::vector<Index>& starts, Index length, Index rows,
                                const char* what) {
    if (!starts.empty())
      return count_of(shape.batch_size, "sequence") + " with " + count_of(rows, what) + " in all";
    return count_of(shape.batch_size, "sequence") + " of " + count_of(length, what);
  };
  const auto queries = [&] {
    return sequences_of(shape.query_starts, shape.query_len, query_rows, "query row") + " and " +
           count_of(shape.num_heads, "head");
  };
  const auto keys = [&] {
    return sequences_of(shape.kv_starts, shape.kv_len, kv_rows, "key") + " and " +
           count_of(shape.num_kv_heads, "key/value head");
  };
  const auto with_dim = [](const auto& words, Index dim) {
    return [&words, dim] { return words() + " of " + std::to_string(dim); };
  };
  require_size(tensors.query, "query", query_rows, shape.num_heads * shape.head_dim,
               with_dim(queries, shape.head_dim));
  if (!tensors.cached) {
    require_size(tensors.key, "key", kv_rows, shape.num_kv_heads * shape.head_dim,
                 with_dim(keys, shape.head_dim));
    require_size(tensors.value, "value", kv_rows, shape.num_kv_heads * shape.value_dim,
                 with_dim(keys, shape.value_dim));
  }
  require_size(tensors.out, "out", query_rows, shape.num_heads * shape.value_dim,
               with_dim(queries, shape.value_dim));
  if (wanted(tensors.weights)) {
    require_size(tensors.weights, "weights", query_rows * shape.num_heads, shape.kv_len,
                 [&] { return queries() + ", " + keys(); });
  }
  if (wanted(tensors.logsumexp))
    require_size(tensors.logsumexp, "logsumexp", query_rows, shape.num_heads, queries);
}

void detail::check_tensors(const AttentionShape& shape, const Mask& mask,
                           const UntypedAttentionTensors& tensors) {
  check_sizes(shape, tensors);
  require_results_apart(
      {{&tensors.out, "out"}, {&tensors.weights, "weights"}, {&tensors.logsumexp, "logsumexp"}},
      {{&tensors.query, "query"}, {&tensors.key, "key"}, {&tensors.value, "value"}}, mask);
}

}  // namespace heed
