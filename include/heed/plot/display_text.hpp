#pragma once

// Text as a terminal shows it: how many columns it takes, and how to cut, pad and defuse it.
//
// A label may be any bytes: half a character (tokens of a byte-level vocabulary are), an escape sequence, a
// right-to-left override. What these functions return is always valid UTF-8 that stays on its line, sends no
// command to the terminal and takes exactly the columns that display_width() says.
//
// How width is measured: per code point, as wcwidth() does it and most terminals do. Chinese, Japanese and
// Korean characters and emoji take two columns, combining marks and the zero-width space none, a regional
// indicator one (so a flag takes two). Characters of ambiguous width, such as box-drawing lines, take one.
//
// How text is made safe ("escaped"):
//   - a control character becomes \t, \n, \r or \xHH; a C1 control (U+0080..U+009F) \uHHHH
//   - a byte that is no part of valid UTF-8 becomes \xHH
//   - characters that reorder or hide text (bidirectional controls, tags, soft hyphens, line separators: all
//     of category Cf, Zl, Zp but the zero-width space, non-joiner and word joiner) become \uHHHH or
//     \UHHHHHHHH, and so do code points that have no character assigned
//   - emoji sequences are taken apart, since terminals disagree about the width of a joined one: joiners and
//     variation selectors are left out, and a skin tone stands beside its emoji
//   - a combining mark that has nothing to stand on is put on a dotted circle
// A backslash is left as it is, so that escaping twice changes nothing.
//
// All functions may be called from any thread at once, and throw nothing but ArgumentError for a negative
// width and std::bad_alloc.

#include "heed/core/config.hpp"

#include <cstddef>
#include <string>
#include <string_view>

#include "heed/core/index.hpp"

namespace heed {

/// What the receiver of a text can show.
enum class Charset {
  utf8,
  ascii,  ///< Nothing above U+007E: every other character is escaped too, and "..." marks a cut.
};

/// Where padded() puts the text.
enum class Align { left, right, center };

/// Returns the text with everything a terminal could misread replaced, as described above.
/// escaped(escaped(s)) == escaped(s).
HEED_EXPORT std::string escaped(std::string_view text, Charset charset = Charset::utf8);

/// Returns the columns that escaped(text) takes in a terminal.
HEED_EXPORT Index display_width(std::string_view text);

/// Returns escaped(text), cut to at most `width` columns. A cut text ends in "…" (or "..."). No character,
/// escape or group of a character and its combining marks is ever cut in two.
HEED_EXPORT std::string truncated(std::string_view text, Index width, Charset charset = Charset::utf8);

/// Returns truncated(text, width), filled with spaces to exactly `width` columns.
HEED_EXPORT std::string padded(std::string_view text, Index width, Align align = Align::left,
                               Charset charset = Charset::utf8);

}  // namespace heed
