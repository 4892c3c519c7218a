// What plans print: the choices, and why they were made.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "heed/core/isa.hpp"
#include "heed/layers/multi_head_attention_plan.hpp"
#include "helpers.hpp"
#include "kernels/choice.hpp"

namespace {

using namespace heed;
using namespace heed::test;

// Three instruction sets that no processor has: every case of the choice on any machine.
const kernels::KernelTable weak{"weak", {}, {}};
const kernels::KernelTable fair{"fair", {}, {}};
const kernels::KernelTable strong{"strong", {}, {}};

kernels::Choice choose(bool has_fair, bool has_strong, const char* cap) {
  const kernels::Candidate candidates[] = {{&weak, true}, {&fair, has_fair}, {&strong, has_strong}};
  return kernels::choose(candidates, cap);
}

/// What follows the name of a line, without the blanks; empty if there is no such line.
std::string line_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find_first_not_of(' ');
    if (start != std::string::npos && line.compare(start, name.size(), name) == 0 &&
        line[start + name.size()] == ' ')
      return line.substr(line.find_first_not_of(' ', start + name.size()));
  }
  return "";
}

/// The sum of the sizes below the first workspace line.
std::size_t sum_of_parts(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line) && line.find("  workspace ") == std::string::npos) {
  }
  std::size_t sum = 0;
  std::size_t bytes = 0;
  while (std::getline(lines, line) && std::istringstream(line) >> bytes) sum += bytes;
  return sum;
}

AttentionPlan<float> plan_of(Index query_len, Index threads = 1, Index heads = 1) {
  return AttentionPlan<float>({1, heads, heads, query_len, 300, 64, 64}, {}, {}, threads);
}

}  // namespace

TEST_CASE("the strongest instruction set of the processor is chosen, up to the cap, and the reason is told",
          "[plan]") {
  const auto check = [](const kernels::Choice& choice, const kernels::KernelTable& table,
                        const char* reason) {
    CHECK(choice.table == &table);
    CHECK(kernels::reason(choice) == reason);
  };
  check(choose(true, true, nullptr), strong, "the best of this processor");
  check(choose(true, true, ""), strong, "the best of this processor");
  check(choose(true, false, nullptr), fair, "the best of this processor, which has no strong");
  check(choose(true, true, "fair"), fair, "capped by HEED_ISA=fair, this processor has strong");
  check(choose(true, true, "weak"), weak, "capped by HEED_ISA=weak, this processor has strong");
  check(choose(true, true, "strong"), strong, "the best of this processor (HEED_ISA=strong allows it)");
  check(choose(true, false, "strong"), fair,
        "the best of this processor, which has no strong (HEED_ISA=strong allows it)");
  check(choose(false, false, "fair"), weak,
        "the best of this processor, which has no strong (HEED_ISA=fair allows it)");
  CHECK(message_of<ArgumentError>([] { choose(true, true, "fairest"); }) ==
        "HEED_ISA is \"fairest\", known are weak, fair, strong");
}

TEST_CASE("a build without the weak instruction sets says so on a processor that has none of its own",
          "[plan]") {
  const auto choose_of = [](bool has_fair, bool has_strong, const char* cap) {
    const kernels::Candidate candidates[] = {{&fair, has_fair}, {&strong, has_strong}};
    return kernels::choose(candidates, cap);
  };
  CHECK(choose_of(true, false, nullptr).table == &fair);
  CHECK(message_of<ArgumentError>([&] { choose_of(false, false, nullptr); }) ==
        "this processor has none of the instruction sets that Heed was built for (HEED_ISAS): fair, strong");
  CHECK(message_of<ArgumentError>([&] { choose_of(false, true, "fair"); }) ==
        "HEED_ISA is \"fair\", of what Heed was built for this processor has only strong");
  CHECK(message_of<ArgumentError>([&] { choose_of(true, true, "weak"); }) ==
        "HEED_ISA is \"weak\", known are fair, strong");
}

TEST_CASE("a plan tells its instruction set and why", "[plan]") {
  const char* cap = std::getenv("HEED_ISA");
  const std::string line = line_of(plan_of(10).to_string(), "kernel");
  CAPTURE(line);
  CHECK(line.rfind(std::string(isa()) + ", ", 0) == 0);
  CHECK((contains(line, "the best of this processor") || contains(line, "capped by HEED_ISA=")));
  CHECK(contains(line, "HEED_ISA=") == (cap != nullptr && *cap != '\0'));
}

TEST_CASE("a plan tells its register tile, which fits the registers", "[plan]") {
  const std::string line = line_of(plan_of(10).to_string(), "register tile");
  CAPTURE(line);
  const std::string name = isa();
  if (name == "baseline")
    CHECK((contains(line, "4 x 8: 8 for sums") || contains(line, "8 x 8: 16 for sums")));
  if (name == "avx2") {
    CHECK(line == "6 x 16: 12 for sums, 2 for columns and 1 for a row take 15 of 16 registers of 8 numbers");
  }
  if (name == "avx512") {
    CHECK(line ==
          "12 x 32: 24 for sums, 2 for columns and 1 for a row take 27 of 32 registers of 16 numbers");
  }
}

TEST_CASE("a plan tells the height of its blocks and why", "[plan]") {
  const auto blocks = [](const AttentionPlan<float>& plan) {
    return line_of(plan.to_string(), "query blocks");
  };
  CHECK(blocks(plan_of(0)) == "none: there are no queries");
  CHECK(blocks(plan_of(1)) ==
        "1 of 1 row, 1 for each head: all its queries, no more than the 576 whose accumulators stay in a "
        "second-level cache");
  CHECK(contains(blocks(plan_of(2304, 1, 3)),
                 "12 of up to 576 rows, 4 for each head: equal ones, no more than the 576"));
  CHECK(contains(blocks(plan_of(2304, 2, 3)),
                 "12 of up to 576 rows, 4 for each head: equal ones, no more than the 576"));
  CHECK(
      contains(blocks(plan_of(576, 4)), "lower than the 576 of one thread, so that more threads have work"));
}

TEST_CASE("a plan tells how many threads have work, and how many it was asked for", "[plan][threads]") {
  const auto threads = [](const AttentionPlan<float>& plan) { return line_of(plan.to_string(), "threads"); };
  CHECK(threads(plan_of(1000)) == "1, as asked for");
  CHECK(threads(plan_of(1000, 8)) == "8, as asked for");
  CHECK(threads(plan_of(40, 8, 3)) == "3 of the 8 asked for: there are no more blocks");
  CHECK(threads(plan_of(0, 8)) == "1 of the 8 asked for: there is nothing to do");
}

TEMPLATE_TEST_CASE("the parts of the workspace that a plan prints add up to it", "[plan]", float, double) {
  for (const Index threads : {1, 3}) {
    for (const Index query_len : {0, 1, 7, 600}) {
      const AttentionPlan<TestType> plan({2, 3, 3, query_len, 77, 5, 9}, causal() & top_left(), {}, threads);
      const std::string text = plan.to_string();
      CAPTURE(text);
      const auto working = static_cast<std::size_t>(std::stoi(line_of(text, "threads")));
      CHECK(contains(line_of(text, "workspace"), std::to_string(plan.workspace_bytes()) + " bytes"));
      CHECK(sum_of_parts(text) * working == plan.workspace_bytes());
      CHECK(text.back() == '\n');
    }
  }
}

// The page shows what an AVX-512 machine prints; on others the lines that do not depend on the machine are
// compared.
TEST_CASE("docs/threads.md shows the plan as it is printed", "[plan][threads]") {
  const AttentionPlan<float> plan({1, 12, 12, 1024, 1024, 64, 64}, causal(), {}, 8);
  std::istringstream printed(plan.to_string());
  std::ifstream page(HEED_THREADS_PAGE);
  const bool same_machine = isa() == std::string_view("avx512") && std::getenv("HEED_ISA") == nullptr;
  std::string line;
  while (std::getline(page, line) && line.rfind("attention float:", 0) != 0) {
  }
  int compared = 0;
  for (std::string expected; std::getline(printed, expected); std::getline(page, line)) {
    const bool everywhere = contains(expected, "attention float:") || contains(expected, "threads   ");
    if (!same_machine && !everywhere) continue;
    CHECK(line == expected);
    ++compared;
  }
  CHECK(compared >= 2);
}

TEST_CASE("a layer's plan prints its steps with the plan of the attention among them", "[plan]") {
  const MultiHeadAttentionPlan<float> plan({2, 50, 24, 20, 3, 8, 4}, causal(), {}, 2);
  const std::string text = plan.to_string();
  CAPTURE(text);
  CHECK(contains(text, "layer float: x (100 x 24) to out (100 x 20)\n"));
  CHECK(contains(text,
                 "query (100 x 24), key (100 x 24), value (100 x 12): x times w_q, w_k, w_v, in one pass"));
  CHECK(contains(text, "attention float: 2 sequences, 3 heads on 3 key/value heads, 50 queries x 50 keys"));
  CHECK(line_of(text, "threads") == "2, as asked for");
  const std::string total =
      "  workspace      " + std::to_string(plan.workspace_bytes()) + " bytes, of which:\n";
  CHECK(contains(text, total));
  CHECK(sum_of_parts(text.substr(text.find(total))) == plan.workspace_bytes());
}
