#include "cells.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>

#include "guards.hpp"
#include "heed/multi_head_attention.hpp"
#include "rivals.hpp"

namespace heed::bench {

namespace {

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
    if (cell.d_model > 0) {
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
    out_.resize(cell.batch * cell.query_len, cell.d_model > 0 ? cell.d_model : cell.heads * cell.value_dim);
  }

  const T* out(Contender contender) const {
    return contender == Contender::col_major ? col_out_.data() : out_.data();
  }

  void run(Contender contender) {
    switch (contender) {
      case Contender::heed:
        if (layer_) {
          out_ = layer_->forward(x_, layer_options_);
        } else {
          scaled_dot_product_attention_into(query_, key_, value_, out_, options_);
        }
        break;
      case Contender::naive:
        if (layer_) {
          project([](const auto& a, const auto& b,
                     auto& c) { reference::matrix_product<T>(view(a), view(b), mutable_view(c)); },
                  [this] { naive_attention(heads_); });
        } else {
          naive_attention(out_);
        }
        break;
      case Contender::eigen:
        if (layer_) {
          project(
              [](const auto& a, const auto& b, auto& c) {
                plain_product<T>().run(a.rows(), a.cols(), b.cols(), a.data(), b.data(), c.data());
              },
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
        scaled_dot_product_attention_into(col_query_, col_key_, col_value_, col_out_, options_);
        break;
      case Contender::nothing:
        break;
    }
  }

  /// Largest error of Heed on up to four rows against long double; throws if it is beyond what rounding
  /// explains.
  double check() {
    run(Contender::heed);
    const Matrix<T> out = out_;
    if (layer_) {
      // A layer is compared with the naive loops of its own scalar, in full: it is small enough wherever it
      // is measured.
      run(Contender::naive);
      return require_small((out - out_).cwiseAbs().maxCoeff());
    }
    AttentionShape one{1, 1, 1, 1, cell_.kv_len, cell_.head_dim, cell_.value_dim};
    const Matrix<long double> query = query_.template cast<long double>();
    const Matrix<long double> key = key_.topRows(cell_.kv_len).template cast<long double>();
    const Matrix<long double> value = value_.topRows(cell_.kv_len).template cast<long double>();
    Matrix<long double> exact(1, cell_.value_dim);
    long double worst = 0;
    for (const Index row : {Index{0}, cell_.query_len / 3, cell_.query_len / 2, cell_.query_len - 1}) {
      const Matrix<long double> query_row = query.row(row).leftCols(cell_.head_dim);
      const Matrix<long double> head_key = key.leftCols(cell_.head_dim);
      const Matrix<long double> head_value = value.leftCols(cell_.value_dim);
      AttentionTensors<long double> tensors;
      tensors.query = view(query_row);
      tensors.key = view(head_key);
      tensors.value = view(head_value);
      tensors.out = mutable_view(exact);
      reference::attention(one, cell_.causal ? causal() & query_offset(row) : Mask(), std::nullopt, tensors);
      const Matrix<long double> difference =
          out.row(row).leftCols(cell_.value_dim).template cast<long double>() - exact;
      worst = std::max(worst, difference.cwiseAbs().maxCoeff());
    }
    return require_small(worst);
  }

  /// The other contenders must solve the same problem.
  void check_rival(Contender rival) {
    run(Contender::heed);
    const Matrix<T> out = out_;
    run(rival);
    if (rival == Contender::col_major) {
      if (out != col_out_) throw std::runtime_error(cell_.name + " depends on the storage order");
      return;
    }
    require_small((out - out_).cwiseAbs().maxCoeff());
  }

 private:
  double require_small(long double error) const {
    const long double bound = 100 * static_cast<long double>(std::numeric_limits<T>::epsilon());
    if (!(error <= bound)) {
      throw std::runtime_error(cell_.name + " gives a wrong result: error " +
                               std::to_string(static_cast<double>(error)));
    }
    return static_cast<double>(error);
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
  Matrix<T> x_, query_, key_, value_, heads_, out_;
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> col_query_, col_key_, col_value_, col_out_;
  std::vector<T> scores_;
};

/// Shows a person that watches what is being measured.
void show_progress(const std::string& name) {
  static const bool watched = isatty(STDERR_FILENO) == 1;
  static const auto start = std::chrono::steady_clock::now();
  if (!watched) return;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
  (void)std::fprintf(stderr, "\r\x1b[K%3ld s  measuring %s", static_cast<long>(seconds), name.c_str());
}

template <class T>
void time(benchmark::State& state, const Cell& cell, Contender contender) {
  show_progress(cell.name);
  Problem<T> problem(cell);
  problem.run(contender);  // touches all memory and fills the caches
  for (auto _ : state) {
    problem.run(contender);
    benchmark::DoNotOptimize(problem.out(contender));
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(cell.flops * 1e-9 * static_cast<double>(state.iterations()),
                                                 benchmark::Counter::kIsRate);
  // The peak beside each sample: a shared machine may be slower now than it was a minute ago.
  if (contender == Contender::heed) state.counters["peak_gflops"] = peak_gflops<T>(cell.threads);
}

template <class T>
void register_timing(const std::string& name, const Cell& cell, Contender contender) {
  benchmark::RegisterBenchmark(name.c_str(), [cell, contender](benchmark::State& state) {
    time<T>(state, cell, contender);
  })->UseRealTime();
}

template <class T>
void add(std::vector<Cell>& cells, Cell cell, const std::vector<Contender>& rivals) {
  cell.scalar = sizeof(T) == 4 ? "float" : "double";
  const double scores =
      static_cast<double>(cell.batch * cell.heads * cell.query_len) * static_cast<double>(cell.kv_len);
  cell.flops = 2 * scores * static_cast<double>(cell.head_dim + cell.value_dim) * (cell.causal ? 0.5 : 1.0);
  if (cell.d_model > 0) {
    cell.flops += 8.0 * static_cast<double>(cell.batch * cell.query_len) *
                  static_cast<double>(cell.d_model * cell.d_model);
  }
  cell.name =
      std::string(cell.d_model > 0 ? "mha/" : "attention/") + cell.scalar + "/" +
      (cell.d_model > 0 ? "model" + std::to_string(cell.d_model) : "d" + std::to_string(cell.head_dim)) +
      (cell.causal ? "/causal/n" : "/full/n") + std::to_string(cell.query_len) + "/t" +
      std::to_string(cell.threads);
  Problem<T> problem(cell);
  cell.max_error = problem.check();
  std::vector<Contender> contenders = {Contender::heed};
  for (const Contender rival : rivals) {
    problem.check_rival(rival);
    contenders.push_back(rival);
  }
  for (const Contender contender : contenders) {
    register_timing<T>(cell.name + "/" + name_of(contender), cell, contender);
  }
  cells.push_back(cell);
}

// Above this length the naive loops take seconds for one sample.
constexpr long kLongestNaive = 1024;

template <class T>
void add_attention(std::vector<Cell>& cells, long n, long head_dim, bool causal, int threads) {
  Cell cell;
  cell.threads = threads;
  cell.query_len = cell.kv_len = n;
  cell.head_dim = cell.value_dim = head_dim;
  cell.causal = causal;
  std::vector<Contender> rivals;
  if (threads == 1) rivals.push_back(Contender::eigen);
  if (threads == 1 && n <= kLongestNaive) rivals.push_back(Contender::naive);
  if (threads == 1 && head_dim == 64 && (n == 512 || n == 1024)) rivals.push_back(Contender::col_major);
  add<T>(cells, cell, rivals);
}

template <class T>
void add_layer(std::vector<Cell>& cells, long n, long d_model, long heads, int threads) {
  Cell cell;
  cell.threads = threads;
  cell.heads = cell.kv_heads = heads;
  cell.query_len = cell.kv_len = n;
  cell.head_dim = cell.value_dim = d_model / heads;
  cell.d_model = d_model;
  cell.causal = true;
  add<T>(cells, cell,
         threads == 1 ? std::vector{Contender::eigen, Contender::naive} : std::vector<Contender>{});
}

}  // namespace

void register_guards() {
  Cell cell;
  cell.head_dim = cell.value_dim = 64;
  cell.query_len = cell.kv_len = 4;
  cell.name = kEmptyGuard;
  register_timing<float>(cell.name, cell, Contender::nothing);
  for (const bool causal : {false, true}) {
    for (const long length : {kGuardLength, 2 * kGuardLength}) {
      cell.causal = causal;
      cell.query_len = cell.kv_len = length;
      cell.name = length_guard(causal, length);
      register_timing<float>(cell.name, cell, Contender::heed);
    }
  }
}

std::vector<Cell> register_cells(const Grid& grid) {
  std::vector<Cell> cells;
  const std::vector<long> lengths = grid.quick
                                        ? std::vector<long>{4, 64, 256, 1024}
                                        : std::vector<long>{4, 16, 64, 128, 256, 512, 1024, 2048, 4096};
  for (const bool causal : {false, true}) {
    for (const long n : lengths) add_attention<float>(cells, n, 64, causal, 1);
  }
  for (const bool causal : {false, true}) {
    for (const long n : lengths) {
      if (!grid.quick || n == 1024) add_attention<double>(cells, n, 64, causal, 1);
    }
  }
  if (!grid.quick) {
    for (const bool causal : {false, true}) {
      for (const long n : {512L, 2048L}) add_attention<float>(cells, n, 128, causal, 1);
    }
  }
  if (grid.most_threads > 1) {
    for (const bool causal : {false, true}) {
      for (const long n : grid.quick ? std::vector<long>{1024} : std::vector<long>{512, 1024, 4096}) {
        add_attention<float>(cells, n, 64, causal, 2);
      }
    }
  }
  add_layer<float>(cells, 4, 16, 2, 1);
  add_layer<double>(cells, 4, 16, 2, 1);
  add_layer<float>(cells, 128, 256, 4, 1);
  if (!grid.quick) {
    add_layer<float>(cells, 128, 768, 12, 1);
    add_layer<double>(cells, 128, 768, 12, 1);
    add_layer<float>(cells, 512, 768, 12, 1);
  }
  return cells;
}

}  // namespace heed::bench
