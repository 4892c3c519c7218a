#pragma once

// Plan once, run many times: the engine under scaled_dot_product_attention, on views instead of Eigen
// matrices.

#include "heed/core/config.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/attention/detail/score_numbers.hpp"
#include "heed/attention/detail/score_tile.hpp"
#include "heed/attention/mask.hpp"
#include "heed/attention/rotary.hpp"
#include "heed/attention/weights_observer.hpp"
#include "heed/core/executor.hpp"
#include "heed/core/scalar_type.hpp"
#include "heed/core/view.hpp"

namespace heed {

template <class T>
class CachedAttentionPlan;

/// The sizes of one attention. A batch is a stack of rows, sequence after sequence; head h is the column
/// block [h * head_dim, (h + 1) * head_dim). Query head h reads key/value head h / (num_heads /
/// num_kv_heads).
struct AttentionShape {
  Index batch_size = 1;
  Index num_heads = 1;
  Index num_kv_heads = 1;
  Index query_len = 0;  ///< Queries of one sequence, or of the longest one in a ragged batch.
  Index kv_len = 0;     ///< Keys of one sequence, or of the longest one in a ragged batch.
  Index head_dim = 0;
  Index value_dim = 0;
  /// A ragged batch: sequence b has the rows [starts[b], starts[b + 1]) of query, or of key and value. Each
  /// has batch_size + 1 numbers that never fall, or is empty: all sequences are equally long.
  std::vector<Index> query_starts = {};
  std::vector<Index> kv_starts = {};

  Index query_start(Index sequence) const noexcept { return start(query_starts, query_len, sequence); }
  Index kv_start(Index sequence) const noexcept { return start(kv_starts, kv_len, sequence); }
  Index query_len_of(Index sequence) const noexcept {
    return query_start(sequence + 1) - query_start(sequence);
  }
  Index kv_len_of(Index sequence) const noexcept { return kv_start(sequence + 1) - kv_start(sequence); }
  Index query_rows() const noexcept { return query_start(batch_size); }
  Index kv_rows() const noexcept { return kv_start(batch_size); }

  /// Returns the sizes that a mask is made to fit.
  MaskSizes mask_sizes() const noexcept { return {batch_size, num_heads, query_len, kv_len}; }

  /// Returns the row of a query in a matrix that has one for each head and query: sequence by sequence,
  /// within it head by head, as weights are stacked.
  Index stacked_row(Index sequence, Index head, Index query) const noexcept {
    return query_start(sequence) * num_heads + head * query_len_of(sequence) + query;
  }

 private:
  static Index start(const std::vector<Index>& starts, Index length, Index sequence) noexcept {
    return starts.empty() ? sequence * length : starts[static_cast<std::size_t>(sequence)];
  }
};

/// How scores are made from queries and keys, beside the mask.
struct ScoreOptions {
  std::optional<double> scale = std::nullopt;   ///< Default: 1 / sqrt(head_dim).
  double softcap = 0;                           ///< score = softcap * tanh(score / softcap); 0: none.
  std::vector<double> sinks = {};               ///< For each head a score that has no value; empty: none.
  std::optional<Rotary> rotary = std::nullopt;  ///< Queries and keys are turned by their positions.
};

namespace detail {

/// Keys and values in a KvCache, as the kernels read them.
struct CacheView {
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  const unsigned char* finite = nullptr;
  std::size_t key_tile_bytes = 0;
  std::size_t value_tile_bytes = 0;
  Index tiles_per_head = 0;
  int storage = 0;
  /// Tokens of each sequence, whose last ones the queries are; nullptr: the plan's shape and mask say both.
  const Index* lengths = nullptr;
};

}  // namespace detail

/// What one run reads and writes.
template <class T>
struct AttentionTensors {
  MatrixView<const T> query;  ///< query_rows x (num_heads * head_dim), query_rows = batch_size * query_len.
  MatrixView<const T> key;    ///< (batch_size * kv_len) x (num_kv_heads * head_dim).
  MatrixView<const T> value;  ///< (batch_size * kv_len) x (num_kv_heads * value_dim).
  MatrixView<T> out;          ///< query_rows x (num_heads * value_dim).
  MatrixView<T> weights;      ///< (query_rows * num_heads) x kv_len, or left empty: not wanted.
  MatrixView<T> logsumexp;    ///< query_rows x num_heads, or left empty: not wanted.
  WeightsObserver<T>* const* observers = nullptr;  ///< Observers that were prepared for the shape.
  Index num_observers = 0;
  const detail::CacheView* cache = nullptr;  ///< Keys and values lie there; key and value are left empty.
};

/// Throws ShapeError if a size is negative, a head size below 1, num_heads no multiple of num_kv_heads, the
/// mask does not fit, something asks where the queries stand and the mask does not say it (mask.hpp), or an
/// option makes no sense (ArgumentError). with_functions: functions of the caller's take part in the scores.
HEED_EXPORT void check_attention(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
                                 ScalarType scalar, bool with_functions = false);

namespace detail {

/// Returns what asks where the queries stand, beside the mask; nullptr if nothing does.
inline const char* asking_for_positions(const ScoreOptions& options, bool with_functions) noexcept {
  if (options.rotary) return "rotary";
  return with_functions ? "a function of scores" : nullptr;
}

struct UntypedAttentionTensors {
  UntypedView query, key, value, out, weights, logsumexp;
  bool cached = false;
};
HEED_EXPORT void check_tensors(const AttentionShape& shape, const Mask& mask,
                               const UntypedAttentionTensors& tensors);

}  // namespace detail

/// Throws ShapeError for a view of the wrong size, ArgumentError if one that is written overlaps another one.
template <class T>
void check_tensors(const AttentionShape& shape, const Mask& mask, const AttentionTensors<T>& tensors) {
  detail::check_tensors(
      shape, mask,
      {untyped(tensors.query), untyped(tensors.key), untyped(tensors.value), untyped(tensors.out),
       untyped(tensors.weights), untyped(tensors.logsumexp), tensors.cache != nullptr});
}

/// out = softmax(scale * query * key^T + bias, over visible keys) * value, for each head of each sequence
/// (Vaswani et al. 2017, equation 1; the tiles and the online softmax: Dao 2023, "FlashAttention-2",
/// Algorithm 1).
///
/// T is float or double. A row's bits depend on its own query and the keys and values that it sees, not on
/// threads, batch, chunks, strides or alignment. A row that sees no key gives zeros and a logsumexp of -inf.
///
///   AttentionShape shape;
///   shape.num_heads = shape.num_kv_heads = 12;
///   shape.query_len = shape.kv_len = n;
///   shape.head_dim = shape.value_dim = 64;
///   const AttentionPlan<float> plan(shape, causal(), {}, pool.concurrency());
///   Workspace workspace(plan.workspace_bytes());
///   AttentionTensors<float> tensors;
///   tensors.query = view(query);  // and key, value; tensors.out = mutable_view(out)
///   plan.check_tensors(tensors);
///   plan.run(tensors, workspace.data(), &pool);  // as often as wanted
template <class T>
class HEED_EXPORT AttentionPlan {
  static_assert(
      std::is_same_v<T, float> || std::is_same_v<T, double>,
      "plans run on kernels, for float and double; scaled_dot_product_attention takes other scalars");

 public:
  /// Plans runs of one shape. Matrices in the mask, and what the functions' context points to, are looked at
  /// by each run, and must live as long. An executor of less concurrency than `threads` is right too.
  /// threads: how many tasks of a run may be under way at once. Throws as check_attention does, ArgumentError
  /// if threads < 1.
  explicit AttentionPlan(const AttentionShape& shape, const Mask& mask = {}, const ScoreOptions& options = {},
                         Index threads = 1, const ScoreFunctions<T>& functions = {});

  const AttentionShape& shape() const noexcept { return shape_; }
  const Mask& mask() const noexcept { return mask_; }

  /// Returns the bytes of scratch memory of one run, exactly: O(head_dim + value_dim) for each thread,
  /// nothing that grows with the lengths. (A run against a KvCache needs less, but the plan cannot know which
  /// it will be.)
  std::size_t workspace_bytes() const noexcept { return static_cast<std::size_t>(threads_) * thread_bytes_; }

  /// Throws as check_tensors does.
  void check_tensors(const AttentionTensors<T>& tensors) const {
    heed::check_tensors(shape_, mask_, tensors);
  }

  /// Runs on the calling thread, or on the executor's. The tensors are as check_tensors() wants them;
  /// workspace has workspace_bytes() bytes, aligned to Workspace::alignment, and serves one run at a time.
  /// Allocates nothing and locks nothing itself. A const plan may run on several threads at once, each with
  /// its own workspace.
  void run(const AttentionTensors<T>& tensors, void* workspace, Executor* executor = nullptr) const noexcept;

  /// Describes instruction set, tiles, blocks, threads and bytes of the workspace, each with the reason why:
  /// lines for people, the words may change.
  std::string to_string() const;

 private:
  friend class CachedAttentionPlan<T>;
  struct HEED_NO_EXPORT Run;  // one call of run()

  Index num_items() const noexcept;
  bool masked() const noexcept;
  std::string options_text() const;

  AttentionShape shape_;
  Mask mask_;
  ScoreFunctions<T> functions_;
  detail::ScoreNumbers<T> numbers_;
  std::vector<Index>
      first_items_;    ///< The first item of each sequence of a ragged batch, and the number of items.
  Index groups_;       ///< Groups of heads that are worked on together, in each sequence.
  Index group_heads_;  ///< Heads of each group.
  Index asked_threads_;
  Index threads_;  ///< No more than there are blocks.
  std::size_t thread_bytes_;
  Index block_rows_;
  Index blocks_per_group_;  ///< Blocks of a group in the longest sequence.
};

extern template class AttentionPlan<float>;
extern template class AttentionPlan<double>;

}  // namespace heed
