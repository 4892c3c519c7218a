#pragma once

// The files of a checkpoint: under checkpoint.hpp, which has the functions to call.

#include "heed/core/config.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "heed/io/safetensors.hpp"
#include "heed/models/gpt_config.hpp"

namespace heed {

/// Returns whether the folder has a checkpoint.
HEED_EXPORT bool has_checkpoint(const std::filesystem::path& folder);

/// Returns the tokenizer.json of a checkpoint, as it was saved.
HEED_EXPORT std::string load_tokenizer_json(const std::filesystem::path& folder);

/// What a program wants to remember with a checkpoint: texts by name.
using Notes = std::map<std::string, std::string>;

/// Returns the notes of a checkpoint. Throws FileError.
HEED_EXPORT Notes checkpoint_notes(const std::filesystem::path& folder);

namespace detail {

struct CheckpointFiles {
  GptConfig config;
  SafetensorsFile tensors;
  std::string name;  ///< The file that has them, for messages.
};

/// Throws FileError, naming the file, if one is missing or not what it promises, if the tensors are not those
/// of the configuration, or if the tokenizer has more tokens than the model. Memory: as much as the files are
/// long.
HEED_EXPORT CheckpointFiles read_checkpoint(const std::filesystem::path& folder);

/// Makes the folder if it is not there. Throws ArgumentError for what read_checkpoint() would refuse,
/// FileError if it holds a checkpoint with another configuration or tokenizer, or cannot be written; the
/// checkpoint that was there is then unchanged.
HEED_EXPORT void write_checkpoint(const std::filesystem::path& folder, const GptConfig& config,
                                  const std::string& tokenizer_json, const std::vector<TensorBytes>& tensors,
                                  const Notes& notes);

}  // namespace detail

}  // namespace heed
