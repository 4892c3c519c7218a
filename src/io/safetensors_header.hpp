#pragma once

// What the header of a safetensors file says, once all of it has been checked.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io/safetensors.hpp"

namespace heed::io {

/// The tensors' entry for the file's free text.
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// What a header says, once all of it has been checked.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;   ///< In the order of their data.
  std::vector<std::size_t> by_name;  ///< Indices into tensors, sorted by name.
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON of a header and checks it against the number of data bytes that follow it. Does not
/// recurse, so the depth of the JSON costs no stack. `file` begins every error message. Throws FileError.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::size_t data_bytes,
                                           const std::string& file);

}  // namespace heed::io
