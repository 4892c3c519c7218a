#pragma once

// From dot products to scores, and from scores to weights, row by row (contract: order of operations).

#include "kernels/exp.hpp"
#include "kernels/mask_tile.hpp"
#include "kernels/packet.hpp"

namespace heed::kernels::HEED_KERNEL_NAMESPACE {

/// Lanes outside [begin, end), for a packet that starts at key j, become fill.
template <class T>
inline Packet<T> keep_range(const Packet<T>& x, Index j, KeyRange range, T fill) {
  Packet<T> kept = x;
  if (range.end - j < kLanes<T>) kept = keep_first<T>(kept, range.end - j, fill);
  if (j < range.begin) kept = drop_first<T>(kept, range.begin - j, fill);
  return kept;
}

/// The first key of the packet that holds key j.
template <class T>
inline Index packet_floor(Index j) {
  return j / kLanes<T> * kLanes<T>;
}

/// scores = scale * scores; keys outside the range become -inf. Returns the largest.
template <class T>
inline T finish_plain(T* scores, KeyRange range, T scale) {
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  const Packet<T> factor = broadcast<T>(scale);
  Packet<T> largest = broadcast<T>(minus_inf);
  for (Index j = packet_floor<T>(range.begin); j < range.end; j += kLanes<T>) {
    const Packet<T> s = keep_range<T>(packet::pmul(load(scores + j), factor), j, range, minus_inf);
    store(scores + j, s);
    largest = packet::pmax(largest, s);
  }
  return packet::predux_max(largest);
}

/// The steps between a dot product and a score that are not everywhere: softcap, bias, ALiBi. capped:
/// nullptr, or where the scores go as they are after the softcap.
template <class T>
inline void transform(const AttentionBlock<T>& block, Index row, Index first_key, KeyRange range,
                      const T* bias, T* scores, T* capped) {
  const Packet<T> factor = broadcast<T>(block.scale);
  const Packet<T> cap = broadcast<T>(block.softcap);
  const Packet<T> per_cap = broadcast<T>(block.softcap > 0 ? T(1) / block.softcap : T(0));
  const T slope = block.slopes != nullptr ? block.slopes[head_of(block, row)] : T(0);
  const Index distance_of_first = block.first_position + position_of(block, row) - first_key;
  const Packet<T> lane_number = packet::plset<Packet<T>>(T(0));
  for (Index j = packet_floor<T>(range.begin); j < range.end; j += kLanes<T>) {
    Packet<T> s = packet::pmul(load(scores + j), factor);
    if (block.softcap > 0) s = packet::pmul(cap, hyperbolic_tangent<T>(packet::pmul(s, per_cap)));
    if (capped != nullptr) store(capped + j, s);
    if (bias != nullptr) s = packet::padd(s, load(bias + j));
    if (block.slopes != nullptr) {
      const Packet<T> distance =
          packet::pabs(packet::psub(broadcast<T>(static_cast<T>(distance_of_first - j)), lane_number));
      s = packet::psub(s, packet::pmul(broadcast<T>(slope), distance));
    }
    store(scores + j, s);
  }
}

/// Scores of hidden keys become -inf: a select, not a sum, since the score of a hidden key may be NaN.
/// Returns the largest.
template <class T>
inline T hide(T* scores, KeyRange range, const bool* visible) {
  constexpr T minus_inf = -FloatTraits<T>::infinity;
  Packet<T> largest = broadcast<T>(minus_inf);
  for (Index j = packet_floor<T>(range.begin); j < range.end; j += kLanes<T>) {
    Packet<T> s = keep_range<T>(load(scores + j), j, range, minus_inf);
    if (visible != nullptr) s = packet::pselect(lanes_where<T>(visible + j), s, broadcast<T>(minus_inf));
    store(scores + j, s);
    largest = packet::pmax(largest, s);
  }
  return packet::predux_max(largest);
}

/// scores = exp(scores - shift) in all packets that hold keys of the range; returns the sum.
template <class T>
inline T exponentiate(T* scores, KeyRange range, T shift) {
  const Packet<T> offset = broadcast<T>(shift);
  Packet<T> sum = broadcast<T>(T(0));
  for (Index j = packet_floor<T>(range.begin); j < range.end; j += kLanes<T>) {
    const Packet<T> p = exp_nonpositive<T>(packet::psub(load(scores + j), offset));
    store(scores + j, p);
    sum = packet::padd(sum, p);
  }
  return packet::predux(sum);
}

/// Which scores of the range are not -inf: whom a row sees, once hidden keys have that score.
template <class T>
inline void note_seen(const T* scores, KeyRange range, bool* seen) {
  for (Index j = range.begin; j < range.end; ++j) seen[j] = scores[j] != -FloatTraits<T>::infinity;
}

/// scores = exp(scores - shift) / row_sum, and exactly 0 for keys that the row does not see, also where the
/// row itself is NaN.
template <class T>
inline void normalize(T* scores, KeyRange range, const bool* visible, T shift, T row_sum) {
  const Packet<T> offset = broadcast<T>(shift);
  const Packet<T> zero = broadcast<T>(T(0));
  const Packet<T> minus_inf = broadcast<T>(-FloatTraits<T>::infinity);
  for (Index j = packet_floor<T>(range.begin); j < range.end; j += kLanes<T>) {
    const Packet<T> score = load(scores + j);
    Packet<T> p = exp_nonpositive<T>(packet::psub(score, offset));
    p = keep_range<T>(packet::pdiv(p, broadcast<T>(row_sum)), j, range, T(0));
    p = packet::pselect(packet::pcmp_eq(score, minus_inf), zero, p);
    if (visible != nullptr) p = packet::pselect(lanes_where<T>(visible + j), p, zero);
    store(scores + j, p);
  }
}

/// What exp is shifted by: the largest score, or 0 if all scores are -inf, since exp must not see NaN.
template <class T>
inline T shift_of(T row_max) {
  return row_max == -FloatTraits<T>::infinity ? T(0) : row_max;
}

/// Zeros in [from, to) outside the packets that hold keys of the range.
template <class T>
inline void clear_outside(T* scores, KeyRange range, Index from, Index to) {
  const Index begin = range.empty() ? to : packet_floor<T>(range.begin);
  const Index end = range.empty() ? to : round_up(range.end, kLanes<T>);
  for (Index j = from; j < begin; ++j) scores[j] = T(0);
  for (Index j = end; j < to; ++j) scores[j] = T(0);
}

}  // namespace heed::kernels::HEED_KERNEL_NAMESPACE
