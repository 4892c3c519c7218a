#pragma once

// Lines that fit: what is written is broken between words, so that a terminal breaks no number in half.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "heed/plot/display_text.hpp"
#include "heed/plot/terminal.hpp"

namespace demo {

/// The columns to write in: the terminal's, or 80.
inline heed::Index columns() {
  return std::max<heed::Index>(20, heed::query_terminal().width);
}

/// The pieces in lines of at most `width` columns, with a blank between two on one line. The first line
/// begins with `label`, the others are indented as far, but never by more than half of the width. A piece is
/// never broken: one that is wider than a line has a line to itself.
inline std::string wrapped(const std::string& label, const std::vector<std::string>& pieces,
                           heed::Index width) {
  const heed::Index indent = std::min(heed::display_width(label), width / 2);
  std::string text = label;
  heed::Index used = heed::display_width(label);
  bool begun = false;
  for (const std::string& piece : pieces) {
    const heed::Index more = heed::display_width(piece);
    if (begun && used + 1 + more > width) {
      text.erase(text.find_last_not_of(' ') + 1);
      text.append(1, '\n').append(static_cast<std::size_t>(indent), ' ');
      used = indent;
    } else if (begun) {
      text += ' ';
      ++used;
    }
    text += piece;
    used += more;
    begun = true;
  }
  return text + "\n";
}

/// The same for a sentence, which is broken at its blanks.
inline std::string wrapped(const std::string& label, std::string_view sentence, heed::Index width) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= sentence.size();) {
    const std::size_t end = std::min(sentence.find(' ', at), sentence.size());
    words.emplace_back(sentence.substr(at, end - at));
    at = end + 1;
  }
  return wrapped(label, words, width);
}

}  // namespace demo
