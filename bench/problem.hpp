#pragma once

// One problem with the data of everyone who solves it.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cells.hpp"
#include "heed/multi_head_attention.hpp"
#include "rivals.hpp"

namespace heed::bench {

template <class T>
Matrix<T> random_matrix(Index rows, Index cols, Random& random, double bound = 1.0) {
  Matrix<T> m(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) m(i, j) = static_cast<T>(random.uniform(-bound, bound));
  }
  return m;
}

/// One problem with everything that its contenders need, so that a timed run allocates only what its user
/// would.
template <class T>
class Problem {
 public:
  explicit Problem(const Cell& cell)
      : cell_(cell), random_(static_cast<std::uint64_t>(cell.query_len + cell.head_dim)) {
    options_.mask = cell.causal ? causal() : Mask();
    options_.num_heads = cell.heads;
    options_.num_kv_heads = cell.kv_heads;
    options_.batch_size = cell.batch;
    if (cell.threads > 1) {
      pool_ = std::make_unique<ThreadPool>(cell.threads);
      options_.executor = pool_.get();
    }
    layer_options_.mask = options_.mask;
    layer_options_.batch_size = cell.batch;
    layer_options_.executor = options_.executor;
    if (cell.cols > 0) {
      x_ = random_matrix<T>(cell.query_len, cell.depth, random_);
      // As the weights of a layer are: the result has the size of its input.
      w_ = random_matrix<T>(cell.depth, cell.cols, random_, std::sqrt(3.0 / static_cast<double>(cell.depth)));
    } else if (cell.d_model > 0) {
      x_ = random_matrix<T>(cell.batch * cell.query_len, cell.d_model, random_);
      layer_ = std::make_unique<MultiHeadAttention<T>>(cell.d_model, cell.heads, random_);
      query_.resize(x_.rows(), cell.d_model);
      key_ = value_ = query_;
      heads_ = query_;
    } else {
      query_ = random_matrix<T>(cell.batch * cell.query_len, cell.heads * cell.head_dim, random_);
      key_ = random_matrix<T>(cell.batch * cell.kv_len, cell.kv_heads * cell.head_dim, random_);
      value_ = random_matrix<T>(cell.batch * cell.kv_len, cell.kv_heads * cell.value_dim, random_);
    }
    out_.resize(cell.batch * cell.query_len, cell.cols > 0      ? cell.cols
                                             : cell.d_model > 0 ? cell.d_model
                                                                : cell.heads * cell.value_dim);
  }

  const Matrix<T>& query() const { return query_; }
  const Matrix<T>& key() const { return key_; }
  const Matrix<T>& value() const { return value_; }
  const Matrix<T>& x() const { return x_; }  // of a layer or a product
  const Matrix<T>& w() const { return w_; }  // of a product
  const MultiHeadAttention<T>& layer() const { return *layer_; }
  const Matrix<T>& out() const { return out_; }

  void run(Contender contender) {
    switch (contender) {
      case Contender::heed:
        if (is_product()) {
          multiply<T>(view(x_), view(w_), mutable_view(out_), options_.executor);
        } else if (layer_) {
          out_ = layer_->forward(x_, layer_options_);
        } else {
          scaled_dot_product_attention_into(query_, key_, value_, out_, options_);
        }
        break;
      case Contender::naive:
        if (is_product()) {
          reference::matrix_product<T>(view(x_), view(w_), mutable_view(out_));
        } else if (layer_) {
          project([](const auto& a, const auto& b,
                     auto& c) { reference::matrix_product<T>(view(a), view(b), mutable_view(c)); },
                  [this] { naive_attention(heads_); });
        } else {
          naive_attention(out_);
        }
        break;
      case Contender::eigen:
        if (is_product()) {
          eigen_product(x_, w_, out_);
        } else if (layer_) {
          project([](const auto& a, const auto& b, auto& c) { eigen_product(a, b, c); },
                  [this] { eigen_attention(heads_); });
        } else {
          eigen_attention(out_);
        }
        break;
    }
  }

  /// Largest error of Heed: against long double on some rows, for a layer against the naive loops in full.
  /// Throws if it is beyond what rounding explains.
  double check() {
    run(Contender::heed);
    const Matrix<T> out = out_;
    if (layer_) {
      // Of its own scalar: a layer is small enough wherever it is measured.
      run(Contender::naive);
      return require_small((out - out_).cwiseAbs().maxCoeff());
    }
    long double worst = 0;
    for (const Index row : {Index{0}, cell_.query_len / 3, cell_.query_len / 2, cell_.query_len - 1}) {
      if (is_product()) {
        const Matrix<long double> exact =
            x_.row(row).template cast<long double>() * w_.template cast<long double>();
        worst = std::max(worst, (out.row(row).template cast<long double>() - exact).cwiseAbs().maxCoeff());
        continue;
      }
      worst = std::max(worst, error_of_row(out, 0, 0, row));
      worst = std::max(worst, error_of_row(out, cell_.batch - 1, cell_.heads - 1, row));
    }
    return require_small(worst);
  }

  /// The other contenders must solve the same problem. Returns how far they are from Heed.
  double check_rival(Contender rival) {
    run(Contender::heed);
    const Matrix<T> out = out_;
    run(rival);
    return require_small((out - out_).cwiseAbs().maxCoeff());
  }

  /// What rounding explains for these inputs.
  static constexpr long double largest_error =
      100 * static_cast<long double>(std::numeric_limits<T>::epsilon());

 private:
  bool is_product() const { return cell_.cols > 0; }

  double require_small(long double error) const {
    if (!(error <= largest_error)) {
      throw std::runtime_error(cell_.name + " gives a wrong result: error " +
                               std::to_string(static_cast<double>(error)));
    }
    return static_cast<double>(error);
  }

  long double error_of_row(const Matrix<T>& out, Index sequence, Index head, Index row) const {
    const Index kv_head = head / (cell_.heads / cell_.kv_heads);
    const auto block = [](const Matrix<T>& m, Index top, Index rows, Index head_index, Index cols) {
      return Matrix<long double>(m.block(top, head_index * cols, rows, cols).template cast<long double>());
    };
    const Matrix<long double> query =
        block(query_, sequence * cell_.query_len + row, 1, head, cell_.head_dim);
    const Matrix<long double> key =
        block(key_, sequence * cell_.kv_len, cell_.kv_len, kv_head, cell_.head_dim);
    const Matrix<long double> value =
        block(value_, sequence * cell_.kv_len, cell_.kv_len, kv_head, cell_.value_dim);
    Matrix<long double> exact(1, cell_.value_dim);
    AttentionTensors<long double> tensors;
    tensors.query = view(query);
    tensors.key = view(key);
    tensors.value = view(value);
    tensors.out = mutable_view(exact);
    reference::attention({1, 1, 1, 1, cell_.kv_len, cell_.head_dim, cell_.value_dim},
                         cell_.causal ? causal() & query_offset(row) : Mask(), std::nullopt, tensors);
    return (block(out, sequence * cell_.query_len + row, 1, head, cell_.value_dim) - exact)
        .cwiseAbs()
        .maxCoeff();
  }

  static void eigen_product(const Matrix<T>& a, const Matrix<T>& b, Matrix<T>& c) {
    plain_product<T>().run(a.rows(), a.cols(), b.cols(), a.data(), b.data(), c.data());
  }

  template <class Product, class Attention>
  void project(Product product, Attention attention) {
    product(x_, layer_->w_q, query_);
    product(x_, layer_->w_k, key_);
    product(x_, layer_->w_v, value_);
    attention();
    product(heads_, layer_->w_o, out_);
  }

  void naive_attention(Matrix<T>& out) {
    AttentionTensors<T> tensors;
    tensors.query = view(query_);
    tensors.key = view(key_);
    tensors.value = view(value_);
    tensors.out = mutable_view(out);
    reference::attention({cell_.batch, cell_.heads, cell_.kv_heads, cell_.query_len, cell_.kv_len,
                          cell_.head_dim, cell_.value_dim},
                         options_.mask, std::nullopt, tensors);
  }

  void eigen_attention(Matrix<T>& out) {
    scores_.resize(static_cast<std::size_t>(cell_.query_len * cell_.kv_len));
    const Index group = cell_.heads / cell_.kv_heads;
    for (Index b = 0; b < cell_.batch; ++b) {
      for (Index h = 0; h < cell_.heads; ++h) {
        const auto at = [](auto& m, Index row, Index col) { return m.data() + row * m.cols() + col; };
        plain_attention<T>().run(cell_.query_len, cell_.kv_len, cell_.head_dim, cell_.value_dim, cell_.causal,
                                 at(query_, b * cell_.query_len, h * cell_.head_dim), query_.cols(),
                                 at(key_, b * cell_.kv_len, h / group * cell_.head_dim), key_.cols(),
                                 at(value_, b * cell_.kv_len, h / group * cell_.value_dim), value_.cols(),
                                 at(out, b * cell_.query_len, h * cell_.value_dim), out.cols(),
                                 scores_.data());
      }
    }
  }

  Cell cell_;
  Random random_;
  AttentionOptions options_;
  LayerOptions layer_options_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<MultiHeadAttention<T>> layer_;
  Matrix<T> x_, w_, query_, key_, value_, heads_, out_;
  std::vector<T> scores_;
};

}  // namespace heed::bench
