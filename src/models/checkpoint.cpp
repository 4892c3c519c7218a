// The files of a checkpoint: names, order of writing, and what is read back.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "heed/core/error.hpp"
#include "heed/models/detail/checkpoint_files.hpp"
#include "io/file.hpp"
#include "models/gpt_weights.hpp"
#include "text/tokenizer_size.hpp"

namespace heed {

namespace {

using std::filesystem::path;

path config_path(const path& folder) {
  return folder / "config.json";
}
path tokenizer_path(const path& folder) {
  return folder / "tokenizer.json";
}
path tensors_path(const path& folder) {
  return folder / "checkpoint.safetensors";
}

std::string read_text(const path& file) {
  io::InputFile input(file);
  std::string text(input.size(), '\0');
  input.read(std::as_writable_bytes(std::span(text)));
  return text;
}

void write_text(const path& file, const std::string& text) {
  const std::array parts = {std::as_bytes(std::span(text))};
  io::replace_file(file, parts);
}

/// Writes a file that is the same in all checkpoints of a folder, or leaves the one that is there. `replace`:
/// it may be another one's. `is_same` compares the text that is there.
template <class IsSame>
void keep_text(const path& file, const std::string& text, bool replace, IsSame is_same) {
  std::error_code ignored;
  if (replace || !std::filesystem::exists(file, ignored)) {
    write_text(file, text);
  } else if (!is_same(read_text(file))) {
    throw_file_error(io::quote_path(file) + " is there and is not this model's: choose another folder");
  }
}

/// True for a folder whose first checkpoint was never finished: its files may be replaced. The config.json of
/// another program does not count.
bool is_unfinished(const path& folder) {
  std::error_code ignored;
  if (has_checkpoint(folder) || !std::filesystem::exists(config_path(folder), ignored)) return false;
  try {
    (void)config_from_json(read_text(config_path(folder)));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Whether a text is a configuration with the same meaning, however it is written.
bool is_config(const std::string& text, const std::string& config_json) {
  try {
    return config_to_json(config_from_json(text)) == config_json;
  } catch (const Error&) {
    return false;
  }
}

/// Positions that are computed are in no file, and no model has been of use with a table of them many times
/// its own size. Empty if this one's is in proportion, else what is wrong with it.
std::string excess_of_positions(const GptConfig& config, double num_weights) {
  if (config.positions == PositionKind::learned) return "";
  const Index cols =
      config.positions == PositionKind::rotary ? config.d_model / config.num_heads : config.d_model;
  const double table = static_cast<double>(config.context) * static_cast<double>(cols);
  constexpr double small_table = 1 << 20;
  if (table <= std::max(small_table, 16 * num_weights)) return "";
  return "the model has a context of " + std::to_string(config.context) + ", whose table of positions has " +
         detail::number_text(table) + " numbers, many times its " + detail::number_text(num_weights) +
         " weights";
}

double numbers_of(const std::vector<detail::WeightShape>& weights) {
  double sum = 0;
  for (const detail::WeightShape& weight : weights)
    sum += static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
  return sum;
}

/// Compares a configuration with what the file has, tensor by tensor, before a model is made of it: so the
/// model cannot be many times as large as the file.
void check_tensors(const detail::CheckpointFiles& files) {
  const GptConfig& config = files.config;
  const std::vector<TensorInfo>& tensors = files.tensors.tensors();
  const std::vector<detail::WeightShape> block = detail::block_weights(config);
  const std::vector<detail::WeightShape> others = detail::other_weights(config);
  double there = 0;
  for (const TensorInfo& tensor : tensors) there += static_cast<double>(tensor.size);
  const double needed = numbers_of(others) + static_cast<double>(config.num_layers) * numbers_of(block);
  if (needed > there) {
    throw_file_error(files.name + " has " + detail::number_text(there) +
                     " numbers, fewer numbers than a model of the configuration beside it, which has " +
                     detail::number_text(needed));
  }
  if (const std::string excess = excess_of_positions(config, needed); !excess.empty())
    throw_file_error(files.name + ": " + excess);
  std::vector<bool> known(tensors.size());
  const auto check = [&](const std::string& prefix, const std::vector<detail::WeightShape>& weights) {
    for (const detail::WeightShape& weight : weights) {
      const std::string name = prefix + weight.name;
      const TensorInfo& tensor = files.tensors.at(name);  // throws for the first that is missing
      known[static_cast<std::size_t>(&tensor - tensors.data())] = true;
      if (tensor.shape != std::vector<std::ptrdiff_t>{weight.rows, weight.cols}) {
        throw_file_error(files.name + ": " + name + " has other sizes than the model's, which is " +
                         std::to_string(weight.rows) + " x " + std::to_string(weight.cols));
      }
      if (dtype_bits(tensor.dtype) < 8) {
        throw_file_error(files.name + ": " + name + " is " + std::string(dtype_name(tensor.dtype)) +
                         ", which is not read as weights");
      }
    }
  };
  check("", others);
  for (Index l = 0; l < config.num_layers; ++l) check("blocks." + std::to_string(l) + ".", block);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    if (!known[i] && !name.starts_with("optimizer.") && !name.starts_with("random."))
      throw_file_error(files.name + " has " + name + ", which the model beside it has not");
  }
}

/// What is wrong with the tokenizer of a model; empty if nothing is. A model may have rows that no token
/// belongs to: many are padded to a round number.
std::string excess_of_tokens(const std::string& tokenizer_json, const GptConfig& config) {
  const std::optional<Index> size = text::tokenizer_size(tokenizer_json);
  if (!size || *size <= config.vocab_size) return "";
  return "the tokenizer has " + std::to_string(*size) + " tokens, the model is for " +
         std::to_string(config.vocab_size);
}

}  // namespace

bool has_checkpoint(const path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(tensors_path(folder), ignored);
}

std::string load_tokenizer_json(const path& folder) {
  return read_text(tokenizer_path(folder));
}

Notes checkpoint_notes(const path& folder) {
  return SafetensorsFile::open(tensors_path(folder)).metadata();
}

detail::CheckpointFiles detail::read_checkpoint(const path& folder) {
  const path config_file = config_path(folder);
  const std::string text = read_text(config_file);
  GptConfig config;
  try {
    config = config_from_json(text);
  } catch (const Error& error) {
    throw_file_error(io::quote_path(config_file) + ": " + error.what());
  }
  CheckpointFiles files{config, SafetensorsFile::open(tensors_path(folder)),
                        io::quote_path(tensors_path(folder))};
  check_tensors(files);
  const path tokenizer = tokenizer_path(folder);
  std::error_code ignored;
  if (std::filesystem::exists(tokenizer, ignored)) {
    const std::string excess = excess_of_tokens(read_text(tokenizer), config);
    if (!excess.empty()) throw_file_error(io::quote_path(tokenizer) + ": " + excess);
  }
  return files;
}

void detail::write_checkpoint(const path& folder, const GptConfig& config, const std::string& tokenizer_json,
                              const std::vector<TensorBytes>& tensors, const Notes& notes) {
  // What read_checkpoint() would refuse is not written.
  const double num_weights = numbers_of(other_weights(config)) +
                             static_cast<double>(config.num_layers) * numbers_of(block_weights(config));
  for (const std::string& excess :
       {excess_of_tokens(tokenizer_json, config), excess_of_positions(config, num_weights)}) {
    if (!excess.empty()) throw_argument_error("a checkpoint cannot be made of this: " + excess);
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_file_error("cannot make the folder " + io::quote_path(folder) + ": " + error.message());
  const bool replace = is_unfinished(folder);
  const std::string config_json = config_to_json(config);
  keep_text(config_path(folder), config_json, replace,
            [&](const std::string& there) { return is_config(there, config_json); });
  keep_text(tokenizer_path(folder), tokenizer_json, replace,
            [&](const std::string& there) { return there == tokenizer_json; });
  write_safetensors(tensors_path(folder), tensors, notes);
}

}  // namespace heed
