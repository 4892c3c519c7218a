#pragma once

// Reading files, and replacing them at one stroke.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace heed::io {

/// A regular file opened for reading. All errors are FileErrors that name the path.
class InputFile {
 public:
  /// Opens without ever blocking on a pipe or device; refuses everything that is not a regular file.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// The size when the file was opened.
  std::size_t size() const noexcept { return size_; }

  /// Reads the next bytes, all of them; a file that ends before is an error.
  void read(std::span<std::byte> destination);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

/// Replaces the file at `path` by the parts, one after another, or leaves it as it was: writes a new file
/// beside it, flushes that to the disk, renames it, and removes what saves of this file that were killed left
/// there. Errors are FileErrors that name the path.
void replace_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);

/// The path in double quotes, for messages.
std::string quote_path(const std::filesystem::path& path);

}  // namespace heed::io
