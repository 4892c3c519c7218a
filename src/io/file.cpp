// Files read whole or in parts, and replaced so that a reader finds the old file or the new one, never a
// piece.

#include "io/file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "heed/core/error.hpp"
#include "io/quote.hpp"

namespace heed::io {
namespace {

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;  // some systems refuse more in one call
constexpr int kMaxTemporaryNames = 1000;

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path, int error) {
  throw_file_error(what + " " + quote_path(path) + ": " + std::generic_category().message(error));
}

void refuse_embedded_zero(const std::filesystem::path& path) {
  if (path.native().find('\0') != std::string::npos) {
    throw_file_error("path " + quote_path(path) + " holds a zero byte");
  }
}

/// What stands between a file's name and the rest of its temporary file's, which no other program gives a
/// file.
constexpr std::string_view kTemporaryMark = ".heed-";

/// Whether a name is `prefix` (a file's name and the mark), two numbers and ".tmp": "a.json.heed-123-0.tmp".
bool is_temporary_name(std::string_view name, std::string_view prefix) noexcept {
  constexpr std::string_view digits = "0123456789";
  constexpr std::string_view ending = ".tmp";
  if (!name.starts_with(prefix) || !name.ends_with(ending)) return false;
  name.remove_prefix(prefix.size());
  if (name.size() < ending.size()) return false;
  name.remove_suffix(ending.size());
  const std::size_t dash = name.find('-');
  return dash != 0 && dash != std::string_view::npos && dash + 1 < name.size() &&
         name.substr(0, dash).find_first_not_of(digits) == std::string_view::npos &&
         name.substr(dash + 1).find_first_not_of(digits) == std::string_view::npos;
}

/// Removes what saves of the same file left behind when their processes were killed. A save that is under way
/// holds a lock on its file, which ends with its process. What cannot be removed is no error.
void remove_abandoned(const char* folder, std::string_view prefix) noexcept {
  DIR* const listing = ::opendir(folder);
  if (listing == nullptr) return;
  const int folder_descriptor = ::dirfd(listing);
  while (const dirent* const entry = ::readdir(listing)) {
    if (!is_temporary_name(entry->d_name, prefix)) continue;
    const int file =
        ::openat(folder_descriptor, entry->d_name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlinkat(folder_descriptor, entry->d_name, 0);
    ::close(file);
  }
  ::closedir(listing);
}

/// Owns a descriptor, and, until it is kept, the temporary file behind it.
class TemporaryFile {
 public:
  TemporaryFile(const std::filesystem::path& target, mode_t mode) : target_(target) {
    // Names are taken in turn; O_EXCL and the lock decide between rivals.
    for (int n = 0; n < kMaxTemporaryNames && descriptor_ < 0; ++n) {
      path_ = target.native();
      path_.append(kTemporaryMark).append(std::to_string(::getpid()) + "-" + std::to_string(n) + ".tmp");
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      if (descriptor_ < 0 && errno != EEXIST) {
        fail("cannot create a file beside", target_, errno);
      }
      if (descriptor_ >= 0 && !is_own()) {
        ::close(descriptor_);
        descriptor_ = -1;
      }
    }
    if (descriptor_ < 0) {
      fail("cannot create a file beside", target_, EEXIST);
    }
  }
  ~TemporaryFile() {
    if (!renamed_) {
      ::unlink(path_.c_str());
    }
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void set_mode(mode_t mode) {
    if (::fchmod(descriptor_, mode) != 0) {
      fail("cannot set the permissions of", target_, errno);
    }
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer));
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written < 0) {
        fail("cannot write", target_, errno);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void rename_to_target() {
    if (::fsync(descriptor_) != 0) {
      fail("cannot write", target_, errno);
    }
    // Still locked, so that no other process removes it.
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      fail("cannot replace", target_, errno);
    }
    renamed_ = true;
  }

 private:
  /// Locks the file, if the file system has locks. False if another save removed it before.
  bool is_own() const noexcept {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    struct stat status {};
    return ::fstat(descriptor_, &status) != 0 || status.st_nlink > 0;
  }

  std::filesystem::path target_;
  std::string path_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

/// Makes the rename itself survive a power cut. The new file is in place already, so what a file system
/// cannot do here is no error.
void flush_directory(const std::filesystem::path& folder) noexcept {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

/// The file that a symbolic link leads to, so that the link stays and its file is replaced; else the path
/// itself.
std::filesystem::path followed(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  if (error) fail("cannot follow", path, error.value());
  return target;
}

/// The permissions of the regular file at `path`, or nothing if there is no file.
std::optional<mode_t> mode_of_existing(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return std::nullopt;  // missing, or an error that creating the new file will report
  }
  if (!S_ISREG(status.st_mode)) {
    throw_file_error("cannot replace " + quote_path(path) + ": it is not a regular file");
  }
  return status.st_mode & mode_t{07777};
}

}  // namespace

std::string quote_path(const std::filesystem::path& path) {
  return quote(path.native(), path.native().size());
}

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  refuse_embedded_zero(path);
  // Without O_NONBLOCK, opening a named pipe waits for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) {
    fail("cannot open", path, errno);
  }
  struct stat status {};
  const int error = ::fstat(descriptor, &status) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    if (error != 0) {
      fail("cannot read", path, error);
    }
    throw_file_error("cannot read " + quote_path(path) + ": it is " +
                     (S_ISDIR(status.st_mode) ? "a directory" : "not a regular file"));
  }
  descriptor_ = descriptor;
  size_ = static_cast<std::size_t>(status.st_size);
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::read(std::span<std::byte> destination) {
  while (!destination.empty()) {
    const ssize_t count = ::read(descriptor_, destination.data(), std::min(destination.size(), kMaxTransfer));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail("cannot read", path_, errno);
    }
    if (count == 0) {
      throw_file_error("cannot read " + quote_path(path_) + ": it has become shorter than its " +
                       std::to_string(size_) + " bytes while it was read");
    }
    destination = destination.subspan(static_cast<std::size_t>(count));
  }
}

void replace_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  refuse_embedded_zero(path);
  const std::filesystem::path target = followed(path);
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  const std::string prefix = target.filename().native() + std::string(kTemporaryMark);
  const std::optional<mode_t> old_mode = mode_of_existing(target);
  TemporaryFile file(target, 0666);
  if (old_mode) {
    file.set_mode(*old_mode);
  }
  for (const std::span<const std::byte> part : parts) {
    file.write(part);
  }
  // From the rename on nothing may fail, not for want of memory either.
  file.rename_to_target();
  remove_abandoned(folder.c_str(), prefix);
  flush_directory(folder);
}

}  // namespace heed::io
