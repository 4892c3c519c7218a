#pragma once

// From tokens to vectors, and the gradient of the table.
//
//   heed::TokenEmbedding<float> embedding(vocab_size, 64, random);
//   const heed::Matrix<float> x = embedding.forward(ids);  // a row for each id

#include "heed/core/config.hpp"

#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/random.hpp"
#include "heed/core/scalar.hpp"
#include "heed/layers/parameters.hpp"
#include "heed/layers/weights.hpp"

namespace heed {

/// A table of one vector for each token: row id of `table` is the embedding of token id.
template <class Scalar>
class TokenEmbedding : public ParameterWalk<TokenEmbedding<Scalar>> {
  static_assert(detail::require_number<Scalar>());

 public:
  Matrix<Scalar> table;  ///< vocab_size x d_model.

  /// Fills the table row by row with uniform(-b, b), b = 1 / sqrt(d_model). Throws ShapeError if a size is
  /// below 1.
  TokenEmbedding(Index vocab_size, Index d_model, Random& random) {
    detail::require_sizes_at_least_one(vocab_size, "vocab_size", d_model, "d_model");
    const double bound = 1.0 / std::sqrt(static_cast<double>(d_model));
    table = detail::uniform_matrix<Scalar>(vocab_size, d_model, random, bound);
  }

  explicit TokenEmbedding(Matrix<Scalar> rows) : table(std::move(rows)) {}

  Index vocab_size() const noexcept { return table.rows(); }
  Index d_model() const noexcept { return table.cols(); }

  /// Returns one row for each id: ids.size() x d_model. Throws RangeError, before anything is copied, if an
  /// id is not in the table.
  template <std::integral Id>
  Matrix<Scalar> forward(std::span<const Id> ids) const {
    check_ids(ids);
    Matrix<Scalar> rows(static_cast<Index>(ids.size()), table.cols());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      rows.row(static_cast<Index>(i)) = table.row(static_cast<Index>(ids[i]));
    }
    return rows;
  }

  /// Returns one row for each id of any contiguous container of integers, such as what BpeTokenizer::encode
  /// returns.
  template <class Container>
  requires std::integral<typename Container::value_type> && requires(const Container& c) { std::span{c}; }
  Matrix<Scalar> forward(const Container& ids) const {
    return forward(std::span<const typename Container::value_type>(ids));
  }

  template <std::integral Id>
  Matrix<Scalar> forward(std::initializer_list<Id> ids) const {
    return forward(std::span<const Id>(ids.begin(), ids.size()));
  }

  /// Throws RangeError, naming the id and its place, if one is not in the table.
  template <std::integral Id>
  void check_ids(std::span<const Id> ids) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (std::cmp_less(ids[i], 0) || std::cmp_greater_equal(ids[i], table.rows())) {
        throw_range_error("id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                          " is not in the embedding table, which has " + std::to_string(table.rows()) +
                          " rows");
      }
    }
  }

  /// Adds row i of grad_out to row ids[i] of gradients.table, one after another. Throws RangeError or
  /// ShapeError before anything is written.
  template <std::integral Id, class G>
  void backward(std::span<const Id> ids, const Eigen::DenseBase<G>& grad_out,
                TokenEmbedding& gradients) const {
    check_ids(ids);
    if (grad_out.rows() != static_cast<Index>(ids.size()) || grad_out.cols() != table.cols() ||
        gradients.table.rows() != table.rows() || gradients.table.cols() != table.cols()) {
      throw_shape_error("grad_out is " + size_text(view(grad_out)) + ", gradients.table is " +
                        size_text(view(gradients.table)) + ", " + std::to_string(ids.size()) +
                        " ids of a table of " + size_text(view(table)) + " need others");
    }
    for (std::size_t i = 0; i < ids.size(); ++i)
      gradients.table.row(static_cast<Index>(ids[i])) += grad_out.row(static_cast<Index>(i));
  }

  template <class Container, class G>
  requires std::integral<typename Container::value_type>
  void backward(const Container& ids, const Eigen::DenseBase<G>& grad_out, TokenEmbedding& gradients) const {
    backward(std::span<const typename Container::value_type>(ids), grad_out, gradients);
  }

 private:
  friend class ParameterWalk<TokenEmbedding<Scalar>>;

  template <class Self, class F, class Name>
  static void visit(Self& self, F& f, const Name& prefix) {
    f(prefix + "table", self.table);
  }
};

}  // namespace heed
