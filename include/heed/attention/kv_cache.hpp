#pragma once

// Keys and values of tokens that have been seen, so that the next token costs one row of work instead of all
// (the cache of autoregressive decoding: Pope et al. 2023, section 3.3).
//
//   heed::KvCache<float> cache({.num_kv_heads = 8, .head_dim = 128, .value_dim = 128, .capacity = 4096});
//   cache.append(key, value);                                           // a prompt, or one token
//   out = heed::scaled_dot_product_attention(query, cache, {.mask = heed::causal(), .num_heads = 32});
//
// Queries stand at the last keys unless the mask says otherwise. Results have the same bits as one full pass
// over all tokens, however they were cut into appends (with storage in 16 bits: as a full pass over the
// rounded keys and values).

#include "heed/core/config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention/options.hpp"
#include "heed/core/eigen_concepts.hpp"
#include "heed/core/scalar.hpp"
#include "heed/core/view.hpp"
#include "heed/core/workspace.hpp"

namespace heed {

/// How a cache stores its numbers. The 16-bit kinds halve the memory and what decoding reads of it; sums stay
/// in float.
enum class KvStorage { same, bfloat16, float16 };

/// How large a KvCache is, and how it keeps numbers.
struct KvCacheOptions {
  Index batch_size = 1;
  Index num_kv_heads = 1;
  Index head_dim = 0;
  Index value_dim = 0;
  Index capacity = 0;  ///< Tokens of each sequence.
  KvStorage storage = KvStorage::same;
  /// A ring: a token beyond the capacity takes the place of the oldest one. Attention then needs a mask with
  /// window(left, right), and window left + number of queries <= capacity.
  bool ring = false;

  bool operator==(const KvCacheOptions&) const = default;
};

template <class T>
class MultiHeadAttentionDecodePlan;

/// Float or double. Memory: batch_size * num_kv_heads * capacity * (head_dim + value_dim) numbers, capacity
/// rounded up to whole tiles of the kernel (one more in a ring), all of it taken by the constructor. Not for
/// use by several threads at once while one of them changes it.
template <class T>
class HEED_EXPORT KvCache {
  static_assert(detail::require_kernels<T>());

 public:
  /// Throws ShapeError if a size is negative or a head size below 1, ArgumentError for 16-bit storage of
  /// double, and, before any memory is taken, for more bytes than the machine has.
  explicit KvCache(const KvCacheOptions& shape);
  KvCache(const KvCache& other);  // copies the tokens that are there, not the whole capacity
  KvCache& operator=(const KvCache& other);
  KvCache(KvCache&&) noexcept = default;
  KvCache& operator=(KvCache&&) noexcept = default;

  /// Returns the bytes of keys and values of such a cache, which nothing is taken for; the largest number if
  /// no other holds them. Throws as the constructor does for sizes that make no sense.
  static std::uint64_t bytes_of(const KvCacheOptions& shape);

  const KvCacheOptions& shape() const noexcept { return shape_; }

  /// Returns the number of tokens that a sequence has had, those that a ring has let go included.
  Index kv_len(Index sequence = 0) const;
  const std::vector<Index>& lengths() const noexcept { return lengths_; }

  /// Returns the bytes of keys and values, for the whole capacity.
  std::size_t bytes() const noexcept { return memory_.size(); }

  /// Appends the same number of tokens to every sequence, sequence after sequence in the rows: key is
  /// (batch_size * n) x (num_kv_heads * head_dim), value (batch_size * n) x (num_kv_heads * value_dim). With
  /// a rotary, keys are turned by their positions in the sequence. Throws ShapeError, before anything is
  /// written, if sizes do not fit or a sequence would be longer than the capacity.
  void append(const MatrixView<const T>& key, const MatrixView<const T>& value,
              const std::optional<Rotary>& rotary = std::nullopt);

  /// Appends tokens to one sequence. Sizes and errors are as for append() with a batch of one.
  void append_to(Index sequence, const MatrixView<const T>& key, const MatrixView<const T>& value,
                 const std::optional<Rotary>& rotary = std::nullopt);

  /// Appends tokens of Eigen expressions with memory to every sequence.
  template <detail::EigenMatrix K, detail::EigenMatrix V>
  void append(const K& key, const V& value, const std::optional<Rotary>& rotary = std::nullopt) {
    append(MatrixView<const T>(detail::lasting_view(key)), MatrixView<const T>(detail::lasting_view(value)),
           rotary);
  }
  template <detail::EigenMatrix K, detail::EigenMatrix V>
  void append_to(Index sequence, const K& key, const V& value,
                 const std::optional<Rotary>& rotary = std::nullopt) {
    append_to(sequence, MatrixView<const T>(detail::lasting_view(key)),
              MatrixView<const T>(detail::lasting_view(value)), rotary);
  }

  /// Forgets all tokens of a sequence but the first `length`. Throws RangeError if it has fewer, or if a ring
  /// has let go of one that would be needed.
  void truncate(Index sequence, Index length);

  /// Forgets everything.
  void clear() noexcept;

  /// Returns a copy with all tokens, which then goes its own way.
  KvCache fork() const { return KvCache(*this); }

  /// Makes one sequence the copy of another, as beam search does.
  void copy_sequence(Index from, Index to);

  /// Returns the view by which the engine reads the cache.
  detail::CacheView cache_view() const noexcept;

 private:
  friend class MultiHeadAttentionDecodePlan<T>;

  void require_sequence(Index sequence) const;
  void require_room(Index sequence, Index tokens, const std::optional<Rotary>& rotary) const;
  void require_key_value(const MatrixView<const T>& key, const MatrixView<const T>& value,
                         Index sequences) const;
  void require_room(Index tokens, const std::optional<Rotary>& rotary) const;
  void store(const MatrixView<const T>& key, const MatrixView<const T>& value,
             const std::optional<Rotary>& rotary) noexcept;
  void store(Index sequence, const MatrixView<const T>& key, const MatrixView<const T>& value,
             const std::optional<Rotary>& rotary) noexcept;
  void copy_tokens(const KvCache& from, Index from_sequence, Index to_sequence) noexcept;
  std::byte* keys_of(Index sequence, Index head) const noexcept;
  std::byte* values_of(Index sequence, Index head) const noexcept;

  KvCacheOptions shape_;
  Index tiles_ = 0;  ///< How many tiles each head has.
  Index key_tile_ = 0;
  std::size_t key_tile_bytes_ = 0;
  std::size_t value_tile_bytes_ = 0;
  std::size_t values_at_ = 0;  ///< Where values begin in the memory.
  Workspace memory_;
  std::vector<unsigned char> finite_;  ///< Whether each tile of values is finite.
  std::vector<T> scratch_;
  std::vector<Index> lengths_;
  std::vector<Index> kept_from_;  ///< For each sequence, the first token that no later one has overwritten.
};

extern template class KvCache<float>;
extern template class KvCache<double>;

namespace detail {

/// Returns the shape of the attention of queries against a cache to which each sequence will first have
/// `appended` tokens more. Completes the mask. Throws ShapeError if the cache is a ring that will no longer
/// have a key that a query may see.
template <class T>
HEED_EXPORT AttentionShape cached_shape(const MatrixView<const T>& query, const KvCache<T>& cache,
                                        Index appended, AttentionOptions& options);

extern template AttentionShape cached_shape(const MatrixView<const float>&, const KvCache<float>&, Index,
                                            AttentionOptions&);
extern template AttentionShape cached_shape(const MatrixView<const double>&, const KvCache<double>&, Index,
                                            AttentionOptions&);

}  // namespace detail

}  // namespace heed
