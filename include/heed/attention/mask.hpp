#pragma once

// Who may see whom. A mask is a value: parts compose with &, every part must agree for a key to be visible,
// and a mask prints itself. Masks are computed, never stored, unless the caller brings a matrix.
//
//   scaled_dot_product_attention(q, k, v, {.mask = causal()});
//   scaled_dot_product_attention(q, k, v, {.mask = causal() & window(255, 0) & kv_lengths({5, 9})});
//
// One notion of position serves whatever asks where a query stands: causal(), window() and alibi(), and
// beside the mask a rotary and the caller's functions of scores. Query i of a sequence stands at p(i) = i +
// query offset, counted from the first key, and one rule says what the offset is:
//   - the mask says it: top_left(), bottom_right(), query_offset() or query_offsets(). Any number is valid;
//   queries
//     may stand before the first key and beyond the last one.
//   - else it is 0 for a sequence of as many queries as keys, and with a cache the queries are the last
//   tokens.
//   - else, if something asks for it, that is a ShapeError that names both lengths.

#include "heed/core/config.hpp"

#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/core/error.hpp"
#include "heed/core/scalar_type.hpp"
#include "heed/core/view.hpp"

namespace heed {

/// What a mask matrix has a block of rows for. The blocks stand one below the other, sequence by sequence and
/// within it head by head; a block has a row for each query, or one row for all of them.
enum class MaskRows { nothing, head, sequence, head_of_sequence };

/// The sizes of an attention, which a mask is made to fit.
struct MaskSizes {
  Index batch_size = 1;
  Index num_heads = 1;
  Index query_len = 0;  ///< Queries of the longest sequence.
  Index kv_len = 0;     ///< Keys of the longest sequence.
};

/// A side of a window without an end.
inline constexpr Index kUnlimited = (std::numeric_limits<Index>::max)();

/// A matrix in the caller's memory that is part of a mask.
struct HEED_EXPORT MaskMatrix {
  enum class Kind { bias, keep, drop };
  Kind kind = Kind::bias;
  MaskRows per = MaskRows::nothing;
  ScalarType scalar = {};
  UntypedView entries;

  /// Returns the rows of one block: all queries share one row if there is no more.
  Index block_rows(const MaskSizes& sizes) const noexcept;
  Index blocks(const MaskSizes& sizes) const noexcept;
  /// Returns which block is the one of a head of a sequence.
  Index block_of(const MaskSizes& sizes, Index sequence, Index head) const noexcept {
    const Index block = per_sequence() ? sequence : 0;
    return per_head() ? block * sizes.num_heads + head : block;
  }

  bool per_head() const noexcept { return per == MaskRows::head || per == MaskRows::head_of_sequence; }
  bool per_sequence() const noexcept {
    return per == MaskRows::sequence || per == MaskRows::head_of_sequence;
  }
};

/// Returns "bias", "keep_where" or "drop_where".
HEED_EXPORT const char* name_of(MaskMatrix::Kind kind) noexcept;

/// Which query may see which key: parts that are joined with &, as causal() & window(3, 0) & kv_lengths({5,
/// 9}). A mask is a value; matrices in it are views of memory that must live as long as attention runs.
class HEED_EXPORT Mask {
 public:
  /// Lets every query see every key.
  Mask() = default;

  /// Joins two masks: a key is visible where both let it be seen. Throws ArgumentError if both bring slopes,
  /// query positions that differ, kv_lengths for different numbers of sequences, or together more matrices
  /// than kMaxMatrices. Query positions are equal if they say the same for every sequence: top_left() and
  /// query_offset(0), query_offset(3) and query_offsets({3, 3}).
  friend Mask operator&(const Mask& a, const Mask& b);

  static constexpr Index kMaxMatrices = 8;
  /// The farthest offset whose positions slopes, rotaries and functions of scores are told: one beyond it is
  /// for causal() and window() alone, which are exact for every offset.
  static constexpr Index kMaxOffset = Index{1} << 61;

  struct Window {
    Index left = kUnlimited;   ///< How many keys before its own a query sees.
    Index right = kUnlimited;  ///< How many keys after its own a query sees.
  };

  /// The keys from first to last, both included, whether or not they exist.
  struct Reach {
    Index first;
    Index last;
  };

  bool is_causal() const noexcept { return causal_; }
  bool has_position() const noexcept { return position_.has_value(); }
  const Window& window() const noexcept { return window_; }
  const std::vector<MaskMatrix>& matrices() const noexcept { return matrices_; }
  const std::vector<double>& alibi_slopes() const noexcept { return slopes_; }

  /// Throws ShapeError or ArgumentError unless every part fits these sizes; biases must have the scalar type.
  void check_sizes(const MaskSizes& sizes, ScalarType scalar) const;

  /// Throws ShapeError if a sequence of kv_len keys is said to have more: check_sizes() knows the longest one
  /// only.
  void check_kv_length(Index sequence, Index kv_len) const;

  /// Returns how many keys of a sequence with kv_len of them exist: what kv_lengths() says, or kv_len.
  Index kv_length(Index sequence, Index kv_len) const noexcept;

  /// Returns the position of the first query of a sequence relative to its first key. Throws ShapeError if
  /// the mask is causal or has a window or slopes, or something else is `asking` for positions ("rotary";
  /// nullptr: nothing is), the lengths differ and the mask does not say where the queries stand.
  Index query_offset(Index query_len, Index kv_len, Index sequence = 0, const char* asking = nullptr) const;

  /// Returns what query `query` of a sequence with this query_offset sees, as far as causal() and window()
  /// say.
  Reach reach(Index query_offset, Index query) const noexcept;

  /// Returns true if sequences of equal length have one query_offset.
  bool same_for_all() const noexcept;

  /// Returns words for people: "causal & bottom_right & bias(4 x 4)", or "none".
  std::string to_string() const;

 private:
  enum class Anchor { top_left, bottom_right, number, number_each };
  struct Position {
    Anchor anchor;
    std::vector<Index> offsets;  ///< Number: one for all sequences; number_each: one for each.
    bool operator==(const Position&) const = default;
  };
  /// Returns what both say, the one that also counts the sequences if one does; nothing if they may differ.
  static std::optional<Position> common_position(const Position& a, const Position& b);

  bool causal_ = false;
  Window window_;
  std::optional<Position> position_;
  std::vector<Index> kv_lengths_;  ///< Empty: no such part.
  std::vector<MaskMatrix> matrices_;
  std::vector<double> slopes_;

  friend Mask causal();
  friend Mask window(Index left, Index right);
  friend Mask top_left();
  friend Mask bottom_right();
  friend Mask query_offset(Index offset);
  friend Mask query_offsets(std::vector<Index> offsets);
  friend Mask kv_lengths(std::vector<Index> lengths);
  friend Mask alibi(std::vector<double> slopes);
  friend Mask mask_matrix(const MaskMatrix& matrix);
};

HEED_EXPORT Mask operator&(const Mask& a, const Mask& b);

/// Lets query i see key j iff j <= p(i) (Vaswani et al. 2017, section 3.2.3). With as many queries as keys
/// p(i) is i; else say where the queries stand, with top_left(), bottom_right() or query_offset().
HEED_EXPORT Mask causal();

/// Lets query i see key j iff p(i) - left <= j <= p(i) + right (Beltagy et al. 2020, "Longformer"): keys
/// outside cost nothing. A side may be `kUnlimited`. Throws ArgumentError if one is negative.
HEED_EXPORT Mask window(Index left, Index right);

/// Puts the first query at the first key: query_offset(0).
HEED_EXPORT Mask top_left();

/// Puts the last query at the last key that exists: query_offset(kv_length - query_len) for each sequence.
/// What decoding against a cache wants.
HEED_EXPORT Mask bottom_right();

/// Puts the first query at key `offset`, which may be negative, and beyond the last key.
HEED_EXPORT Mask query_offset(Index offset);

/// Puts the first query of sequence b at key offsets[b], a number for each sequence of the batch.
HEED_EXPORT Mask query_offsets(std::vector<Index> offsets);

/// Says that only the first lengths[b] keys of sequence b exist; the rest is padding, whatever it holds: it
/// is never read.
HEED_EXPORT Mask kv_lengths(std::vector<Index> lengths);

/// Subtracts slope[head] * |p(i) - j| from the scores (Press et al. 2022, "Train Short, Test Long"), a slope
/// for each head.
HEED_EXPORT Mask alibi(std::vector<double> slopes);

/// Returns the slopes of the paper: 2^(-8 h / n) for h = 1 ... n, with the paper's own rule where the number
/// of heads n is no power of two. Throws ArgumentError unless num_heads is at least 1.
HEED_EXPORT std::vector<double> alibi_slopes(Index num_heads);

/// Makes a mask of one matrix; bias(), keep_where() and drop_where() make it from an Eigen matrix.
HEED_EXPORT Mask mask_matrix(const MaskMatrix& matrix);

/// Adds a bias to the scores; -inf hides a key (it is skipped, whatever it holds). The matrix has kv_len
/// columns, and the rows that MaskRows says. It is looked at when attention runs, and must live until then. A
/// matrix of 0 and 1 is not a mask: as a bias it shifts scores by 1. additive_mask() refuses it.
template <class T>
Mask bias(MatrixView<const T> view, MaskRows per = MaskRows::nothing) {
  return mask_matrix({MaskMatrix::Kind::bias, per, scalar_type<T>(), untyped(view)});
}

/// Lets query i see key j only where the matrix is true. Size, blocks and life are as for bias().
inline Mask keep_where(MatrixView<const bool> view, MaskRows per = MaskRows::nothing) {
  return mask_matrix({MaskMatrix::Kind::keep, per, scalar_type<bool>(), untyped(view)});
}

/// Lets query i see key j only where the matrix is false. Size, blocks and life are as for bias().
inline Mask drop_where(MatrixView<const bool> view, MaskRows per = MaskRows::nothing) {
  return mask_matrix({MaskMatrix::Kind::drop, per, scalar_type<bool>(), untyped(view)});
}

}  // namespace heed
