// Asks a terminal and the environment what can be shown.

#include "heed/plot/terminal.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#if __has_include(<unistd.h>) && __has_include(<sys/ioctl.h>)
#include <sys/ioctl.h>
#include <unistd.h>
#define HEED_HAS_POSIX_TERMINAL 1
#endif

namespace heed {
namespace {

constexpr Index kDefaultWidth = 80;
constexpr Index kWidestBelievable = 10000;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = environment(name);
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

Index width_from_environment() {
  const std::string text = environment("COLUMNS");
  Index width = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && width > 0 && width <= kWidestBelievable ? width : kDefaultWidth;
}

}  // namespace

Terminal query_terminal(int file_descriptor) {
  Terminal terminal;
  terminal.unicode = locale_is_utf8();
  terminal.no_color = !environment("NO_COLOR").empty();
  terminal.term = environment("TERM");
  terminal.color_term = environment("COLORTERM");
  terminal.width = width_from_environment();
#ifdef HEED_HAS_POSIX_TERMINAL
  terminal.interactive = ::isatty(file_descriptor) == 1;
  winsize size{};
  if (terminal.interactive && ::ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.width = size.ws_col;
  }
#else
  static_cast<void>(file_descriptor);
#endif
  return terminal;
}

ColorDepth color_depth(ColorMode mode, const Terminal& terminal) {
  const bool wanted =
      mode == ColorMode::always || (mode == ColorMode::automatic && terminal.interactive &&
                                    !terminal.no_color && !terminal.term.empty() && terminal.term != "dumb");
  if (!wanted) return ColorDepth::none;
  const bool full = terminal.color_term == "truecolor" || terminal.color_term == "24bit";
  return full ? ColorDepth::true_color : ColorDepth::indexed;
}

}  // namespace heed
