#pragma once

// What the demo programs share.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "heed/bpe.hpp"
#include "heed/display_text.hpp"
#include "heed/error.hpp"

namespace demo {

inline const std::string tutorial_corpus =
    "the quick brown fox jumps over the lazy dog the quick brown fox jumps over the lazy dog "
    "she sells seashells by the seashore she sells seashells by the seashore ";

/// The text in quotes, with everything escaped that could play with the terminal.
inline std::string in_quotes(std::string_view text) {
  return "'" + heed::escaped(text) + "'";
}

/// "[33, 45, 50, 53]"
inline std::string list(const std::vector<heed::TokenId>& ids) {
  std::string text;
  for (const heed::TokenId id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return "[" + text + "]";
}

/// The bytes of a text file. Throws FileError, which names the file and what is wrong with it.
inline std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path))
    throw heed::FileError("cannot read " + path + ": it is a directory");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw heed::FileError("cannot read " + path + ": " + std::generic_category().message(errno));
  return text;
}

/// "1 head", "2 heads"
inline std::string count_of(heed::Index n, const std::string& singular) {
  return std::to_string(n) + " " + singular + (n == 1 ? "" : "s");
}

/// A bar on the terminal for work that lets one wait.
class ProgressBar {
 public:
  void update(heed::Index done, heed::Index total, const char* unit) {
    show(done, total, std::to_string(done) + " of at most " + std::to_string(total) + ' ' + unit);
  }
  void show(heed::Index done, heed::Index total, const std::string& text) {
    const auto now = Clock::now();
    if (!terminal_ || now - start_ < std::chrono::seconds(2) || now - drawn_ < std::chrono::milliseconds(100))
      return;
    drawn_ = now;
    shown_ = true;
    constexpr heed::Index width = 24;
    const heed::Index filled = std::min(width, width * done / std::max<heed::Index>(total, 1));
    std::cerr << "\r[" << std::string(static_cast<std::size_t>(filled), '#')
              << std::string(static_cast<std::size_t>(width - filled), ' ') << "] " << text << "\x1B[K"
              << std::flush;
  }
  void finish() const {
    if (shown_) std::cerr << "\r\x1B[K" << std::flush;
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_;
};

/// Parses the arguments. The exit code, if the program is to end here: after --help or wrong arguments.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  return std::nullopt;
}

/// Runs a whole program, and turns every exception into a message and exit code 1.
template <class Program>
int guarded(const char* name, Program program) noexcept {
  try {
    const int code = program();
    std::cout.flush();
    if (!std::cout) throw heed::FileError("standard output cannot be written");
    return code;
  } catch (const std::bad_alloc&) {
    std::cerr << name << ": not enough memory for these sizes\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << heed::escaped(error.what()) << '\n';
    return 1;
  }
}

}  // namespace demo
