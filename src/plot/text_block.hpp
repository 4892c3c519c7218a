#pragma once

// Pictures as lines of text, whose widths are known.

#include <string>
#include <string_view>
#include <vector>

#include "heed/plot/display_text.hpp"

namespace heed::plot {

/// Spaces; none for a count below 1.
std::string spaces(Index count);

/// The text `count` times over.
std::string repeated(std::string_view text, Index count);

/// A line under construction, which knows the columns it takes. Color sequences are added as taking none.
class TextLine {
 public:
  TextLine& add(std::string_view text, Index columns) {
    text_ += text;
    columns_ += columns;
    return *this;
  }
  TextLine& ascii(std::string_view text) { return add(text, static_cast<Index>(text.size())); }
  TextLine& gap(Index columns) { return add(spaces(columns), columns < 0 ? 0 : columns); }

  [[nodiscard]] Index columns() const { return columns_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  Index columns_ = 0;
};

/// Lines that end up equally wide.
class TextBlock {
 public:
  void add(TextLine line) { lines_.push_back(std::move(line)); }

  /// Adds plain ASCII prose, broken between words where it would pass max_columns.
  void add_note(std::string_view ascii, Index max_columns);

  /// All lines, filled up with spaces to the widest, each ended by '\n'.
  [[nodiscard]] std::string str() const;

 private:
  std::vector<TextLine> lines_;
};

}  // namespace heed::plot
