#pragma once

// The layout of what plans print: a line of one subject begins with its name, and what comes behind the names
// is aligned.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace heed::detail {

inline std::string plan_line(const std::string& name, const std::string& text) {
  constexpr std::size_t width = 15;
  return "  " + name + std::string(width - std::min(width, name.size()), ' ') + text + "\n";
}

/// Sizes below a line, right-aligned, each with what it is of.
inline std::string plan_sizes(const std::vector<std::pair<std::size_t, std::string>>& sizes) {
  std::size_t width = 0;
  for (const auto& [bytes, what] : sizes) width = std::max(width, std::to_string(bytes).size());
  std::string text;
  for (const auto& [bytes, what] : sizes) {
    if (bytes == 0) continue;
    std::string line = std::to_string(bytes);
    line.insert(0, 2 + width - line.size(), ' ');
    line += "  ";
    line += what;
    text += plan_line("", line);
  }
  return text;
}

/// Lines with `blanks` before each but the first.
inline std::string indent_below(const std::string& lines, const std::string& blanks) {
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += lines[i];
    if (lines[i] == '\n' && i + 1 < lines.size()) text += blanks;
  }
  return text;
}

}  // namespace heed::detail
