// The benchmarks' guards and table, on made-up measurements: what is measured honestly passes, what is not is
// named.

#include "catch.hpp"
#include "guards.hpp"
#include "helpers.hpp"
#include "rows.hpp"

namespace {

using namespace heed::bench;
using heed::test::contains;

Cell cell_of(double flops) {
  Cell cell;
  cell.name = "attention/x";
  cell.flops = flops;
  return cell;
}

// A cell of 0.001 ms at half of a peak of 100 GFLOP/s.
const std::vector<Cell> cells{cell_of(50e3)};

SampleMap honest() {
  SampleMap samples;
  samples["guard/empty"].cpu_milliseconds = {2e-6, 1e-6, 3e-6};
  samples["guard/full/n1024"].cpu_milliseconds = {2.5, 2.0, 9.0};
  samples["guard/full/n2048"].cpu_milliseconds = {8.1, 8.4, 15.0};
  samples["guard/causal/n1024"].cpu_milliseconds = {1.0, 1.1, 1.0};
  samples["guard/causal/n2048"].cpu_milliseconds = {4.5, 3.9, 4.0};
  samples["attention/x/heed"].milliseconds = {0.001, 0.001, 0.002};
  samples["attention/x/heed"].peak_gflops = {20, 100, 100};
  return samples;
}

/// The one sentence about these samples; "none" or "several" else.
std::string broken(const SampleMap& samples) {
  const std::vector<std::string> sentences = broken_guards(cells, samples);
  return sentences.empty() ? "none" : sentences.size() > 1 ? "several" : sentences.front();
}

}  // namespace

TEST_CASE("an honest measurement passes", "[bench]") {
  CHECK(broken(honest()) == "none");
}

TEST_CASE("time that does not grow fourfold with twice the length is named", "[bench]") {
  for (const double milliseconds : {2.0, 4.0, 16.0}) {
    SampleMap samples = honest();
    samples["guard/full/n2048"].cpu_milliseconds = {milliseconds};
    CHECK(contains(broken(samples), "guard/full/n1024 takes 2 ms and twice the length"));
  }
  SampleMap samples = honest();
  samples.erase("guard/causal/n2048");
  CHECK(contains(broken(samples), "guard/causal/n1024"));
}

TEST_CASE("a cell that is as fast as a loop around nothing is named", "[bench]") {
  SampleMap samples = honest();
  samples["guard/empty"].cpu_milliseconds = {0.001};
  CHECK(contains(broken(samples), "attention/x takes 0.001 ms, a loop around nothing 0.001 ms"));
  samples.erase("guard/empty");
  CHECK(contains(broken(samples), "was not measured"));
}

TEST_CASE("a cell beyond the processor's peak is named", "[bench]") {
  SampleMap samples = honest();
  samples["attention/x/heed"].milliseconds = {0.0003};
  CHECK(contains(broken(samples), "attention/x runs at 1.67 of the processor's peak"));
}

TEST_CASE("figures stand in a table where a line holds one, and never in a line that is longer", "[bench]") {
  const std::vector<Row> rows = {
      {"attention/float/d64/causal/n1024/t1", {{"ms", "0.860", 10}, {"eigen", "0.36  2.10x", 15}}},
      {"bpe/encode", {{"ms", "12.1", 10}, {"", "63.4 MB/s", 12}, {"x", "-", 9}}}};
  CHECK(rows_text("cell", rows, 66) ==
        "cell                                       ms          eigen\n"
        "attention/float/d64/causal/n1024/t1     0.860    0.36  2.10x\n"
        "bpe/encode                               12.1   63.4 MB/s        -\n");
  CHECK(rows_text("cell", rows, 65) ==
        "attention/float/d64/causal/n1024/t1\n"
        "    ms 0.860, eigen 0.36  2.10x\n"
        "bpe/encode\n"
        "    ms 12.1, 63.4 MB/s\n");
  CHECK(contains(rows_text("cell", rows, 20), "\n    ms 0.860,\n    eigen 0.36  2.10x\n"));
}
