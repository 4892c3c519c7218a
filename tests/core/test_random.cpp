// Random numbers: those of CPython for every seed, block after block.

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/core/random.hpp"

namespace {

using namespace heed;

nlohmann::json read_json(const std::string& name) {
  std::ifstream file(std::string(HEED_TEST_DATA) + "/" + name);
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("the generator gives CPython's numbers for every seed", "[random]") {
  const nlohmann::json numbers = read_json("tutorial/python_random.json");
  std::size_t seeds = 0;
  for (const auto& group : numbers) {
    for (const auto& [seed, expected] : group.items()) {
      Random first(std::stoull(seed));
      CHECK(first.random() == expected[0].get<double>());
      Random second(std::stoull(seed));
      CHECK(second.uniform(-0.3, 0.3) == expected[1].get<double>());
      ++seeds;
    }
  }
  CHECK(seeds >= 9);
}

TEST_CASE("the generator goes on after its first block of words", "[random]") {
  // 624 words are made at a time: the second block differs from the first, and both come again from the same
  // seed.
  Random random(1);
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 1300; ++i) words.push_back(random.next_word());
  CHECK(std::vector<std::uint32_t>(words.begin(), words.begin() + 600) !=
        std::vector<std::uint32_t>(words.begin() + 624, words.begin() + 1224));
  Random again(1);
  for (const std::uint32_t word : words) REQUIRE(again.next_word() == word);
}
