#pragma once

// Who may see whom. A mask is a value: parts compose with &, every part must agree for a key to be visible,
// and a mask prints itself. Masks are computed, never stored, unless the caller brings a matrix.
//
//   scaled_dot_product_attention(q, k, v, {.mask = causal()});
//   scaled_dot_product_attention(q, k, v, {.mask = causal() & bottom_right() & bias(slopes)});

#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "heed/error.hpp"
#include "heed/view.hpp"

namespace heed {

class Mask {
 public:
  /// Every query sees every key.
  Mask() = default;

  /// Both masks at once. Throws ArgumentError if both bring a bias, or query positions that differ.
  friend Mask operator&(const Mask& a, const Mask& b);

  bool is_causal() const noexcept { return causal_; }
  bool has_bias() const noexcept { return bias_.scalar != nullptr; }

  /// Position of the first query relative to the first key, for these lengths. Throws ShapeError if the mask
  /// is causal, the lengths differ and nobody said where the queries stand.
  Index query_offset(Index query_len, Index kv_len) const;

  /// Throws ShapeError unless a bias, if there is one, is query_len x kv_len.
  void check_bias(Index query_len, Index kv_len) const;

  /// The bias as a view. Throws ArgumentError if it was made from a matrix of another scalar type.
  template <class T>
  MatrixView<const T> bias_as() const {
    if (!has_bias()) return {};
    if (*bias_.scalar != typeid(T)) {
      throw_argument_error("bias has another scalar type than query, key and value; cast it first");
    }
    return {static_cast<const T*>(bias_.data), bias_.rows, bias_.cols, bias_.row_stride, bias_.col_stride};
  }

  /// For people: "causal & bottom_right & bias(4 x 4)", or "none".
  std::string to_string() const;

 private:
  enum class Anchor { top_left, bottom_right, number };
  struct Position {
    Anchor anchor;
    Index offset;
    bool operator==(const Position&) const = default;
  };
  struct Bias {
    const void* data = nullptr;
    const std::type_info* scalar = nullptr;
    Index rows = 0;
    Index cols = 0;
    Index row_stride = 0;
    Index col_stride = 0;
  };

  bool causal_ = false;
  std::optional<Position> position_;
  Bias bias_;

  friend Mask causal() noexcept;
  friend Mask top_left() noexcept;
  friend Mask bottom_right() noexcept;
  friend Mask query_offset(Index offset) noexcept;
  template <class T>
  friend Mask bias(MatrixView<const T> view) noexcept;
};

Mask operator&(const Mask& a, const Mask& b);

/// Query i sees key j iff j <= p(i), with p(i) = i + query offset (Vaswani et al. 2017, section 3.2.3). With
/// as many queries as keys the offset is 0; else say where the queries stand, with top_left(), bottom_right()
/// or query_offset().
Mask causal() noexcept;

/// The first query stands at the first key: query_offset(0).
Mask top_left() noexcept;

/// The last query stands at the last key: query_offset(kv_len - query_len). What decoding against a cache
/// wants.
Mask bottom_right() noexcept;

/// The first query stands at key `offset`; may be negative, and beyond the last key.
Mask query_offset(Index offset) noexcept;

/// scores += bias, and -inf hides a key (it is skipped, whatever it holds). query_len x kv_len, the same for
/// every head and every sequence. The matrix is looked at when attention runs: it must live until then. A
/// matrix of 0 and 1 is not a mask: as a bias it shifts scores by 1. additive_mask() refuses it.
template <class T>
Mask bias(MatrixView<const T> view) noexcept {
  Mask mask;
  mask.bias_ = {view.data, &typeid(T), view.rows, view.cols, view.row_stride, view.col_stride};
  return mask;
}

/// bias() of any Eigen expression with memory, without a copy.
template <class Matrix>
requires requires(const std::remove_cvref_t<Matrix>& m) {
  typename std::remove_cvref_t<Matrix>::Scalar;
}
Mask bias(Matrix&& matrix) {
  using Plain = std::remove_cvref_t<Matrix>;
  using Scalar = typename Plain::Scalar;
  static_assert(!std::is_integral_v<Scalar>, "a bias is added to scores; a matrix of bool or int is not one");
  static_assert(
      requires(const Plain& m) { m.data(); },
      "this Eigen expression has no memory of its own: call .eval() on it and keep the result");
  static_assert(std::is_lvalue_reference_v<Matrix> || !std::is_same_v<Plain, typename Plain::PlainObject>,
                "this matrix dies before attention runs: keep it in a variable");
  return bias(MatrixView<const Scalar>{matrix.data(), matrix.rows(), matrix.cols(), matrix.rowStride(),
                                       matrix.colStride()});
}

}  // namespace heed
