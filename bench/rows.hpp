#pragma once

// Rows of figures for people: a table where the terminal is wide enough, otherwise a paragraph for each row,
// so that no line and no number is broken by the terminal.

#include <algorithm>
#include <string>
#include <vector>

#include "wrapped.hpp"

namespace heed::bench {

struct Field {
  std::string title;  ///< Of its column; empty if the value speaks for itself.
  std::string value;  ///< "-" if there is none.
  std::size_t width;  ///< Of its column.
};

struct Row {
  std::string label;
  std::vector<Field> fields;
};

inline std::string pad(const std::string& text, std::size_t width, bool left = false) {
  const std::string blanks(text.size() < width ? width - text.size() : 0, ' ');
  return left ? text + blanks : blanks + text;
}

/// The rows under the titles of the first one, or below each label its fields with their titles if a line
/// would be longer than `width`.
inline std::string rows_text(const std::string& heading, const std::vector<Row>& rows, Index width) {
  std::size_t label = std::max<std::size_t>(30, heading.size());
  std::size_t widest = 0;
  for (const Row& row : rows) {
    std::size_t own = 0;
    for (const Field& field : row.fields) own += field.width;
    label = std::max(label, row.label.size());
    widest = std::max(widest, own);
  }
  std::string text;
  if (static_cast<Index>(label + widest) <= width) {
    if (!rows.empty()) {
      text = pad(heading, label, true);
      for (const Field& field : rows.front().fields) text += pad(field.title, field.width);
      text += '\n';
    }
    for (const Row& row : rows) {
      text += pad(row.label, label, true);
      for (const Field& field : row.fields) text += pad(field.value, field.width);
      text += '\n';
    }
    return text;
  }
  for (const Row& row : rows) {
    std::vector<std::string> pieces;
    for (const Field& field : row.fields) {
      if (field.value != "-")
        pieces.push_back(field.title + (field.title.empty() ? "" : " ") + field.value + ",");
    }
    if (!pieces.empty()) pieces.back().pop_back();
    text += row.label + "\n" + demo::wrapped("    ", pieces, width);
  }
  return text;
}

}  // namespace heed::bench
