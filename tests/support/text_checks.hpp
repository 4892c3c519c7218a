#pragma once

// What a picture in text must be, checked without the library's own decoder and width table.

#include <wchar.h>

#include <array>
#include <clocale>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace text_checks {

/// The code points of valid UTF-8; `valid` is false if it is not (overlong forms and surrogates included).
struct Decoded {
  std::vector<std::uint32_t> code_points{};
  bool valid = true;
};

inline Decoded decode(std::string_view text) {
  Decoded result;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    std::uint32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    bool good = lead < 0x80 || (lead >= 0xC2 && lead <= 0xF4);
    good = good && i + length <= text.size();
    for (std::size_t k = 1; good && k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      good = (byte & 0xC0U) == 0x80U;
      code = code << 6 | (byte & 0x3FU);
    }
    constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
    good = good && code >= least[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (!good) return {{}, false};
    result.code_points.push_back(code);
    i += length;
  }
  return result;
}

/// The UTF-8 of a code point.
inline std::string encode(std::uint32_t code) {
  std::string text;
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto tail = [&](unsigned shift) { put(0x80U | (code >> shift & 0x3FU)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    put(0xE0U | code >> 12);
    tail(6);
    tail(0);
  } else {
    put(0xF0U | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
  return text;
}

inline bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

inline bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

/// Characters that reorder or hide what stands around them.
inline bool is_treacherous(std::uint32_t code) {
  return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x206F) || code == 0xFEFF || (code >= 0xE0000 && code <= 0xE007F);
}

/// The text without color sequences ESC [ digits and semicolons m; any other escape stays and is found as a
/// control.
inline std::string without_colors(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
      const std::size_t end = text.find_first_not_of("0123456789;", i + 2);
      if (end != std::string_view::npos && text[end] == 'm') {
        i = end;
        continue;
      }
    }
    plain += text[i];
  }
  return plain;
}

/// Columns by the C library's table; -1 for what it cannot print.
inline long c_library_width(std::string_view text) {
  static const bool has_locale =
      std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr || std::setlocale(LC_CTYPE, "en_US.UTF-8") != nullptr;
  if (!has_locale) return -1;
  long width = 0;
  for (const std::uint32_t code : decode(text).code_points) {
    const int columns = ::wcwidth(static_cast<wchar_t>(code));
    if (columns < 0) return -1;
    width += columns;
  }
  return width;
}

inline std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      lines.emplace_back(text);
      break;
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

/// Empty if the picture is sound: valid UTF-8, every line ended and of one width (at most max_width), no
/// control characters but line ends and colors, nothing that reorders text. Otherwise what is wrong with it.
/// columns_of: how many columns a line takes, negative if that cannot be said.
template <class ColumnsOf = long (*)(std::string_view)>
std::string flaw_of(std::string_view picture, long max_width, bool may_have_colors = false,
                    const ColumnsOf& columns_of = c_library_width) {
  if (picture.empty() || picture.back() != '\n') return "the last line is not ended";
  const std::string plain = may_have_colors ? without_colors(picture) : std::string(picture);
  long width = -1;
  for (const std::string& line : lines_of(plain)) {
    const Decoded decoded = decode(line);
    if (!decoded.valid) return std::string("not UTF-8: ") + line;
    for (const std::uint32_t code : decoded.code_points) {
      if (is_control(code)) return std::string("a raw control character: ") + std::to_string(code);
      if (is_treacherous(code))
        return std::string("a character that reorders or hides: ") + std::to_string(code);
    }
    const long columns = columns_of(line);
    if (columns < 0) return std::string("a character without width: ") + line;
    if (columns > max_width) return std::to_string(columns) + " columns: " + line;
    if (width >= 0 && columns != width) {
      return std::to_string(columns) + " columns after lines of " + std::to_string(width) + ": " + line;
    }
    width = columns;
  }
  return "";
}

/// Labels that real vocabularies have, and worse.
inline std::vector<std::string> odd_labels() {
  return {"cat",
          "日本",
          "e\u0301",
          "👍",
          "\u200b",
          "",
          "\t",
          "\n",
          "\x1b[31m",
          "\x80",
          std::string("\xf0\x9f", 2),                  // a 4-byte character cut in half
          std::string(200, 'w'),                       // 200 letters
          std::string("ab\0cd", 5),                    // a NUL inside
          "\u0301",                                    // a mark with nothing to stand on
          "👩\u200d💻",                                  // joined emoji
          "❤\ufe0f",                                   // a variation selector
          "👍\U0001f3fd",                               // a skin tone
          "🇯🇵",                                        // a flag
          "a\u202ecba",                                // right-to-left override
          "\u0085\u009b31m",                           // C1: next line, control sequence introducer
          "\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xff",  // overlong, surrogate, beyond U+10FFFF
          "\u2066x\u2069\u200f\ufeff\u2028",           // isolates, mark, byte order mark, line separator
          "\U000e0041\U000e007f",                      // tags
          "\u1100\u1161\u11a8",                        // Hangul in parts
          "ｗｉｄｅ",                                  // fullwidth letters
          "שלום",
          "\r\x7f\x01",
          "\U0010ffff\u0378",  // right-to-left letters, controls, unassigned
          "日本語日本語日本語日本語日本語日本語日本語日本語"};
}

}  // namespace text_checks
