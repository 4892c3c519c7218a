#pragma once

// One problem with the data of everyone who solves it.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "cells.hpp"
#include "heed/attention/backward.hpp"
#include "heed/attention/kv_cache.hpp"
#include "heed/layers/multi_head_attention.hpp"
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
/// would: Heed's plans and scratch memory are made here, as are plain Eigen's buffers.
template <class T>
class Problem {
 public:
  using ColMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

  explicit Problem(const Cell& cell)
      : cell_(cell), random_(static_cast<std::uint64_t>(cell.query_len + cell.head_dim)) {
    options_.mask = mask_of(cell);
    for (std::size_t b = 0; b < cell.lengths.size(); ++b) {
      if (b == 0) starts_.push_back(0);
      starts_.push_back(starts_.back() + cell.lengths[b]);
    }
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
      workspace_.reserve(product_workspace_bytes<T>(cell.query_len, cell.depth, cell.cols, cell.threads));
    } else if (cell.d_model > 0) {
      x_ = random_matrix<T>(cell.batch * cell.query_len, cell.d_model, random_);
      layer_ = std::make_unique<MultiHeadAttention<T>>(cell.d_model, cell.heads, random_);
      layer_plan_.emplace(MultiHeadAttentionShape{cell.batch, cell.query_len, cell.d_model, cell.d_model,
                                                  cell.heads, cell.head_dim, cell.value_dim},
                          options_.mask, ScoreOptions{}, cell.threads);
      workspace_.reserve(layer_plan_->workspace_bytes());
      query_.resize(x_.rows(), cell.d_model);
      key_ = value_ = query_;
      heads_ = query_;
    } else {
      plan_.emplace(shape(), options_.mask, ScoreOptions{}, cell.threads);
      workspace_.reserve(plan_->workspace_bytes());
      query_ = random_matrix<T>(shape().query_rows(), cell.heads * cell.head_dim, random_);
      key_ = random_matrix<T>(shape().kv_rows(), cell.kv_heads * cell.head_dim, random_);
      value_ = random_matrix<T>(shape().kv_rows(), cell.kv_heads * cell.value_dim, random_);
      if (cell.gradients) {
        backward_plan_.emplace(shape(), options_.mask, ScoreOptions{}, cell.threads);
        workspace_.reserve(std::max(plan_->workspace_bytes(), backward_plan_->workspace_bytes()));
        grad_out_ = random_matrix<T>(query_.rows(), cell.heads * cell.value_dim, random_);
        heads_.resize(grad_out_.rows(), grad_out_.cols());
        logsumexp_.resize(query_.rows(), cell.heads);
      }
      if (cell.decodes()) {
        KvCacheOptions kept{.batch_size = cell.batch,
                            .num_kv_heads = cell.kv_heads,
                            .head_dim = cell.head_dim,
                            .value_dim = cell.value_dim,
                            .capacity = cell.kv_len};
        cache_.emplace(kept).append(key_, value_);
        kept.storage = KvStorage::bfloat16;
        if constexpr (sizeof(T) == 4) narrow_cache_.emplace(kept).append(key_, value_);
      }
    }
    out_.resize(cell.cols > 0 || cell.d_model > 0 ? x_.rows() : query_.rows(),
                cell.cols > 0      ? cell.cols
                : cell.d_model > 0 ? cell.d_model
                : cell.gradients   ? query_.cols() + key_.cols() + value_.cols()
                                   : cell.heads * cell.value_dim);
  }

  const Cell& cell() const { return cell_; }

  /// What the cell's queries see.
  static Mask mask_of(const Cell& cell) {
    if (cell.window > 0) return causal() & window(cell.window - 1, 0);
    if (cell.kv_length > 0)
      return kv_lengths(std::vector<Index>(static_cast<std::size_t>(cell.batch), cell.kv_length));
    return cell.causal ? causal() : Mask();
  }
  /// The first row of a sequence, and how many it has.
  Index start_of(Index sequence) const { return shape().query_start(sequence); }
  Index length_of(Index sequence) const { return shape().query_len_of(sequence); }
  Index kv_length_of(Index sequence) const { return shape().kv_len_of(sequence); }
  const Matrix<T>& query() const { return query_; }
  const Matrix<T>& key() const { return key_; }
  const Matrix<T>& value() const { return value_; }
  const Matrix<T>& grad_out() const { return grad_out_; }
  const Matrix<T>& x() const { return x_; }  // of a layer or a product
  const Matrix<T>& w() const { return w_; }  // of a product
  const MultiHeadAttention<T>& layer() const { return *layer_; }
  // Of whoever ran last, except col_major; the gradients of query, key and value stand side by side.
  const Matrix<T>& out() const { return out_; }
  const ColMajor& col_out() const { return col_out_; }

  /// No result of an earlier run is left that could be taken for one of the next.
  void forget() {
    out_.setZero();
    col_out_.setZero();
  }

  void run(Contender contender) {
    switch (contender) {
      case Contender::heed:
        if (is_product()) {
          run_product<T>(view(x_), view(w_), mutable_view(out_), workspace_.data(), cell_.threads,
                         options_.executor);
        } else if (layer_) {
          layer_plan_->run({view(x_),
                            view(layer_->w_q),
                            view(layer_->w_k),
                            view(layer_->w_v),
                            view(layer_->w_o),
                            mutable_view(out_),
                            {},
                            {}},
                           workspace_.data(), options_.executor);
        } else if (cache_) {
          decode(*cache_);
        } else if (backward_plan_) {
          plan_->run(forward_tensors(), workspace_.data(), options_.executor);
          backward_plan_->run(backward_tensors(), workspace_.data(), options_.executor);
        } else {
          run_plan();
        }
        break;
      case Contender::matrices:
        run_plan();
        break;
      case Contender::bfloat16:
        decode(*narrow_cache_);
        break;
      case Contender::heed_call:
        if (layer_) {
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
        } else if (backward_plan_) {
          reference::attention(shape(), options_.mask, {}, forward_tensors());
          reference::attention_backward(shape(), options_.mask, {}, backward_tensors());
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
      case Contender::col_major:
        if (col_out_.size() == 0) {
          col_query_ = query_;
          col_key_ = key_;
          col_value_ = value_;
          col_out_.resize(out_.rows(), out_.cols());
        }
        plan_->run(tensors(col_query_, col_key_, col_value_, col_out_), workspace_.data(), options_.executor);
        break;
      case Contender::nothing:
        break;
    }
  }

 private:
  bool is_product() const { return cell_.cols > 0; }

  AttentionShape shape() const {
    return {cell_.batch,    cell_.heads,     cell_.kv_heads, cell_.query_len, cell_.kv_len,
            cell_.head_dim, cell_.value_dim, starts_,        starts_};
  }

  template <class M>
  static AttentionTensors<T> tensors(const M& query, const M& key, const M& value, M& out) {
    AttentionTensors<T> tensors;
    tensors.query = view(query);
    tensors.key = view(key);
    tensors.value = view(value);
    tensors.out = mutable_view(out);
    return tensors;
  }

  void run_plan() { plan_->run(tensors(query_, key_, value_, out_), workspace_.data(), options_.executor); }

  AttentionTensors<T> forward_tensors() {
    AttentionTensors<T> forward = tensors(query_, key_, value_, heads_);
    forward.logsumexp = mutable_view(logsumexp_);
    return forward;
  }

  AttentionBackwardTensors<T> backward_tensors() {
    AttentionBackwardTensors<T> backward =
        detail::backward_tensors(query_, key_, value_, heads_, logsumexp_, grad_out_);
    const MatrixView<T> all = mutable_view(out_);
    backward.grad_query = all.block(0, 0, all.rows, query_.cols());
    backward.grad_key = all.block(0, query_.cols(), all.rows, key_.cols());
    backward.grad_value = all.block(0, query_.cols() + key_.cols(), all.rows, value_.cols());
    return backward;
  }

  void decode(const KvCache<T>& cache) {
    const detail::CacheView tiles = cache.cache_view();
    AttentionTensors<T> tensors;
    tensors.query = view(query_);
    tensors.out = mutable_view(out_);
    tensors.cache = &tiles;
    plan_->run(tensors, workspace_.data(), options_.executor);
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
    reference::attention(shape(), options_.mask, {}, tensors(query_, key_, value_, out));
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
  std::optional<AttentionPlan<T>> plan_;
  std::optional<MultiHeadAttentionPlan<T>> layer_plan_;
  std::optional<AttentionBackwardPlan<T>> backward_plan_;
  std::optional<KvCache<T>> cache_, narrow_cache_;
  Workspace workspace_;
  std::vector<Index> starts_;  // of a ragged batch
  Matrix<T> x_, w_, query_, key_, value_, heads_, out_, grad_out_, logsumexp_;
  ColMajor col_query_, col_key_, col_value_, col_out_;
  std::vector<T> scores_;
};

}  // namespace heed::bench
