// Lines of known width, put together to a picture.

#include "plot/text_block.hpp"

#include <algorithm>

namespace heed::plot {

std::string spaces(Index count) {
  return count > 0 ? std::string(static_cast<std::size_t>(count), ' ') : "";
}

std::string repeated(std::string_view text, Index count) {
  std::string all;
  for (Index i = 0; i < count; ++i) all += text;
  return all;
}

void TextBlock::add_note(std::string_view ascii, Index max_columns) {
  const auto limit = static_cast<std::size_t>(max_columns);
  while (ascii.size() > limit) {
    std::size_t cut = ascii.rfind(' ', limit);
    if (cut == std::string_view::npos || cut == 0) cut = limit;
    add(TextLine().ascii(ascii.substr(0, cut)));
    ascii.remove_prefix(cut);
    if (!ascii.empty() && ascii.front() == ' ') ascii.remove_prefix(1);
  }
  add(TextLine().ascii(ascii));
}

std::string TextBlock::str() const {
  Index widest = 0;
  std::size_t bytes = 0;
  for (const TextLine& line : lines_) {
    widest = std::max(widest, line.columns());
    bytes += line.text().size() + 1;
  }
  std::string all;
  all.reserve(bytes + lines_.size() * static_cast<std::size_t>(widest) / 2);
  for (const TextLine& line : lines_) {
    all += line.text();
    all += spaces(widest - line.columns());
    all += '\n';
  }
  return all;
}

}  // namespace heed::plot
