// A libFuzzer target: whatever a folder's config.json and checkpoint.safetensors hold, load_model() and
// resume() refuse them with FileError, or give a model that works.

#include <cmath>
#include <span>

#include "byte_choices.hpp"
#include "heed/checkpoint.hpp"
#include "safetensors_bytes.hpp"

namespace {

using namespace heed;
using heed::test::require_law;

void check_model(const std::filesystem::path& folder) {
  const Gpt<float> model = load_model<float>(folder);
  model.check_weights();
  const Index length = std::min<Index>(3, model.config().context);
  const std::vector<TokenId> ids(static_cast<std::size_t>(length), 0);
  const Matrix<float> logits = model.forward(ids);
  require_law(logits.rows() == length && logits.cols() == model.config().vocab_size,
              "a model has a score for each token");
  Gpt<float> other = model;
  GptTrainer<float> trainer(other, {.batch_size = 1, .seq_len = 1});
  Random random(1);
  (void)resume(folder, trainer, random);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed_test::TemporaryFolder folder;
  // The configuration comes first, up to a NUL: no JSON has one.
  const auto* const end = std::find(data, data + size, std::uint8_t{0});
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto config_size = static_cast<std::size_t>(end - data);
  const auto first = bytes.begin();
  heed_test::write_bytes(folder / "config.json", {first, first + static_cast<std::ptrdiff_t>(config_size)});
  heed_test::write_bytes(folder / "checkpoint.safetensors",
                         {first + static_cast<std::ptrdiff_t>(std::min(config_size + 1, size)), bytes.end()});
  try {
    check_model(folder.path());
  } catch (const FileError&) {
    // a refusal is a good answer
  }
  try {
    const GptConfig config = config_from_json(std::string(reinterpret_cast<const char*>(data), config_size));
    require_law(config_from_json(config_to_json(config)) == config ||
                    config_to_json(config_from_json(config_to_json(config))) == config_to_json(config),
                "a configuration reads what it writes", config_to_json(config));
  } catch (const FileError&) {
    // likewise
  }
  return 0;
}
