// Mask: its parts, what two masks are together, what a query may see, and the words for it.

#include "heed/attention/mask.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/require.hpp"

namespace heed {

const char* name_of(MaskMatrix::Kind kind) noexcept {
  switch (kind) {
    case MaskMatrix::Kind::keep:
      return "keep_where";
    case MaskMatrix::Kind::drop:
      return "drop_where";
    case MaskMatrix::Kind::bias:
      break;
  }
  return "bias";
}

namespace {

std::string side_text(Index side) {
  return side == kUnlimited ? "unlimited" : std::to_string(side);
}

std::string list_text(const std::vector<Index>& numbers) {
  constexpr std::size_t shown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, numbers.size()); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  if (numbers.size() > shown) text += ", ... " + std::to_string(numbers.size()) + " in all";
  return text;
}

void require_for_each(std::size_t count, const char* what, Index wanted, const char* of) {
  if (static_cast<Index>(count) != wanted) {
    throw_shape_error(std::string(what) + " has " + detail::count_of(static_cast<Index>(count), "number") +
                      ", there are " + std::to_string(wanted) + " " + of);
  }
}

void check_matrix(const MaskMatrix& matrix, const MaskSizes& sizes, ScalarType scalar) {
  const bool is_bias = matrix.kind == MaskMatrix::Kind::bias;
  if (matrix.scalar != (is_bias ? scalar : scalar_type<bool>())) {
    throw_argument_error(
        is_bias ? std::string("bias has another scalar type than query, key and value; cast it first")
                : std::string(name_of(matrix.kind)) + " is no matrix of bool");
  }
  const Index blocks = matrix.blocks(sizes);
  const UntypedView& m = matrix.entries;
  if (m.cols != sizes.kv_len || (m.rows != blocks * sizes.query_len && m.rows != blocks)) {
    std::string why =
        std::to_string(sizes.query_len) + " queries and " + std::to_string(sizes.kv_len) + " keys";
    if (matrix.per_head()) why += " of " + detail::count_of(sizes.num_heads, "head");
    if (matrix.per_sequence()) why += " of " + detail::count_of(sizes.batch_size, "sequence");
    std::string wanted = std::to_string(blocks * sizes.query_len) + " x " + std::to_string(sizes.kv_len);
    if (sizes.query_len != 1) {
      wanted +=
          ", or " + std::to_string(blocks) + " x " + std::to_string(sizes.kv_len) + " for all queries alike";
    }
    throw_shape_error(std::string(name_of(matrix.kind)) + " is " + size_text(m) + ", " + why + " need " +
                      wanted);
  }
  if (m.data == nullptr && m.rows != 0 && m.cols != 0) {
    throw_argument_error(std::string(name_of(matrix.kind)) + " (" + size_text(m) +
                         ") has no memory: its pointer is null");
  }
}

/// The sum, or the end of the type that it lies beyond.
Index saturating_sum(Index a, Index b) {
  constexpr Index most = std::numeric_limits<Index>::max();
  constexpr Index least = std::numeric_limits<Index>::min();
  if (b > 0) return a > most - b ? most : a + b;
  return a < least - b ? least : a + b;
}

}  // namespace

Index MaskMatrix::blocks(const MaskSizes& sizes) const noexcept {
  return (per_head() ? sizes.num_heads : 1) * (per_sequence() ? sizes.batch_size : 1);
}

Index MaskMatrix::block_rows(const MaskSizes& sizes) const noexcept {
  return entries.rows == blocks(sizes) ? 1 : sizes.query_len;
}

Mask causal() {
  Mask mask;
  mask.causal_ = true;
  return mask;
}

Mask window(Index left, Index right) {
  if (left < 0 || right < 0) {
    throw_argument_error("window(" + side_text(left) + ", " + side_text(right) +
                         "): a side is a number of keys, or heed::kUnlimited");
  }
  Mask mask;
  mask.window_ = {left, right};
  return mask;
}

Mask top_left() {
  Mask mask;
  mask.position_ = Mask::Position{Mask::Anchor::top_left, {}};
  return mask;
}

Mask bottom_right() {
  Mask mask;
  mask.position_ = Mask::Position{Mask::Anchor::bottom_right, {}};
  return mask;
}

Mask query_offset(Index offset) {
  Mask mask;
  mask.position_ = Mask::Position{Mask::Anchor::number, {offset}};
  return mask;
}

Mask query_offsets(std::vector<Index> offsets) {
  if (offsets.empty()) throw_argument_error("query_offsets() needs a number for each sequence");
  Mask mask;
  mask.position_ = Mask::Position{Mask::Anchor::number_each, std::move(offsets)};
  return mask;
}

Mask kv_lengths(std::vector<Index> lengths) {
  if (lengths.empty()) throw_argument_error("kv_lengths() needs a number for each sequence");
  Mask mask;
  mask.kv_lengths_ = std::move(lengths);
  return mask;
}

Mask alibi(std::vector<double> slopes) {
  if (slopes.empty()) throw_argument_error("alibi() needs a slope for each head");
  for (const double slope : slopes) {
    if (!std::isfinite(slope))
      throw_argument_error("a slope of alibi() is " + detail::number_text(slope) + ", it must be finite");
  }
  Mask mask;
  mask.slopes_ = std::move(slopes);
  return mask;
}

std::vector<double> alibi_slopes(Index num_heads) {
  if (num_heads < 1)
    throw_argument_error("num_heads is " + std::to_string(num_heads) + ", it must be at least 1");
  detail::require_possible(num_heads, "num_heads");
  Index power = 1;
  while (power * 2 <= num_heads) power *= 2;
  std::vector<double> slopes;
  slopes.reserve(static_cast<std::size_t>(num_heads));
  for (Index h = 1; h <= power; ++h)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(power)));
  // The rest takes every other slope of twice as many heads (the authors' program; not in the paper's text).
  for (Index h = 1; static_cast<Index>(slopes.size()) < num_heads; h += 2)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(h) / static_cast<double>(power)));
  return slopes;
}

Mask mask_matrix(const MaskMatrix& matrix) {
  Mask mask;
  mask.matrices_ = {matrix};
  return mask;
}

std::optional<Mask::Position> Mask::common_position(const Position& a, const Position& b) {
  if (a == b) return a;
  const auto is_at_end = [](const Position& p) { return p.anchor == Anchor::bottom_right; };
  const auto is_list = [](const Position& p) { return p.anchor == Anchor::number_each; };
  if (is_at_end(a) || is_at_end(b) || (is_list(a) && is_list(b))) return std::nullopt;
  const Position& more = is_list(b) ? b : a;
  const Position& one = is_list(b) ? a : b;
  const Index offset = one.anchor == Anchor::top_left ? 0 : one.offsets.front();
  const bool same = more.anchor == Anchor::top_left
                        ? offset == 0
                        : std::all_of(more.offsets.begin(), more.offsets.end(),
                                      [offset](Index other) { return other == offset; });
  return same ? std::optional(more) : std::nullopt;
}

Mask operator&(const Mask& a, const Mask& b) {
  if (!a.slopes_.empty() && !b.slopes_.empty())
    throw_argument_error("a mask holds one alibi(), this one would hold two");
  std::optional<Mask::Position> position = a.position_ ? a.position_ : b.position_;
  if (a.position_ && b.position_) position = Mask::common_position(*a.position_, *b.position_);
  if (a.position_ && !position) {
    throw_argument_error("two different query positions in one mask: " + a.to_string() + " and " +
                         b.to_string());
  }
  if (!a.kv_lengths_.empty() && !b.kv_lengths_.empty() && a.kv_lengths_.size() != b.kv_lengths_.size()) {
    throw_argument_error("two kv_lengths() in one mask, for " + std::to_string(a.kv_lengths_.size()) +
                         " and for " + std::to_string(b.kv_lengths_.size()) + " sequences");
  }
  const Index matrices = static_cast<Index>(a.matrices_.size() + b.matrices_.size());
  if (matrices > Mask::kMaxMatrices) {
    throw_argument_error("a mask holds at most " + std::to_string(Mask::kMaxMatrices) +
                         " matrices, this one would hold " + std::to_string(matrices));
  }
  Mask both = a;
  both.causal_ = a.causal_ || b.causal_;
  both.window_ = {std::min(a.window_.left, b.window_.left), std::min(a.window_.right, b.window_.right)};
  both.position_ = std::move(position);
  if (both.kv_lengths_.empty()) both.kv_lengths_ = b.kv_lengths_;
  for (std::size_t i = 0; i < b.kv_lengths_.size(); ++i)
    both.kv_lengths_[i] = std::min(both.kv_lengths_[i], b.kv_lengths_[i]);
  both.matrices_.insert(both.matrices_.end(), b.matrices_.begin(), b.matrices_.end());
  if (both.slopes_.empty()) both.slopes_ = b.slopes_;
  return both;
}

void Mask::check_sizes(const MaskSizes& sizes, ScalarType scalar) const {
  if (position_ && position_->anchor == Anchor::number_each)
    require_for_each(position_->offsets.size(), "query_offsets", sizes.batch_size, "sequences");
  if (!kv_lengths_.empty()) require_for_each(kv_lengths_.size(), "kv_lengths", sizes.batch_size, "sequences");
  for (Index b = 0; b < static_cast<Index>(kv_lengths_.size()); ++b) check_kv_length(b, sizes.kv_len);
  if (!slopes_.empty()) require_for_each(slopes_.size(), "alibi", sizes.num_heads, "heads");
  for (const MaskMatrix& matrix : matrices_) check_matrix(matrix, sizes, scalar);
}

void Mask::check_kv_length(Index sequence, Index kv_len) const {
  if (kv_lengths_.empty()) return;
  const Index length = kv_lengths_[static_cast<std::size_t>(sequence)];
  if (length >= 0 && length <= kv_len) return;
  throw_shape_error("kv_lengths has " + std::to_string(length) + " for sequence " + std::to_string(sequence) +
                    ", which has " + detail::count_of(kv_len, "key"));
}

Index Mask::kv_length(Index sequence, Index kv_len) const noexcept {
  if (kv_lengths_.empty()) return kv_len;
  return std::clamp<Index>(kv_lengths_[static_cast<std::size_t>(sequence)], 0, kv_len);
}

Index Mask::query_offset(Index query_len, Index kv_len, Index sequence, const char* asking) const {
  if (!position_) {
    const bool matters =
        causal_ || window_.left != kUnlimited || window_.right != kUnlimited || !slopes_.empty();
    if ((matters || asking != nullptr) && query_len != kv_len) {
      throw_shape_error(
          (matters ? to_string() + " mask" : std::string(asking)) + " with " + std::to_string(query_len) +
          " queries and " + std::to_string(kv_len) +
          " keys: say where the queries stand with top_left(), bottom_right() or query_offset(n)");
    }
    return 0;
  }
  switch (position_->anchor) {
    case Anchor::bottom_right:
      return kv_length(sequence, kv_len) - query_len;
    case Anchor::number:
    case Anchor::number_each: {
      const bool each = position_->anchor == Anchor::number_each;
      return position_->offsets[each ? static_cast<std::size_t>(sequence) : 0];
    }
    case Anchor::top_left:
      break;
  }
  return 0;
}

Mask::Reach Mask::reach(Index query_offset, Index query) const noexcept {
  // The offset's sum with a side comes first: where it saturates, no existing key or query brings it back.
  Reach result = {std::numeric_limits<Index>::min(), std::numeric_limits<Index>::max()};
  if (window_.left != kUnlimited)
    result.first = saturating_sum(saturating_sum(query_offset, -window_.left), query);
  const Index right = causal_ ? 0 : window_.right;
  if (right != kUnlimited) result.last = saturating_sum(saturating_sum(query_offset, right), query);
  return result;
}

bool Mask::same_for_all() const noexcept {
  if (!position_) return true;
  return position_->anchor == Anchor::bottom_right ? kv_lengths_.empty()
                                                   : position_->anchor != Anchor::number_each;
}

std::string Mask::to_string() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " & ") + part; };
  if (causal_) add("causal");
  if (window_.left != kUnlimited || window_.right != kUnlimited)
    add("window(" + side_text(window_.left) + ", " + side_text(window_.right) + ")");
  if (position_) {
    switch (position_->anchor) {
      case Anchor::top_left:
        add("top_left");
        break;
      case Anchor::bottom_right:
        add("bottom_right");
        break;
      case Anchor::number:
        add("query_offset(" + list_text(position_->offsets) + ")");
        break;
      case Anchor::number_each:
        add("query_offsets(" + list_text(position_->offsets) + ")");
        break;
    }
  }
  if (!kv_lengths_.empty()) add("kv_lengths(" + list_text(kv_lengths_) + ")");
  for (const MaskMatrix& matrix : matrices_) {
    std::string part = std::string(name_of(matrix.kind)) + "(" + size_text(matrix.entries);
    if (matrix.per_sequence() && matrix.per_head()) part += " per head of a sequence";
    if (matrix.per == MaskRows::head) part += " per head";
    if (matrix.per == MaskRows::sequence) part += " per sequence";
    add(part + ")");
  }
  if (!slopes_.empty()) add("alibi(" + detail::count_of(static_cast<Index>(slopes_.size()), "head") + ")");
  return text.empty() ? "none" : text;
}

}  // namespace heed
