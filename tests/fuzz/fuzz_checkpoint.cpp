// A libFuzzer target: whatever the files of a folder hold, load_model() and
// resume() refuse them with FileError, or give a model that works.

#include <algorithm>
#include <string_view>

#include "byte_choices.hpp"
#include "heed/models/checkpoint.hpp"
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
  // The configuration comes first, then the tokenizer, each up to a NUL: no JSON has one.
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto next = [&rest](char end) {
    const std::string_view part = rest.substr(0, rest.find(end));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
  };
  const std::string config_text(next('\0'));
  heed_test::write_bytes(folder / "config.json", heed_test::bytes_of(config_text));
  heed_test::write_bytes(folder / "tokenizer.json", heed_test::bytes_of(next('\0')));
  heed_test::write_bytes(folder / "checkpoint.safetensors", heed_test::bytes_of(rest));
  try {
    check_model(folder.path());
  } catch (const FileError&) {
    // a refusal is a good answer
  }
  try {
    const GptConfig config = config_from_json(config_text);
    require_law(config_from_json(config_to_json(config)) == config ||
                    config_to_json(config_from_json(config_to_json(config))) == config_to_json(config),
                "a configuration reads what it writes", config_to_json(config));
  } catch (const FileError&) {
    // likewise
  }
  return 0;
}
