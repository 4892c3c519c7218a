#include "text/files.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "heed/error.hpp"
#include "text/quote.hpp"

namespace heed::text {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string last_error() {
  return std::generic_category().message(errno);
}

// A new file beside the target. Mode x: never one that is there already, so that two writers do not meet.
std::pair<std::filesystem::path, File> create_temporary(const std::filesystem::path& target) {
  constexpr int max_attempts = 1000;
  std::string problem;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    std::filesystem::path name = target;
    name += ".tmp" + std::to_string(attempt);
    errno = 0;
    if (File file{std::fopen(name.string().c_str(), "wbx")}) return {std::move(name), std::move(file)};
    problem = last_error();
    if (errno != EEXIST) break;
  }
  throw_file_error(display(target) + ": no temporary file can be created beside it: " + problem);
}

}  // namespace

std::string display(const std::filesystem::path& path) {
  return quote(path.string(), 400);
}

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) throw_file_error(display(path) + ": " + error.message());
  // A device or a pipe may have no end.
  if (!std::filesystem::is_regular_file(status)) throw_file_error(display(path) + ": not a regular file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw_file_error(display(path) + ": " + error.message());
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_file_error(display(path) + ": cannot be opened for reading");
  std::string content(static_cast<std::size_t>(size), '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (static_cast<std::size_t>(file.gcount()) != content.size())
    throw_file_error(display(path) + ": cannot be read");
  return content;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  std::error_code error;
  const bool is_link = std::filesystem::is_symlink(path, error);
  const std::filesystem::path target = is_link ? std::filesystem::canonical(path, error) : path;
  if (is_link && error) throw_file_error(display(path) + ": " + error.message());
  // Renaming would replace a device or a pipe instead of writing to it.
  const std::filesystem::file_status status = std::filesystem::status(target, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw_file_error(display(path) + ": not a regular file");
  }
  auto [temporary, file] = create_temporary(target);
  errno = 0;
  const bool written = std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
  const bool closed = std::fclose(file.release()) == 0;
  std::string problem;
  if (!written || !closed) {
    problem = last_error();
  } else {
    std::filesystem::rename(temporary, target, error);
    if (error) problem = error.message();
  }
  if (problem.empty()) return;
  std::filesystem::remove(temporary, error);
  throw_file_error(display(path) + ": cannot be written: " + problem);
}

}  // namespace heed::text
