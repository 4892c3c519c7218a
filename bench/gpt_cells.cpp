#include "gpt_cells.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "bandwidth.hpp"
#include "contest.hpp"
#include "figures.hpp"
#include "heed/core/executor.hpp"
#include "heed/core/version.hpp"
#include "heed/models/generate.hpp"
#include "heed/models/gpt_trainer.hpp"
#include "rivals.hpp"

namespace heed::bench {

namespace {

struct TrainingSizes {
  const char* name;
  Index vocab_size, context, layers, heads, d_model, d_ff, seq_len, batch;
  bool quick;
};
// nanoGPT's setting for a CPU; and the tutorial's model, of which 200 steps are one training.
constexpr TrainingSizes training_cells[] = {{"nanogpt", 65, 64, 4, 4, 128, 512, 64, 12, true},
                                            {"tutorial", 80, 32, 1, 2, 32, 64, 24, 1, true}};

constexpr double kRate = 1e-3;

GptConfig config_of(const TrainingSizes& s) {
  GptConfig config;
  config.vocab_size = s.vocab_size;
  config.context = s.context;
  config.num_layers = s.layers;
  config.num_heads = s.heads;
  config.d_model = s.d_model;
  config.d_ff = s.d_ff;
  return config;
}

std::vector<TokenId> random_tokens(Index count, Index vocab_size, Random& random) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (TokenId& id : ids) id = static_cast<TokenId>(random.random() * static_cast<double>(vocab_size));
  return ids;
}

/// A model and a batch, the same for each scalar and for whoever trains it.
template <class T>
class Training {
 public:
  Training(const TrainingSizes& sizes, int threads, std::uint64_t seed)
      : random_(seed),
        model_(config_of(sizes), random_),
        inputs_(random_tokens(sizes.batch * sizes.seq_len, sizes.vocab_size, random_)),
        targets_(random_tokens(sizes.batch * sizes.seq_len, sizes.vocab_size, random_)) {
    if (threads > 1) pool_ = std::make_unique<ThreadPool>(threads);
    trainer_ = std::make_unique<GptTrainer<T>>(
        model_, GptTrainerOptions{.batch_size = sizes.batch, .seq_len = sizes.seq_len}, pool_.get());
    for (const Parameter<T>& p : trainer_->parameters()) {
      std::vector<float>& values = weights_[p.name];
      for (Index i = 0; i < p.value.rows; ++i) {
        for (Index j = 0; j < p.value.cols; ++j) values.push_back(static_cast<float>(p.value(i, j)));
      }
    }
  }

  double step() { return trainer_->step(inputs_, targets_, kRate).loss; }

  TrainingProblem problem(const TrainingSizes& s, int threads) const {
    return {s.batch,      s.seq_len, s.layers, s.heads,        s.d_model,       s.d_ff,
            s.vocab_size, kRate,     threads,  inputs_.data(), targets_.data(), &weights_};
  }

 private:
  Random random_;
  Gpt<T> model_;
  std::vector<TokenId> inputs_, targets_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<GptTrainer<T>> trainer_;
  std::map<std::string, std::vector<float>> weights_;
};

/// Multiplications and additions of a step: every weight that multiplies does so once forward and twice back,
/// attention has two products forward and five back for each visible score.
double flops_of(const TrainingSizes& s) {
  const double tokens = static_cast<double>(s.batch * s.seq_len);
  const double weights = static_cast<double>(s.layers * (4 * s.d_model * s.d_model + 2 * s.d_model * s.d_ff) +
                                             s.vocab_size * s.d_model);
  const double scores = tokens * static_cast<double>(s.layers * s.seq_len) / 2;
  return 6 * tokens * weights + 7 * 2 * scores * static_cast<double>(s.d_model);
}

Cell cell_of(const TrainingSizes& s, int threads) {
  Cell cell;
  cell.scalar = "float";
  cell.threads = threads;
  cell.batch = s.batch;
  cell.heads = cell.kv_heads = s.heads;
  cell.query_len = cell.kv_len = s.seq_len;
  cell.head_dim = cell.value_dim = s.d_model / s.heads;
  cell.d_model = s.d_model;
  cell.causal = true;
  cell.flops = flops_of(s);
  cell.name = std::string("gpt/train/") + s.name + "/t" + std::to_string(threads);
  return cell;
}

// Steps after which losses are compared: weights have moved by then, and rounding has not grown.
constexpr int kComparedSteps = 20;

/// The losses of three trainings from different weights, relative to each other: the largest difference.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), 1e-3);
    largest = std::isnan(difference) ? difference : std::max(largest, difference);
  }
  return largest;
}
constexpr std::uint64_t kSeeds[] = {1337, 1338, 1339};
constexpr double kLargestDifference = 1e-3;

template <class T>
std::vector<double> losses_of(const TrainingSizes& sizes, int threads) {
  std::vector<double> losses;
  for (const std::uint64_t seed : kSeeds) {
    Training<T> training(sizes, threads, seed);
    for (int i = 0; i < kComparedSteps; ++i) losses.push_back(training.step());
  }
  return losses;
}

void time_training(benchmark::State& state, const TrainingSizes& sizes, int threads) {
  show_progress(std::string("measuring gpt/train/") + sizes.name);
  Training<float> training(sizes, threads, kSeeds[0]);
  training.step();
  for (auto _ : state) {
    double loss = training.step();
    benchmark::DoNotOptimize(loss);
  }
  state.SetItemsProcessed(state.iterations() * sizes.batch * sizes.seq_len);
  state.counters["peak_gflops"] = peak_gflops<float>(threads);
}

/// Float is compared with double, from the same weights on the same batch.
Cell enter_training(const TrainingSizes& sizes, int threads, std::vector<double>& losses) {
  Cell cell = cell_of(sizes, threads);
  show_progress("checking " + cell.name);
  losses = losses_of<float>(sizes, threads);
  cell.max_error = largest_difference(losses_of<double>(sizes, 1), losses);
  if (!(cell.max_error <= kLargestDifference)) {
    throw std::runtime_error(cell.name + " gives a wrong loss: relative error " +
                             format("%.1e", cell.max_error));
  }
  cell.contestants.push_back({name_of(Contender::heed), version(), "", cell.max_error, ""});
  benchmark::RegisterBenchmark(
      (cell.name + "/" + name_of(Contender::heed)).c_str(),
      [sizes, threads](benchmark::State& state) { time_training(state, sizes, threads); })
      ->UseRealTime();
  return cell;
}

void enter_training_peer(Cell& cell, const TrainingSizes& sizes, const Peer& peer,
                         const std::vector<double>& losses) {
  Contestant best{peer.name, peer.version, "", -1, "none of its functions fits"};
  std::size_t best_way = 0;
  double min_seconds = std::numeric_limits<double>::infinity();
  const Training<float> data(sizes, 1, kSeeds[0]);
  const std::size_t ways = peer.training(data.problem(sizes, cell.threads)).size();
  for (std::size_t w = 0; w < ways; ++w) {
    try {
      std::vector<double> own;
      double seconds = 0;
      for (const std::uint64_t seed : kSeeds) {
        const Training<float> same(sizes, 1, seed);
        const Way way = peer.training(same.problem(sizes, cell.threads))[w];
        const std::unique_ptr<Call> call = way.prepare();
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kComparedSteps; ++i) {
          call->run();
          own.push_back(static_cast<double>(call->result().front()));
        }
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        best.way = way.name;
      }
      const double error = largest_difference(losses, own);
      if (!(error <= kLargestDifference))
        throw std::runtime_error("its losses differ from Heed's by " + format("%.1e", error));
      if (seconds >= min_seconds) continue;
      min_seconds = seconds;
      best_way = w;
      best.max_error = error;
      best.failure.clear();
    } catch (const std::exception& error) {
      if (std::isinf(min_seconds)) best.failure = error.what();
    }
  }
  best.way = peer.training(data.problem(sizes, cell.threads))[best_way].name;
  cell.contestants.push_back(best);
  if (!best.failure.empty()) return;
  benchmark::RegisterBenchmark((cell.name + "/" + peer.name).c_str(), [sizes, peer, best_way,
                                                                       threads = cell.threads](
                                                                          benchmark::State& state) {
    show_progress(std::string("measuring gpt/train/") + sizes.name);
    const Training<float> own(sizes, 1, kSeeds[0]);
    const Way way = peer.training(own.problem(sizes, threads))[best_way];
    const std::unique_ptr<Call> call = way.prepare();
    call->run();
    for (auto _ : state) call->run();
    state.SetItemsProcessed(state.iterations() * sizes.batch * sizes.seq_len);
    state.counters["peak_gflops"] = peak_gflops<float>(threads);
  })->UseRealTime();
}

/// The next token of a text of `position` tokens.
class Writing {
 public:
  static constexpr Index position = 1000;

  explicit Writing(Index d_model, Index layers)
      : random_(7), model_(config(d_model, layers), random_), decoder_(model_) {
    ids_ = random_tokens(position + 1, model_.config().vocab_size, random_);
    decoder_.read(std::span(ids_).first(position));
  }

  void step() {
    decoder_.truncate(position);
    decoder_.read(std::span(ids_).last(1));
  }

  /// Against a pass over the whole text: the same bits.
  bool is_right() {
    step();
    return (decoder_.logits().array() == model_.forward(ids_).bottomRows(1).array()).all();
  }

  /// Weights that multiply, and the keys and values of all positions.
  double bytes() const {
    const GptConfig& c = model_.config();
    const double weights = static_cast<double>(num_parameters(model_) - c.context * c.d_model);
    return 4 * (weights + static_cast<double>(2 * c.num_layers * position * c.d_model));
  }
  double flops() const { return bytes() / 2; }

 private:
  static GptConfig config(Index d_model, Index layers) {
    GptConfig config;
    config.vocab_size = 8000;
    config.context = 1024;
    config.num_layers = layers;
    config.num_heads = d_model / 64;
    config.d_model = d_model;
    return config;
  }

  Random random_;
  Gpt<float> model_;
  GptDecoder<float> decoder_;
  std::vector<TokenId> ids_;
};

Cell writing_cell(Index d_model, Index layers) {
  Cell cell;
  cell.scalar = "float";
  cell.heads = cell.kv_heads = d_model / 64;
  cell.query_len = 1;
  cell.kv_len = Writing::position + 1;
  cell.head_dim = cell.value_dim = 64;
  cell.d_model = d_model;
  cell.name = "gpt/write/model" + std::to_string(d_model) + "x" + std::to_string(layers) + "/n" +
              std::to_string(Writing::position) + "/t1";
  return cell;
}

Cell enter_writing(Index d_model, Index layers) {
  Cell cell = writing_cell(d_model, layers);
  show_progress("checking " + cell.name);
  Writing writing(d_model, layers);
  if (!writing.is_right())
    throw std::runtime_error(cell.name + " has other bits than one pass over the text");
  cell.max_error = 0;
  cell.bytes = writing.bytes();
  cell.flops = writing.flops();
  cell.contestants.push_back({name_of(Contender::heed), version(), "", 0, ""});
  benchmark::RegisterBenchmark((cell.name + "/" + name_of(Contender::heed)).c_str(),
                               [cell, d_model, layers](benchmark::State& state) {
                                 show_progress("measuring " + cell.name);
                                 Writing own(d_model, layers);
                                 own.step();
                                 for (auto _ : state) own.step();
                                 state.SetItemsProcessed(state.iterations());
                                 state.counters["peak_gflops"] = peak_gflops<float>(1);
                                 state.counters["read_gbytes"] = read_gbytes(1);
                               })
      ->UseRealTime();
  return cell;
}

}  // namespace

std::vector<Cell> register_gpt_cells(const Grid& grid) {
  std::vector<Cell> cells;
  std::vector<double> losses;
  for (const TrainingSizes& sizes : training_cells) {
    for (const int threads : {1, 2}) {
      if (threads > 1 && (threads > grid.max_threads || grid.quick)) continue;
      if (selects(grid.filter, cell_of(sizes, threads), {}))
        cells.push_back(enter_training(sizes, threads, losses));
    }
  }
  if (!grid.quick && selects(grid.filter, writing_cell(768, 6), {})) cells.push_back(enter_writing(768, 6));
  return cells;
}

std::vector<Cell> register_gpt_peer_cells(const PeerGrid& grid, const std::vector<Peer>& peers) {
  std::vector<Cell> cells;
  for (const TrainingSizes& sizes : training_cells) {
    const Cell planned = cell_of(sizes, grid.threads);
    if (!selects(grid.filter, planned, {}) && !grid.filter.selects(planned.name + "/torch")) continue;
    std::vector<double> losses;
    Cell cell = enter_training(sizes, grid.threads, losses);
    for (const Peer& peer : peers) {
      if (peer.training != nullptr) enter_training_peer(cell, sizes, peer, losses);
    }
    cells.push_back(cell);
  }
  return cells;
}

}  // namespace heed::bench
