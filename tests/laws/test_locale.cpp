// Texts for people, and files, are the same in every locale: decimal points, no groups of thousands.

#include <clocale>
#include <cstdlib>
#include <locale>

#include "catch.hpp"
#include "gpt_cases.hpp"
#include "heed/models/sampling.hpp"
#include "heed/plot/curves.hpp"
#include "heed/plot/heat_map.hpp"
#include "heed/text/bpe.hpp"
#include "safetensors_bytes.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// 1234.5 is "1.234,5".
class CommaNumbers : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

/// The message of whatever a call throws.
template <class Call>
std::string message_in(const Call& call) {
  return message_of<Error>(call);
}

/// One text of each kind that has numbers in it.
std::vector<std::string> texts() {
  std::vector<std::string> all;
  all.push_back(Rotary(64, 100'000, {.base = 1234567.5, .linear_factor = 1.25}).to_string());
  all.push_back(Rotary(64, 8, {.llama3 = Llama3Scaling{.factor = 8.5}}).to_string());
  AttentionShape shape;
  shape.batch_size = 1;
  shape.num_heads = shape.num_kv_heads = 2;
  shape.query_len = shape.kv_len = 12345;
  shape.head_dim = shape.value_dim = 8;
  ScoreOptions score;
  score.softcap = 1234.5;
  all.push_back(AttentionPlan<float>(shape, causal() & alibi({0.125, 0.5}), score).to_string());
  score.softcap = -1234.5;
  all.push_back(message_in([&] { AttentionPlan<double>(shape, causal(), score); }));
  score = {};
  score.sinks = {1e300, 0.5};
  all.push_back(message_in([&] { AttentionPlan<float>(shape, causal(), score); }));
  score = {};
  score.scale = 1e300;
  all.push_back(message_in([&] { AttentionPlan<float>(shape, causal(), score); }));
  all.push_back(message_in([&] { AttentionPlan<float>(shape, causal() & alibi({1.5e300, 0.5})); }));
  all.push_back(message_in([] { Rotary(64, 8, {.base = -1234.5}); }));
  all.push_back(message_in(
      [] { Rotary(64, 8, {.llama3 = Llama3Scaling{.low_freq_factor = 4.5, .high_freq_factor = 1.5}}); }));
  all.push_back(message_in([] { check_sampling({.temperature = -1234.5}); }));
  all.push_back(message_in([] { check_sampling({.top_p = 1234.5}); }));
  all.push_back(message_in([] { TokenWindows({1, 2, 3}, 12345); }));
  Random random(1);
  all.push_back(message_in([&] { Norm<float>(8, true, {true, -0.5}); }));
  Gpt<float> model({.vocab_size = 12, .context = 8, .num_layers = 1, .num_heads = 1, .d_model = 8}, random);
  all.push_back(message_in([&] { GptTrainer<float>(model, {.batch_size = 12345, .clip_norm = -1.5}); }));
  all.push_back(config_to_json({.vocab_size = 12345, .norm_epsilon = 1.25e-5, .dropout = 0.125}));
  const std::vector<double> values = {-1234.5, 0.25, 1e-7, 98765.5, 1.5, -0.125};
  for (const HeatMapForm form : {HeatMapForm::blocks, HeatMapForm::ascii})
    all.push_back(heat_map(values, 2, 3, {.form = form, .legend = Legend::always}));
  all.push_back(plot_curve(values, {.title = "curve"}));
  all.push_back(plot_scatter({{1234.5, 0.25, "a"}, {0.125, 98765.5, "b"}}));
  all.push_back(train_bpe("low low lower", {.vocab_size = 30}).to_json());
  const std::vector<float> floats(1000);
  const heed_test::TemporaryFolder folder;
  write_safetensors(folder / "f", {tensor_bytes<float>("x", {1000, 1}, floats)}, {});
  const heed_test::Bytes file = heed_test::read_bytes(folder / "f");
  all.emplace_back(reinterpret_cast<const char*>(file.data()), file.size());
  return all;
}

void check_texts(const std::vector<std::string>& expected, const char* where) {
  INFO(where);
  const std::vector<std::string> found = texts();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == expected[i]);
  const GptConfig config{.vocab_size = 12345, .norm_epsilon = 1.25e-5, .dropout = 0.125};
  const GptConfig read = config_from_json(config_to_json(config));
  CHECK(read.norm_epsilon == config.norm_epsilon);
  CHECK(read.dropout == config.dropout);
}

/// A locale of C's with decimal commas: one that is installed, or made where glibc's sources of them are.
std::string comma_locale(const heed_test::TemporaryFolder& folder) {
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "fr_FR"}) {
    if (std::setlocale(LC_ALL, name) != nullptr) return name;
  }
  const std::string command =
      "localedef -c -i de_DE -f UTF-8 '" + (folder / "de_DE.UTF-8").string() + "' > /dev/null 2>&1";
  (void)!std::system(command.c_str());
  ::setenv("LOCPATH", folder.path().c_str(), 1);
  return std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr ? "de_DE.UTF-8" : "";
}

}  // namespace

TEST_CASE("texts and files have the same numbers in a locale with decimal commas", "[locale][rotary]") {
  const std::vector<std::string> expected = texts();
  CHECK(expected[0] == "rotary(64 of each head, half split, base 1234567.5, positions divided by 1.25)");
  CHECK(contains(expected[2], "softcap 1234.5"));

  const std::locale before = std::locale::global(std::locale(std::locale(), new CommaNumbers));
  check_texts(expected, "std::locale::global");
  std::locale::global(before);

  const heed_test::TemporaryFolder folder;
  const std::string name = comma_locale(folder);
  if (name.empty()) {
    WARN("no locale with decimal commas is installed, nor can be made: only C++'s was tested");
  } else {
    REQUIRE(std::string(std::localeconv()->decimal_point) == ",");
    check_texts(expected, "setlocale");
  }
  std::setlocale(LC_ALL, "C");
}

TEST_CASE("numbers in messages have no more digits than they need", "[locale]") {
  CHECK(detail::number_text(0.1) == "0.1");
  CHECK(detail::number_text(0.1F) == "0.1");
  CHECK(detail::number_text(500000.0) == "500000");
  CHECK(detail::number_text(-1e14) == "-100000000000000");
  CHECK(detail::number_text(1e300) == "1e+300");
  CHECK(detail::number_text(1e-5) == "1e-05");
  CHECK(detail::number_text(kInf<double>) == "inf");
  CHECK(detail::number_text(std::copysign(kNaN<double>, -1.0)) == "nan");
  CHECK(detail::number_text(std::copysign(kNaN<float>, -1.0F)) == "nan");
  CHECK(detail::number_text(2.0 / 3, std::chars_format::fixed, 3) == "0.667");
}
