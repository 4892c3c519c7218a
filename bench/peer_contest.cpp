#include "peer_contest.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <string>

#include "bandwidth.hpp"
#include "checks.hpp"
#include "contest.hpp"
#include "figures.hpp"
#include "problem.hpp"

namespace heed::bench {

namespace {

std::vector<float> heads_first(const Matrix<float>& m, long batch, long length, long heads, long dim) {
  return swap_middle(m.data(), batch, length, heads, dim);
}

/// The data of a cell as peers want it, the same numbers that Heed gets.
class PeerProblem {
 public:
  explicit PeerProblem(const Cell& cell) : cell_(cell), problem_(cell) {
    if (!is_attention()) return;
    query_ = heads_first(problem_.query(), cell.batch, cell.query_len, cell.heads, cell.head_dim);
    key_ = heads_first(problem_.key(), cell.batch, cell.kv_len, cell.kv_heads, cell.head_dim);
    value_ = heads_first(problem_.value(), cell.batch, cell.kv_len, cell.kv_heads, cell.value_dim);
    if (cell.gradients)
      grad_out_ = heads_first(problem_.grad_out(), cell.batch, cell.query_len, cell.heads, cell.value_dim);
  }

  std::vector<Way> ways(const Peer& peer) const {
    const Cell& c = cell_;
    if (c.cols > 0) {
      if (peer.product == nullptr) return {};
      return peer.product(
          {c.query_len, c.depth, c.cols, c.threads, problem_.x().data(), problem_.w().data()});
    }
    if (c.d_model > 0) {
      if (peer.layer == nullptr) return {};
      const MultiHeadAttention<float>& layer = problem_.layer();
      return peer.layer({c.batch, c.query_len, c.d_model, c.heads, c.causal, c.threads, problem_.x().data(),
                         layer.w_q.data(), layer.w_k.data(), layer.w_v.data(), layer.w_o.data()});
    }
    AttentionProblem attention = {c.batch,  c.heads,   c.kv_heads,    c.query_len, c.kv_len,     c.head_dim,
                                  c.causal, c.threads, query_.data(), key_.data(), value_.data()};
    if (c.gradients) {
      if (peer.gradients == nullptr) return {};
      return peer.gradients({attention, grad_out_.data()});
    }
    if (peer.attention == nullptr) return {};
    std::vector<Way> ways = peer.attention(attention);
    if (c.heads != c.kv_heads && c.query_len == 1 && !c.causal) {
      // One query for each of several heads with the same keys is the same, in memory too, as several queries
      // of one head. A library that does not use this by itself can be called that way.
      attention.query_len = c.heads / c.kv_heads;
      attention.heads = c.kv_heads;
      for (Way& way : peer.attention(attention)) {
        ways.push_back({way.name + ", heads of a group as queries", std::move(way.prepare)});
      }
    }
    return ways;
  }

  /// What Heed computes, in the order of Call::result().
  std::vector<float> expected() {
    problem_.run(Contender::heed);
    const Matrix<float>& out = problem_.out();
    if (cell_.gradients) {
      std::vector<float> all;
      for (Index part = 0; part < 3; ++part) {  // as many heads of keys as of queries
        const Matrix<float> grad = out.middleCols(part * problem_.query().cols(), problem_.query().cols());
        const std::vector<float> own =
            heads_first(grad, cell_.batch, cell_.query_len, cell_.heads, cell_.head_dim);
        all.insert(all.end(), own.begin(), own.end());
      }
      return all;
    }
    if (is_attention()) return heads_first(out, cell_.batch, cell_.query_len, cell_.heads, cell_.value_dim);
    return {out.data(), out.data() + out.size()};
  }

 private:
  bool is_attention() const { return cell_.cols == 0 && cell_.d_model == 0; }

  Cell cell_;
  Problem<float> problem_;
  std::vector<float> query_, key_, value_, grad_out_;
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

/// The shortest of a few runs; of one, if it takes long.
double seconds_of(Call& call) {
  double shortest = std::numeric_limits<double>::infinity();
  double sum = 0;
  for (int i = 0; i < 20 && sum < 0.5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call.run();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    shortest = std::min(shortest, seconds);
    sum += seconds;
  }
  return shortest;
}

struct Choice {
  Contestant contestant;
  std::size_t way = 0;
};

/// The fastest of the ways whose result is right.
Choice choose(const Peer& peer, const std::vector<Way>& ways, const std::vector<float>& expected) {
  Choice best;
  best.contestant.name = peer.name;
  best.contestant.version = peer.version;
  best.contestant.failure = "none of its functions fits";
  double min_seconds = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const auto fail = [&](const std::string& reason) {
      if (std::isinf(min_seconds)) best.contestant.failure = ways[i].name + ": " + reason;
    };
    try {
      const std::unique_ptr<Call> call = ways[i].prepare();
      call->run();
      const double error = largest_difference(call->result(), expected);
      if (!(error <= static_cast<double>(largest_error<float>))) {
        fail("its result differs from Heed's by " + format("%.1e", error));
        continue;
      }
      const double seconds = ways.size() > 1 ? seconds_of(*call) : 0;
      if (seconds >= min_seconds) continue;
      min_seconds = seconds;
      best.way = i;
      best.contestant.way = ways[i].name;
      best.contestant.max_error = error;
      best.contestant.failure.clear();
    } catch (const std::exception& error) {
      const std::string words = error.what();
      fail(words.substr(0, words.find('\n')));  // some add where they were called from
    }
  }
  return best;
}

void time(benchmark::State& state, const Cell& cell, const Peer& peer, std::size_t way) {
  show_progress("measuring " + cell.name);
  const PeerProblem problem(cell);
  // Made for this sample and gone after it: nobody's idle threads spin while another one is measured.
  const std::unique_ptr<Call> call = problem.ways(peer)[way].prepare();
  call->run();  // touches all memory and fills the caches
  for (auto _ : state) {
    call->run();
    benchmark::ClobberMemory();
  }
  state.counters["peak_gflops"] = peak_gflops<float>(cell.threads);
  if (cell.bytes > 0) state.counters["read_gbytes"] = read_gbytes(cell.threads);
}

}  // namespace

void enter_peers(Cell& cell, const std::vector<Peer>& peers) {
  PeerProblem problem(cell);
  const std::vector<float> expected = problem.expected();
  for (const Peer& peer : peers) {
    const std::vector<Way> ways = problem.ways(peer);
    if (ways.empty()) continue;
    show_progress("checking " + cell.name + " of " + peer.name);
    const Choice choice = choose(peer, ways, expected);
    cell.contestants.push_back(choice.contestant);
    if (!choice.contestant.failure.empty()) continue;
    benchmark::RegisterBenchmark((cell.name + "/" + peer.name).c_str(), [cell, peer, way = choice.way](
                                                                            benchmark::State& state) {
      time(state, cell, peer, way);
    })->UseRealTime();
  }
}

}  // namespace heed::bench
