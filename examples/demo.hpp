#pragma once

// What the demo programs share.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "heed/core/error.hpp"
#include "heed/plot/display_text.hpp"
#include "heed/plot/terminal.hpp"
#include "heed/text/bpe.hpp"
#include "wrapped.hpp"

namespace demo {

/// The text in quotes, with everything escaped that could play with the terminal.
inline std::string in_quotes(std::string_view text) {
  return "'" + heed::escaped(text) + "'";
}

/// "[33, 45, 50, 53]", in pieces between which a line may end.
inline std::vector<std::string> list(const std::vector<heed::TokenId>& ids) {
  std::vector<std::string> pieces;
  pieces.reserve(ids.size());
  for (const heed::TokenId id : ids) pieces.push_back(std::to_string(id) + ",");
  if (pieces.empty()) return {"[]"};
  pieces.front().insert(0, 1, '[');
  pieces.back().back() = ']';
  return pieces;
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

/// The bytes of a text to learn from. Throws FileError as read_text() does, and for a file without a byte.
inline std::string read_corpus(const std::string& path) {
  std::string text = read_text(path);
  if (text.empty()) throw heed::FileError(path + " is empty: nothing to learn from");
  return text;
}

/// Writes lines that fit the terminal, see wrapped().
inline void say(const std::string& label, std::string_view sentence) {
  std::cout << wrapped(label, sentence, columns());
}
inline void say(const std::string& label, const std::vector<std::string>& pieces) {
  std::cout << wrapped(label, pieces, columns());
}
/// A line whose continuations are indented as it is.
inline void say(const std::string& line) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  say(line.substr(0, indent), std::string_view(line).substr(indent));
}

/// "1 head", "2 heads"
inline std::string count_of(heed::Index n, const std::string& singular) {
  return std::to_string(n) + " " + singular + (n == 1 ? "" : "s");
}

/// What <unk> means, if some of the ids are it; otherwise empty.
inline std::string about_unknown(const std::vector<heed::TokenId>& ids) {
  const auto unknown = std::count(ids.begin(), ids.end(), heed::BpeTokenizer::unk_id);
  if (unknown == 0) return "";
  return std::to_string(unknown) + " of " + count_of(std::ssize(ids), "token") +
         (unknown == 1 ? " is <unk>" : " are <unk>") +
         ", decoded as \uFFFD: a character, or an end of a word, that no token covers. A corpus that has it, "
         "or "
         "a larger vocabulary, would.";
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
    // The text first: a bar that is wider than the terminal would be left behind on every line.
    const heed::Index room = std::max<heed::Index>(20, heed::query_terminal(STDERR_FILENO).width) - 1;
    const heed::Index width = std::clamp<heed::Index>(room - 3 - heed::display_width(text), 0, 24);
    const heed::Index filled = std::min(width, width * done / std::max<heed::Index>(total, 1));
    std::cerr << "\r[" << std::string(static_cast<std::size_t>(filled), '#')
              << std::string(static_cast<std::size_t>(width - filled), ' ') << "] "
              << heed::truncated(text, room - 3 - width) << "\x1B[K" << std::flush;
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

}  // namespace demo
