// KvCache: the memory of keys and values in tiles, appending, rings, and which attention a query against a
// cache is.

#include "heed/attention/kv_cache.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "attention/blocks.hpp"
#include "core/require.hpp"
#include "heed/core/memory.hpp"
#include "kernels/kernels.hpp"
#include "kernels/strided_view.hpp"

namespace heed {

using detail::count_of;

namespace {

kernels::Storage kernel_storage(KvStorage storage) {
  switch (storage) {
    case KvStorage::bfloat16:
      return kernels::Storage::bfloat16;
    case KvStorage::float16:
      return kernels::Storage::float16;
    case KvStorage::same:
      break;
  }
  return kernels::Storage::same;
}

/// In a ring the newest and the oldest tile are both there in part.
Index tiles_of(const KvCacheOptions& shape, Index key_tile) {
  return (shape.capacity + key_tile - 1) / key_tile + (shape.ring ? 1 : 0);
}

}  // namespace

template <class T>
std::uint64_t KvCache<T>::bytes_of(const KvCacheOptions& shape) {
  detail::require_not_negative(shape.batch_size, "batch_size");
  detail::require_positive(shape.num_kv_heads, "num_kv_heads");
  detail::require_positive(shape.head_dim, "head_dim");
  detail::require_positive(shape.value_dim, "value_dim");
  detail::require_not_negative(shape.capacity, "capacity");
  for (const auto& [size, name] : {std::pair{shape.batch_size, "batch_size"},
                                   {shape.num_kv_heads, "num_kv_heads"},
                                   {shape.head_dim, "head_dim"},
                                   {shape.value_dim, "value_dim"},
                                   {shape.capacity, "capacity"}}) {
    detail::require_possible(size, name);
  }
  if (sizeof(T) != sizeof(float) && shape.storage != KvStorage::same)
    throw_argument_error("a cache of double stores double: 16-bit storage is for float");
  if (shape.ring && shape.capacity == 0) throw_shape_error("capacity is 0, a ring needs at least 1");
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  const kernels::Storage storage = kernel_storage(shape.storage);
  const std::uint64_t tile = kernels.cached_key_bytes(shape.head_dim, storage) +
                             kernels.cached_value_bytes(shape.value_dim, storage);
  return detail::times_bytes(detail::matrix_bytes(tile, shape.batch_size, shape.num_kv_heads),
                             static_cast<std::uint64_t>(tiles_of(shape, kernels.key_tile)));
}

template <class T>
KvCache<T>::KvCache(const KvCacheOptions& shape) : shape_(shape) {
  const std::uint64_t bytes = bytes_of(shape);
  detail::require_memory(bytes, [&] {
    return "a cache of " + count_of(shape.batch_size, "sequence") + " with " +
           count_of(shape.capacity, "token") + ", " + count_of(shape.num_kv_heads, "head") + ", head_dim " +
           std::to_string(shape.head_dim) + " and value_dim " + std::to_string(shape.value_dim);
  });
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  const kernels::Storage storage = kernel_storage(shape.storage);
  key_tile_ = kernels.key_tile;
  tiles_ = tiles_of(shape, key_tile_);
  key_tile_bytes_ = kernels.cached_key_bytes(shape.head_dim, storage);
  value_tile_bytes_ = kernels.cached_value_bytes(shape.value_dim, storage);
  const Index tiles = shape.batch_size * shape.num_kv_heads * tiles_;
  values_at_ = static_cast<std::size_t>(tiles) * key_tile_bytes_;
  // What pads the last tile is multiplied by nothing, but it is read.
  if (bytes > 0) std::memset(memory_.reserve(bytes), 0, bytes);
  finite_.assign(static_cast<std::size_t>(tiles), 1);
  scratch_.resize(static_cast<std::size_t>(kernels.cache_scratch(shape.head_dim, shape.value_dim)));
  lengths_.assign(static_cast<std::size_t>(shape.batch_size), 0);
  kept_from_.assign(static_cast<std::size_t>(shape.batch_size), 0);
}

template <class T>
KvCache<T>::KvCache(const KvCache& other) : KvCache(other.shape_) {
  for (Index b = 0; b < shape_.batch_size; ++b) copy_tokens(other, b, b);
}

template <class T>
KvCache<T>& KvCache<T>::operator=(const KvCache& other) {
  if (this != &other) *this = KvCache(other);
  return *this;
}

template <class T>
std::byte* KvCache<T>::keys_of(Index sequence, Index head) const noexcept {
  const Index tile = (sequence * shape_.num_kv_heads + head) * tiles_;
  return static_cast<std::byte*>(memory_.data()) + static_cast<std::size_t>(tile) * key_tile_bytes_;
}

template <class T>
std::byte* KvCache<T>::values_of(Index sequence, Index head) const noexcept {
  const Index tile = (sequence * shape_.num_kv_heads + head) * tiles_;
  return static_cast<std::byte*>(memory_.data()) + values_at_ +
         static_cast<std::size_t>(tile) * value_tile_bytes_;
}

template <class T>
void KvCache<T>::require_sequence(Index sequence) const {
  if (sequence < 0 || sequence >= shape_.batch_size) {
    throw_range_error("sequence " + std::to_string(sequence) + " is wanted, the cache has " +
                      count_of(shape_.batch_size, "sequence"));
  }
}

template <class T>
Index KvCache<T>::kv_len(Index sequence) const {
  require_sequence(sequence);
  return lengths_[static_cast<std::size_t>(sequence)];
}

template <class T>
void KvCache<T>::require_room(Index sequence, Index tokens, const std::optional<Rotary>& rotary) const {
  const Index length = lengths_[static_cast<std::size_t>(sequence)];
  if (!shape_.ring && tokens > shape_.capacity - length) {
    throw_shape_error("the cache is full: sequence " + std::to_string(sequence) + " has " +
                      count_of(length, "token") + ", " + std::to_string(tokens) +
                      " more do not fit into its capacity of " + std::to_string(shape_.capacity));
  }
  if (rotary && rotary->rotary_dim() > shape_.head_dim) {
    throw_shape_error("rotary_dim is " + std::to_string(rotary->rotary_dim()) + ", head_dim is " +
                      std::to_string(shape_.head_dim));
  }
  if (rotary && tokens > rotary->max_positions() - length) {
    throw_shape_error("rotary has angles for the positions 0 to " +
                      std::to_string(rotary->max_positions() - 1) + ", a key of sequence " +
                      std::to_string(sequence) + " would stand at " + std::to_string(length + tokens - 1));
  }
}

template <class T>
void KvCache<T>::require_key_value(const MatrixView<const T>& key, const MatrixView<const T>& value,
                                   Index sequences) const {
  if (key.rows != value.rows) {
    throw_shape_error("key has " + std::to_string(key.rows) + " rows, value has " +
                      std::to_string(value.rows));
  }
  if (sequences == 0 ? key.rows != 0 : key.rows % sequences != 0) {
    throw_shape_error("key has " + std::to_string(key.rows) + " rows, they cannot be split into " +
                      count_of(sequences, "sequence"));
  }
  const auto heads_of = [this](Index dim) {
    return [this, dim] {
      return "a cache of " + count_of(shape_.num_kv_heads, "key/value head") + " of " + std::to_string(dim);
    };
  };
  detail::require_size(untyped(key), "key", key.rows, shape_.num_kv_heads * shape_.head_dim,
                       heads_of(shape_.head_dim));
  detail::require_size(untyped(value), "value", key.rows, shape_.num_kv_heads * shape_.value_dim,
                       heads_of(shape_.value_dim));
}

/// For as many new tokens of every sequence.
template <class T>
void KvCache<T>::require_room(Index tokens, const std::optional<Rotary>& rotary) const {
  for (Index b = 0; b < shape_.batch_size; ++b) require_room(b, tokens, rotary);
}

template <class T>
void KvCache<T>::append(const MatrixView<const T>& key, const MatrixView<const T>& value,
                        const std::optional<Rotary>& rotary) {
  require_key_value(key, value, shape_.batch_size);
  require_room(shape_.batch_size == 0 ? 0 : key.rows / shape_.batch_size, rotary);
  if (rotary) (void)rotary->template table<T>();  // may allocate, so not in the middle
  store(key, value, rotary);
}

template <class T>
void KvCache<T>::append_to(Index sequence, const MatrixView<const T>& key, const MatrixView<const T>& value,
                           const std::optional<Rotary>& rotary) {
  require_sequence(sequence);
  require_key_value(key, value, 1);
  require_room(sequence, key.rows, rotary);
  if (rotary) (void)rotary->template table<T>();
  store(sequence, key, value, rotary);
}

template <class T>
void KvCache<T>::store(const MatrixView<const T>& key, const MatrixView<const T>& value,
                       const std::optional<Rotary>& rotary) noexcept {
  const Index tokens = shape_.batch_size == 0 ? 0 : key.rows / shape_.batch_size;
  for (Index b = 0; b < shape_.batch_size; ++b) {
    store(b, key.block(b * tokens, 0, tokens, key.cols), value.block(b * tokens, 0, tokens, value.cols),
          rotary);
  }
}

template <class T>
void KvCache<T>::store(Index sequence, const MatrixView<const T>& key, const MatrixView<const T>& value,
                       const std::optional<Rotary>& rotary) noexcept {
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  kernels::CacheRows<T> rows{};
  // Of more tokens than a ring holds, the first would only be overwritten.
  const Index skipped = shape_.ring ? std::max<Index>(0, key.rows - tiles_ * key_tile_) : 0;
  rows.first_key = lengths_[static_cast<std::size_t>(sequence)] + skipped;
  rows.num_rows = key.rows - skipped;
  rows.head_dim = shape_.head_dim;
  rows.value_dim = shape_.value_dim;
  rows.num_tiles = tiles_;
  rows.storage = kernel_storage(shape_.storage);
  rows.scratch = scratch_.data();
  if (rotary) {
    rows.rotation = {rotary->template table<T>(), rotary->rotary_dim() / 2,
                     rotary->layout() == RotaryLayout::interleaved, 0};
  }
  for (Index head = 0; head < shape_.num_kv_heads; ++head) {
    rows.key = strided(key.block(skipped, head * shape_.head_dim, rows.num_rows, shape_.head_dim));
    rows.value = strided(value.block(skipped, head * shape_.value_dim, rows.num_rows, shape_.value_dim));
    rows.keys = keys_of(sequence, head);
    rows.values = values_of(sequence, head);
    rows.finite = finite_.data() + (sequence * shape_.num_kv_heads + head) * tiles_;
    kernels.store_in_cache(rows);
  }
  Index& length = lengths_[static_cast<std::size_t>(sequence)];
  length += key.rows;
  // In a ring the newest tile has taken the place of an old one.
  Index& kept_from = kept_from_[static_cast<std::size_t>(sequence)];
  const Index tiles_so_far = (length + key_tile_ - 1) / key_tile_;
  kept_from = std::max(kept_from, (tiles_so_far - tiles_) * key_tile_);
}

template <class T>
void KvCache<T>::truncate(Index sequence, Index length) {
  require_sequence(sequence);
  Index& now = lengths_[static_cast<std::size_t>(sequence)];
  if (length < 0 || length > now) {
    throw_range_error("sequence " + std::to_string(sequence) + " has " + count_of(now, "token") +
                      ", it cannot be truncated to " + std::to_string(length));
  }
  // The tokens before the cut that a window of the whole capacity would see must still be there.
  Index& kept_from = kept_from_[static_cast<std::size_t>(sequence)];
  if (length > 0 && length < now && std::max<Index>(0, length - shape_.capacity) < kept_from) {
    throw_range_error("sequence " + std::to_string(sequence) + " of a ring cannot be truncated to " +
                      count_of(length, "token") + ": those before number " + std::to_string(kept_from) +
                      " are overwritten");
  }
  now = length;
  if (length == 0) kept_from = 0;
}

template <class T>
void KvCache<T>::clear() noexcept {
  std::fill(lengths_.begin(), lengths_.end(), 0);
  std::fill(kept_from_.begin(), kept_from_.end(), 0);
}

template <class T>
void KvCache<T>::copy_tokens(const KvCache& from, Index from_sequence, Index to_sequence) noexcept {
  const Index length = from.lengths_[static_cast<std::size_t>(from_sequence)];
  const auto used = static_cast<std::size_t>(std::min(tiles_, (length + key_tile_ - 1) / key_tile_));
  for (Index head = 0; used > 0 && head < shape_.num_kv_heads; ++head) {
    std::memcpy(keys_of(to_sequence, head), from.keys_of(from_sequence, head), used * key_tile_bytes_);
    std::memcpy(values_of(to_sequence, head), from.values_of(from_sequence, head), used * value_tile_bytes_);
    const auto flags = from.finite_.begin() + (from_sequence * shape_.num_kv_heads + head) * tiles_;
    std::copy(flags, flags + static_cast<Index>(used),
              finite_.begin() + (to_sequence * shape_.num_kv_heads + head) * tiles_);
  }
  lengths_[static_cast<std::size_t>(to_sequence)] = length;
  kept_from_[static_cast<std::size_t>(to_sequence)] =
      from.kept_from_[static_cast<std::size_t>(from_sequence)];
}

template <class T>
void KvCache<T>::copy_sequence(Index from, Index to) {
  require_sequence(from);
  require_sequence(to);
  if (from != to) copy_tokens(*this, from, to);
}

template <class T>
detail::CacheView KvCache<T>::cache_view() const noexcept {
  const auto* memory = static_cast<const std::byte*>(memory_.data());
  return {memory,
          memory + values_at_,
          finite_.data(),
          key_tile_bytes_,
          value_tile_bytes_,
          tiles_,
          static_cast<int>(kernel_storage(shape_.storage))};
}

template <class T>
AttentionShape detail::cached_shape(const MatrixView<const T>& query, const KvCache<T>& cache, Index appended,
                                    AttentionOptions& options) {
  const KvCacheOptions& kept = cache.shape();
  std::vector<Index> lengths = cache.lengths();
  for (Index& length : lengths) length += appended;
  if (options.num_kv_heads && *options.num_kv_heads != kept.num_kv_heads) {
    throw_shape_error("num_kv_heads is " + std::to_string(*options.num_kv_heads) + ", the cache has " +
                      std::to_string(kept.num_kv_heads));
  }
  if (!options.kv_starts.empty())
    throw_argument_error("kv_starts is given, but the lengths of the keys are the cache's");
  if (options.batch_size != 1 && options.batch_size != kept.batch_size) {
    throw_shape_error("batch_size is " + std::to_string(options.batch_size) + ", the cache has " +
                      count_of(kept.batch_size, "sequence"));
  }
  AttentionShape shape;
  shape.batch_size = kept.batch_size;
  shape.num_heads = options.num_heads;
  shape.num_kv_heads = kept.num_kv_heads;
  shape.query_starts = options.query_starts;
  shape.query_len = query_length(query.rows, options.query_starts, kept.batch_size, "query");
  shape.head_dim = per_head(query.cols, options.num_heads, "query");
  shape.value_dim = kept.value_dim;
  if (shape.head_dim != kept.head_dim) {
    throw_shape_error("query has heads of " + std::to_string(shape.head_dim) +
                      " columns, the cache has heads of " + std::to_string(kept.head_dim));
  }
  shape.kv_len = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  const bool alike =
      std::all_of(lengths.begin(), lengths.end(), [&](Index length) { return length == shape.kv_len; });
  if (!alike) options.mask = options.mask & kv_lengths(lengths);
  if (!options.mask.has_position()) options.mask = options.mask & bottom_right();
  if (kept.ring)
    check_attention(shape, options.mask, {}, scalar_type<T>());  // the loop relies on lengths and positions
  for (Index b = 0; kept.ring && b < kept.batch_size; ++b) {
    const Index length = lengths[static_cast<std::size_t>(b)];
    if (length <= kept.capacity) continue;
    const Index first_query = options.mask.query_offset(shape.query_len_of(b), length, b);
    if (options.mask.reach(first_query, 0).first < length - kept.capacity) {
      const Index left = options.mask.window().left;
      throw_shape_error("the ring keeps the last " + std::to_string(kept.capacity) + " of " +
                        count_of(length, "token") + " of sequence " + std::to_string(b) + ", mask " +
                        options.mask.to_string() + " lets its first query see older ones: " +
                        (left == kUnlimited ? "add window(n, 0), where n + " : "window left + ") +
                        "number of queries must not be above the capacity");
    }
  }
  return shape;
}

template class KvCache<float>;
template class KvCache<double>;
template AttentionShape detail::cached_shape(const MatrixView<const float>&, const KvCache<float>&, Index,
                                             AttentionOptions&);
template AttentionShape detail::cached_shape(const MatrixView<const double>&, const KvCache<double>&, Index,
                                             AttentionOptions&);

}  // namespace heed
