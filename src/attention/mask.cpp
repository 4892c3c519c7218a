#include "heed/mask.hpp"

#include <algorithm>

namespace heed {

Mask causal() noexcept {
  Mask mask;
  mask.causal_ = true;
  return mask;
}

Mask top_left() noexcept {
  Mask mask;
  mask.position_ = Mask::Position{Mask::Anchor::top_left, 0};
  return mask;
}

Mask bottom_right() noexcept {
  Mask mask;
  mask.position_ = Mask::Position{Mask::Anchor::bottom_right, 0};
  return mask;
}

Mask query_offset(Index offset) noexcept {
  Mask mask;
  mask.position_ = Mask::Position{Mask::Anchor::number, offset};
  return mask;
}

Mask operator&(const Mask& a, const Mask& b) {
  if (a.has_bias() && b.has_bias()) {
    throw_argument_error("a mask holds one bias, this one would hold two: add the matrices first");
  }
  if (a.position_ && b.position_ && *a.position_ != *b.position_) {
    throw_argument_error("two different query positions in one mask: " + a.to_string() + " and " +
                         b.to_string());
  }
  Mask both = a;
  both.causal_ = a.causal_ || b.causal_;
  if (!both.position_) both.position_ = b.position_;
  if (b.has_bias()) both.bias_ = b.bias_;
  return both;
}

Index Mask::query_offset(Index query_len, Index kv_len) const {
  if (!position_) {
    if (causal_ && query_len != kv_len) {
      throw_shape_error(
          "causal mask with " + std::to_string(query_len) + " queries and " + std::to_string(kv_len) +
          " keys: say where the queries stand with top_left(), bottom_right() or query_offset(n)");
    }
    return 0;
  }
  switch (position_->anchor) {
    case Anchor::bottom_right:
      return kv_len - query_len;
    case Anchor::number:
      // Beyond these, every query sees all keys or none: clamped, so that later sums cannot overflow.
      return std::clamp(position_->offset, -query_len, kv_len);
    case Anchor::top_left:
      break;
  }
  return 0;
}

void Mask::check_bias(Index query_len, Index kv_len) const {
  if (has_bias() && (bias_.rows != query_len || bias_.cols != kv_len)) {
    throw_shape_error("bias is " + std::to_string(bias_.rows) + " x " + std::to_string(bias_.cols) + ", " +
                      std::to_string(query_len) + " queries and " + std::to_string(kv_len) + " keys need " +
                      std::to_string(query_len) + " x " + std::to_string(kv_len));
  }
}

std::string Mask::to_string() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " & ") + part; };
  if (causal_) add("causal");
  if (position_) {
    switch (position_->anchor) {
      case Anchor::top_left:
        add("top_left");
        break;
      case Anchor::bottom_right:
        add("bottom_right");
        break;
      case Anchor::number:
        add("query_offset(" + std::to_string(position_->offset) + ")");
        break;
    }
  }
  if (has_bias()) add("bias(" + std::to_string(bias_.rows) + " x " + std::to_string(bias_.cols) + ")");
  return text.empty() ? "none" : text;
}

}  // namespace heed
