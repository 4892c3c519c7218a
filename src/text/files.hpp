#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed::text {

/// A path as it is shown in messages: UTF-8 whatever it holds, control characters and quotes escaped.
std::string display(const std::filesystem::path& path);

/// The bytes of a regular file. Throws FileError.
std::string read_file(const std::filesystem::path& path);

/// Replaces or creates a file so that no reader and no crash of the program sees half of it. Throws
/// FileError.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace heed::text
