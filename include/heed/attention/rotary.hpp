#pragma once

// Rotary positions (Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding"): pairs
// of elements of each query and key are turned by an angle that grows with the position, so that a score
// depends on the distance between the two alone.
//
//   const heed::Rotary rotary(head_dim, 4096);
//   Eigen::MatrixXf out = heed::scaled_dot_product_attention(q, k, v, {.mask = heed::causal(), .rotary =
//   rotary});

#include "heed/core/config.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/core/view.hpp"

namespace heed {

/// Which elements of a head make a pair, n being the rotary width.
enum class RotaryLayout {
  half_split,   ///< (i, i + n/2): GPT-NeoX, Hugging Face's Llama.
  interleaved,  ///< (2i, 2i + 1): the paper, GPT-J, Meta's Llama.
};

/// The rule by which Llama 3.1 stretches its context: slow rotations are slowed down by `factor`, fast ones
/// stay, and those between are blended. Wavelengths are counted in positions.
struct Llama3Scaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  Index original_context = 8192;
};

/// Which elements make pairs, and by which angles they are turned.
struct RotaryOptions {
  RotaryLayout layout = RotaryLayout::half_split;
  double base = 10000;       ///< Pair i turns by base^(-2i / n) for each position.
  Index offset = 0;          ///< Added to every position.
  double linear_factor = 1;  ///< Positions are divided by it (Chen et al. 2023, "position interpolation").
  std::optional<Llama3Scaling> llama3 = std::nullopt;
};

/// The angles of a model, for positions 0 ... max_positions - 1, and for queries before the first key the
/// same angles the other way: -(max_positions - 1) ... -1. A value: copies share their tables.
class HEED_EXPORT Rotary {
 public:
  /// Turns the first rotary_dim elements of each head; the others stay. Throws ArgumentError unless
  /// rotary_dim is even and positive, max_positions not negative, and the options are finite and positive, or
  /// if the machine has no memory for a table of them. Memory: max_positions * rotary_dim numbers, for each
  /// scalar type that is used, and twice as many more if a query stands before the first key.
  Rotary(Index rotary_dim, Index max_positions, const RotaryOptions& options = {});

  Index rotary_dim() const noexcept;
  Index max_positions() const noexcept;
  RotaryLayout layout() const noexcept;

  /// Returns the angle of pair i at a position, in radians: (position + offset) / linear_factor times its
  /// frequency.
  double angle(Index position, Index pair) const noexcept;

  /// Returns, row by row for each position, the cosines of all pairs, then their sines. Points to the row of
  /// position 0; with before_first_key, the rows of -(max_positions - 1) ... -1 lie before it. T is float or
  /// double. Made at the first call; thread-safe.
  template <class T>
  const T* table(bool before_first_key = false) const;

  /// Returns words for people: "rotary(64 of each head, half split, base 10000)".
  std::string to_string() const;

 private:
  struct HEED_NO_EXPORT Tables;
  std::shared_ptr<Tables> tables_;
};

}  // namespace heed
