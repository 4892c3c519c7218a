#include "contest.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "bandwidth.hpp"
#include "checks.hpp"
#include "heed/core/version.hpp"
#include "machine.hpp"
#include "problem.hpp"

namespace heed::bench {

namespace {

template <class T>
void time(benchmark::State& state, const Cell& cell, Contender contender) {
  show_progress("measuring " + cell.name);
  Problem<T> problem(cell);
  problem.run(contender);  // touches all memory and fills the caches
  for (auto _ : state) {
    problem.run(contender);
    benchmark::DoNotOptimize(contender == Contender::col_major ? problem.col_out().data()
                                                               : problem.out().data());
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(cell.flops * 1e-9 * static_cast<double>(state.iterations()),
                                                 benchmark::Counter::kIsRate);
  // The peak beside each sample: a shared machine may be slower now than it was a minute ago.
  state.counters["peak_gflops"] = peak_gflops<T>(cell.threads);
  if (cell.bytes > 0) state.counters["read_gbytes"] = read_gbytes(cell.threads);
}

/// Pairs of a query and a key that it sees, half of all under a causal mask.
double visible_scores(const Cell& cell) {
  const auto heads = static_cast<double>(cell.heads);
  const double causal_share = cell.causal ? 0.5 : 1.0;
  if (!cell.lengths.empty()) {
    double scores = 0;
    for (const long length : cell.lengths) scores += static_cast<double>(length * length);
    return scores * heads * causal_share;
  }
  const double queries = static_cast<double>(cell.batch * cell.query_len) * heads;
  if (cell.window > 0) return queries * static_cast<double>(cell.window);
  if (cell.kv_length > 0) return queries * static_cast<double>(cell.kv_length);
  return queries * static_cast<double>(cell.kv_len) * causal_share;
}

std::string mask_of(const Cell& cell) {
  if (!cell.lengths.empty()) return "/ragged" + std::to_string(cell.lengths.size());
  if (cell.window > 0) return "/window" + std::to_string(cell.window);
  if (cell.kv_length > 0) return "/kv_length" + std::to_string(cell.kv_length);
  return cell.causal ? "/causal" : cell.decodes() ? "/decode" : "/full";
}

std::string heads_of(const Cell& cell) {
  std::string text;
  if (cell.batch > 1) text += "b" + std::to_string(cell.batch);
  if (cell.heads > 1) text += "h" + std::to_string(cell.heads);
  if (cell.kv_heads != cell.heads) text += "kv" + std::to_string(cell.kv_heads);
  return text;
}

}  // namespace

void show_progress(const std::string& doing) {
  static const bool watched = isatty(STDERR_FILENO) == 1;
  static const auto start = std::chrono::steady_clock::now();
  if (!watched) return;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
  (void)std::fprintf(stderr, "\r\x1b[K%3ld s  %s", static_cast<long>(seconds), doing.c_str());
}

template <class T>
Cell completed(Cell cell) {
  cell.scalar = sizeof(T) == 4 ? "float" : "double";
  const auto rows = static_cast<double>(cell.batch * cell.query_len);
  const std::string threads = "/t" + std::to_string(cell.threads);
  if (cell.cols > 0) {
    cell.flops = 2 * rows * static_cast<double>(cell.depth * cell.cols);
    cell.name = "product/" + cell.scalar + "/" + std::to_string(cell.depth) + "x" +
                std::to_string(cell.cols) + "/n" + std::to_string(cell.query_len) + threads;
    return cell;
  }
  cell.flops = 2 * visible_scores(cell) * static_cast<double>(cell.head_dim + cell.value_dim);
  // Forward has two products for each score, backward five.
  if (cell.gradients) cell.flops *= 3.5;
  if (cell.d_model > 0) cell.flops += 8 * rows * static_cast<double>(cell.d_model * cell.d_model);
  if (cell.decodes()) {
    cell.bytes =
        static_cast<double>(cell.batch * cell.kv_heads * cell.kv_len * (cell.head_dim + cell.value_dim)) *
        sizeof(T);
  }
  cell.name = (cell.d_model > 0 ? "mha/"
               : cell.gradients ? "gradients/"
                                : "attention/") +
              cell.scalar + "/" +
              (cell.d_model > 0 ? "model" + std::to_string(cell.d_model)
                                : heads_of(cell) + "d" + std::to_string(cell.head_dim)) +
              mask_of(cell) + "/n" + std::to_string(cell.kv_len) + threads;
  return cell;
}

template <class T>
void register_timing(const std::string& name, const Cell& cell, Contender contender) {
  benchmark::RegisterBenchmark(name.c_str(), [cell, contender](benchmark::State& state) {
    time<T>(state, cell, contender);
  })->UseRealTime();
}

bool selects(const Filter& filter, const Cell& cell, const std::vector<Contender>& rivals) {
  const auto selected = [&](Contender contender) {
    return filter.selects(cell.name + "/" + name_of(contender));
  };
  return selected(Contender::heed) || std::any_of(rivals.begin(), rivals.end(), selected);
}

template <class T>
void enter(Cell& cell, const std::vector<Contender>& rivals) {
  show_progress("checking " + cell.name);
  Problem<T> problem(cell);
  cell.max_error = check_heed(problem);
  cell.contestants.push_back({name_of(Contender::heed), version(), "", cell.max_error, ""});
  for (const Contender rival : rivals) {
    const double error = check_rival(problem, rival);
    cell.contestants.push_back(
        {name_of(rival), rival == Contender::eigen ? eigen_version() : "", "", error, ""});
  }
  register_timing<T>(cell.name + "/" + name_of(Contender::heed), cell, Contender::heed);
  for (const Contender rival : rivals) register_timing<T>(cell.name + "/" + name_of(rival), cell, rival);
}

template Cell completed<float>(Cell);
template Cell completed<double>(Cell);
template void register_timing<float>(const std::string&, const Cell&, Contender);
template void register_timing<double>(const std::string&, const Cell&, Contender);
template void enter<float>(Cell&, const std::vector<Contender>&);
template void enter<double>(Cell&, const std::vector<Contender>&);

}  // namespace heed::bench
