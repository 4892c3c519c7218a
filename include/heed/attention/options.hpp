#pragma once

// What a one-line attention can be asked for, and the sizes that follow from its matrices.

#include "heed/core/config.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention/mask.hpp"
#include "heed/attention/plan.hpp"
#include "heed/attention/rotary.hpp"
#include "heed/core/error.hpp"
#include "heed/core/executor.hpp"
#include "heed/core/view.hpp"

namespace heed {

/// What an attention is asked for beside its matrices.
struct AttentionOptions {
  Mask mask = {};  ///< Which query may see which key; default: every query sees every key.
  std::optional<double> scale = std::nullopt;   ///< Default: 1 / sqrt(head_dim).
  double softcap = 0;                           ///< score = softcap * tanh(score / softcap); 0: none.
  std::vector<double> sinks = {};               ///< For each head a score that has no value; empty: none.
  std::optional<Rotary> rotary = std::nullopt;  ///< Queries and keys are turned by their positions.
  Index num_heads = 1;  ///< query is (batch_size * query_len) x (num_heads * head_dim).
  std::optional<Index> num_kv_heads = std::nullopt;  ///< Heads of key and value; default: num_heads.
  Index batch_size = 1;                              ///< Sequences of equal length, stacked in the rows.
  /// Or sequences of any length: sequence b has the rows [starts[b], starts[b + 1]) of query, and of key and
  /// value. batch_size is then their number.
  std::vector<Index> query_starts = {};
  std::vector<Index> kv_starts = {};
  Executor* executor = nullptr;  ///< Default: the calling thread alone.
};

namespace detail {

inline Index per_head(Index cols, Index heads, const char* name) {
  if (heads < 1 || cols % heads != 0) {
    throw_shape_error(std::string(name) + " has " + std::to_string(cols) +
                      " columns, they cannot be split into " + std::to_string(heads) + " heads");
  }
  return cols / heads;
}

inline Index per_sequence(Index rows, Index batch_size, const char* name) {
  if (batch_size < 0 || (batch_size == 0 ? rows != 0 : rows % batch_size != 0)) {
    throw_shape_error(std::string(name) + " has " + std::to_string(rows) +
                      " rows, they cannot be split into " + std::to_string(batch_size) + " sequences");
  }
  return batch_size == 0 ? 0 : rows / batch_size;
}

/// Returns the rows of the longest sequence. Starts that are negative or fall are passed over:
/// check_attention() throws for them, and their differences might be no Index.
inline Index longest(const std::vector<Index>& starts) {
  Index most = 0;
  for (std::size_t b = 1; b < starts.size(); ++b) {
    if (starts[b - 1] >= 0 && starts[b] > starts[b - 1]) most = (std::max)(most, starts[b] - starts[b - 1]);
  }
  return most;
}

/// Returns how many sequences there are, and how long the longest is.
inline Index batch_size_of(const AttentionOptions& options) {
  const auto said = [](const std::vector<Index>& starts) { return static_cast<Index>(starts.size()) - 1; };
  if (options.query_starts.empty() && options.kv_starts.empty()) return options.batch_size;
  const Index ragged = said(options.query_starts.empty() ? options.kv_starts : options.query_starts);
  if (options.batch_size != 1 && options.batch_size != ragged) {
    throw_shape_error("batch_size is " + std::to_string(options.batch_size) + ", the starts are those of " +
                      std::to_string(ragged) + " sequences");
  }
  return ragged;
}
inline Index query_length(Index rows, const std::vector<Index>& starts, Index batch_size, const char* name) {
  if (starts.empty()) return per_sequence(rows, batch_size, name);
  if (starts.back() != rows) {
    throw_shape_error(std::string(name) + " has " + std::to_string(rows) + " rows, its starts end at " +
                      std::to_string(starts.back()));
  }
  return longest(starts);
}

template <class Scalar>
AttentionShape attention_shape(const MatrixView<const Scalar>& query, const MatrixView<const Scalar>& key,
                               const MatrixView<const Scalar>& value, const AttentionOptions& options) {
  if (key.rows != value.rows) {
    throw_shape_error("key has " + std::to_string(key.rows) + " rows, value has " +
                      std::to_string(value.rows));
  }
  const Index num_kv_heads = options.num_kv_heads.value_or(options.num_heads);
  AttentionShape shape;
  shape.batch_size = batch_size_of(options);
  shape.num_heads = options.num_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.query_starts = options.query_starts;
  shape.kv_starts = options.kv_starts;
  shape.query_len = query_length(query.rows, options.query_starts, shape.batch_size, "query");
  shape.kv_len = query_length(key.rows, options.kv_starts, shape.batch_size, "key");
  shape.head_dim = per_head(query.cols, options.num_heads, "query");
  shape.value_dim = per_head(value.cols, num_kv_heads, "value");
  if (per_head(key.cols, num_kv_heads, "key") != shape.head_dim) {
    throw_shape_error("query has heads of " + std::to_string(shape.head_dim) + " columns, key has heads of " +
                      std::to_string(key.cols / num_kv_heads));
  }
  return shape;
}

inline ScoreOptions score_options(const AttentionOptions& options) {
  return {options.scale, options.softcap, options.sinks, options.rotary};
}

}  // namespace detail

}  // namespace heed
