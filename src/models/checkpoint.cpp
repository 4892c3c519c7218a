#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <system_error>

#include "heed/checkpoint_files.hpp"
#include "heed/error.hpp"
#include "io/file.hpp"

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

/// Writes a file that is the same in all checkpoints of a folder. `replace`: it may be another one's.
void keep_text(const path& file, const std::string& text, bool replace) {
  std::error_code ignored;
  if (replace || !std::filesystem::exists(file, ignored)) {
    write_text(file, text);
  } else if (read_text(file) != text) {
    throw_file_error(io::quote_path(file) + " is there and is not this model's: choose another folder");
  }
}

/// True for a folder whose first checkpoint was never finished: its files may be replaced. Anybody else's
/// config.json is not one of ours.
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

/// A configuration says how much memory its model takes: before that is taken, most of it must be there.
void require_weights_of(const GptConfig& config, const detail::CheckpointFiles& files) {
  const auto d = static_cast<double>(config.d_model);
  const double block = 2 * d * (d + static_cast<double>(config.ff_size()));
  const double needed =
      static_cast<double>(config.vocab_size) * d + static_cast<double>(config.num_layers) * block;
  double there = 0;
  for (const TensorInfo& tensor : files.tensors.tensors()) there += static_cast<double>(tensor.size);
  const bool learned = config.positions == PositionKind::learned;
  const double positions = static_cast<double>(config.context) * d;
  if (needed + (learned ? positions : 0) > there)
    throw_file_error(files.name + " has fewer numbers than a model of the configuration beside it");
  // Other positions are computed, but no model has been of use with a table many times its own size.
  constexpr double small_table = 1 << 24;
  if (!learned && positions > std::max(small_table, 16 * there)) {
    throw_file_error(files.name + " is of a model with a context of " + std::to_string(config.context) +
                     ", whose table of positions would be many times as large as the model");
  }
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
  require_weights_of(config, files);
  return files;
}

void detail::write_checkpoint(const path& folder, const GptConfig& config, const std::string& tokenizer_json,
                              const std::vector<TensorBytes>& tensors, const Notes& notes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_file_error("cannot make the folder " + io::quote_path(folder) + ": " + error.message());
  const bool replace = is_unfinished(folder);
  keep_text(config_path(folder), config_to_json(config), replace);
  keep_text(tokenizer_path(folder), tokenizer_json, replace);
  write_safetensors(tensors_path(folder), tensors, notes);
}

}  // namespace heed
