#pragma once

// Any C++ callable inside the attention kernel, inlined into loops over tiles (as FlexAttention does for
// GPUs: Dong et al. 2024): a function of each score, and a predicate of who sees whom.
//
//   auto out = heed::flex_attention(
//       query, key, value,
//       [](float score, Index batch, Index head, Index query, Index key) { return score - 0.1f * (query -
//       key); }, heed::visible_where([](Index batch, Index head, Index query, Index key) { return key <=
//       query; }));
//
// query and key are positions: query i of a sequence stands at p(i) = i + query offset, as mask.hpp says.

#include "heed/core/config.hpp"

#include <algorithm>
#include <concepts>
#include <type_traits>

#include "heed/attention/scaled_dot_product_attention.hpp"
#include "heed/core/kept_exception.hpp"

namespace heed {

/// Leaves every score as it is.
struct KeepScore {
  template <class Scalar>
  Scalar operator()(Scalar score, Index, Index, Index, Index) const {
    return score;
  }
};

/// Hides nothing.
struct SeesAll {};

/// A predicate (batch, head, query position, key position) -> bool, and perhaps a coarse one that says for
/// whole tiles whether anything in them may be visible.
template <class Predicate, class MaySee = SeesAll>
struct VisibleWhere {
  Predicate predicate;
  MaySee may_see;  ///< (batch, head, first query, last query, first key, last key) -> bool, ends included.
};

/// Makes a predicate of visibility. A tile in which it lets no row see anything costs nothing else.
template <class Predicate>
VisibleWhere<Predicate> visible_where(Predicate predicate) {
  return {predicate, {}};
}

/// Makes a predicate of visibility with one for whole tiles. A tile for which may_see is false is skipped
/// without asking the predicate.
template <class Predicate, class MaySee>
VisibleWhere<Predicate, MaySee> visible_where(Predicate predicate, MaySee may_see) {
  return {predicate, may_see};
}

namespace detail {

/// The caller's callables behind plain functions. The first exception is kept, what follows it is not
/// computed.
template <class T, class Score, class Visible>
class FunctorFunctions {
 public:
  FunctorFunctions(const Score& score, const Visible& visible) : score_(score), visible_(visible) {}

  ScoreFunctions<T> functions() const {
    ScoreFunctions<T> functions;
    if constexpr (!std::is_same_v<Score, KeepScore>) functions.score = &score_tile;
    if constexpr (!std::is_same_v<Visible, SeesAll>) functions.hide = &hide_tile;
    functions.context = this;
    return functions;
  }

  void rethrow() const { kept_.rethrow(); }

 private:
  static void score_tile(const void* context, const ScoreTile<T>& tile) noexcept {
    const auto& self = *static_cast<const FunctorFunctions*>(context);
    self.kept_.guard([&] {
      for (Index r = 0; r < tile.rows; ++r) {
        T* const scores = tile.scores + r * tile.score_step;
        const Index head = tile.head_of(r);
        const Index query = tile.position_of(r);
        for (Index j = 0; j < tile.keys; ++j)
          scores[j] = self.score_(scores[j], tile.sequence, head, query, tile.first_key + j);
      }
    });
  }

  static void hide_tile(const void* context, const ScoreTile<T>& tile) noexcept {
    const auto& self = *static_cast<const FunctorFunctions*>(context);
    if constexpr (!std::is_same_v<Visible, SeesAll>) {
      self.kept_.guard([&] {
        // The rows of one head lie `heads` apart.
        for (Index first = 0; first < (std::min)(tile.rows, tile.heads); ++first) {
          const Index last = first + (tile.rows - 1 - first) / tile.heads * tile.heads;
          const bool any =
              self.may_see(tile, tile.head_of(first), tile.position_of(first), tile.position_of(last));
          for (Index r = first; r < tile.rows; r += tile.heads) self.hide_row(tile, r, any);
        }
      });
    }
  }

  bool may_see(const ScoreTile<T>& tile, Index head, Index first_query, Index last_query) const {
    if constexpr (std::is_same_v<decltype(visible_.may_see), SeesAll>) {
      return true;
    } else {
      return visible_.may_see(tile.sequence, head, first_query, last_query, tile.first_key,
                              tile.first_key + tile.keys - 1);
    }
  }

  void hide_row(const ScoreTile<T>& tile, Index r, bool any) const {
    bool* const visible = tile.visible + r * tile.visible_step;
    const Index head = tile.head_of(r);
    const Index query = tile.position_of(r);
    for (Index j = 0; j < tile.keys; ++j)
      visible[j] = any && visible[j] && visible_.predicate(tile.sequence, head, query, tile.first_key + j);
  }

  const Score& score_;
  const Visible& visible_;
  mutable KeptException kept_;
};

}  // namespace detail

/// Returns scaled_dot_product_attention() with score = score(score, batch, head, query position, key
/// position) after scale, softcap, bias and slopes, and with a predicate of visibility beside the mask. score
/// may also be KeepScore{}; a score of -inf hides the key, as a bias of -inf does. Both are called from the
/// executor's threads if there is one, score also for keys that are hidden. What they throw is thrown on, out
/// is then of no use. Throws ShapeError if lengths differ and the mask does not say where the queries stand.
/// Other errors, memory and threads are as for scaled_dot_product_attention().
template <class Q, class K, class V, class Score, class Visible = SeesAll>
Matrix<typename Q::Scalar> flex_attention(const Eigen::DenseBase<Q>& query, const Eigen::DenseBase<K>& key,
                                          const Eigen::DenseBase<V>& value, const Score& score,
                                          const Visible& visible = {}, const AttentionOptions& options = {}) {
  using Scalar = typename Q::Scalar;
  static_assert(std::is_invocable_r_v<Scalar, Score, Scalar, Index, Index, Index, Index>,
                "score is called as score(score, batch, head, query position, key position)");
  AttentionTensors<Scalar> tensors = detail::input_tensors(query, key, value);
  const detail::FunctorFunctions<Scalar, Score, Visible> functions(score, visible);
  const AttentionShape shape = detail::checked_shape(tensors, options, functions.functions().any());
  Matrix<Scalar> out(query.rows(), shape.num_heads * shape.value_dim);
  tensors.out = mutable_view(out);
  detail::run_attention(shape, options, tensors, functions.functions());
  functions.rethrow();
  return out;
}

}  // namespace heed
