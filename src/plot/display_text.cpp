// Text that a terminal cannot misread, and the columns that it takes.

#include "heed/plot/display_text.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "heed/core/error.hpp"

namespace heed {
namespace {

using CodePoint = utf8proc_int32_t;

constexpr std::string_view kDottedCircle = "\u25cc";
constexpr std::string_view kZeroWidthSpace = "\u200b";

std::string hex(std::string_view prefix, std::uint32_t value, int digits) {
  constexpr std::string_view alphabet = "0123456789abcdef";
  std::string text(prefix);
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += alphabet[(value >> shift) & 0xFU];
  return text;
}

std::string escape_byte(unsigned char byte) {
  switch (byte) {
    case '\t':
      return "\\t";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    default:
      return hex("\\x", byte, 2);
  }
}

std::string escape_code_point(CodePoint code) {
  const auto value = static_cast<std::uint32_t>(code);
  if (value < 0x80) return escape_byte(static_cast<unsigned char>(value));
  return value <= 0xFFFF ? hex("\\u", value, 4) : hex("\\U", value, 8);
}

bool is_variation_selector(CodePoint code) {
  return (code >= 0xFE00 && code <= 0xFE0F) || (code >= 0xE0100 && code <= 0xE01EF);
}

bool is_skin_tone(CodePoint code) {
  return code >= 0x1F3FB && code <= 0x1F3FF;
}

bool is_emoji(CodePoint code) {
  return utf8proc_get_property(code)->boundclass == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC;
}

// A joiner or selector only chooses between glyphs; what it does to the width differs between terminals.
bool is_left_out(CodePoint code) {
  return code == 0x200D || is_variation_selector(code);
}

bool is_unsafe(CodePoint code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CF:
      return code != 0x200B && code != 0x200C && code != 0x2060;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return false;
  }
}

Index width_of(CodePoint code) {
  const auto bound = utf8proc_get_property(code)->boundclass;
  if (bound == UTF8PROC_BOUNDCLASS_REGIONAL_INDICATOR) return 1;
  // The vowels and finals of a Hangul syllable written in parts are drawn inside its first consonant.
  if (bound == UTF8PROC_BOUNDCLASS_V || bound == UTF8PROC_BOUNDCLASS_T) return 0;
  return utf8proc_charwidth(code);
}

// A zero-width character that is drawn onto the one before it; the space-like ones of category Cf are not.
bool is_mark(CodePoint code) {
  return width_of(code) == 0 && utf8proc_category(code) != UTF8PROC_CATEGORY_CF;
}

// Calls visit(text, columns) for each piece of the safe form of a text. A piece is one character or one
// escape; one of 0 columns belongs to the piece before it. visit returns false to stop.
template <class Visit>
void for_each_piece(std::string_view text, Charset charset, Visit visit) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  bool has_base = false;
  bool after_emoji = false;
  std::string piece;
  for (std::size_t at = 0; at < text.size();) {
    CodePoint code = -1;
    const std::size_t rest = std::min<std::size_t>(text.size() - at, 4);
    const auto used = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(rest), &code);
    const bool valid = used > 0;
    const std::size_t length = valid ? static_cast<std::size_t>(used) : 1;
    const std::string_view source = text.substr(at, length);
    at += length;

    Index columns = 0;
    bool emoji = false;
    if (!valid) {
      piece = escape_byte(static_cast<unsigned char>(source.front()));
      columns = static_cast<Index>(piece.size());
    } else if (code >= 0x20 && code < 0x7F) {
      piece = source;
      columns = 1;
    } else if (charset == Charset::utf8 && is_left_out(code)) {
      continue;
    } else if (charset == Charset::ascii || is_unsafe(code)) {
      piece = escape_code_point(code);
      columns = static_cast<Index>(piece.size());
    } else if (is_mark(code)) {
      piece = has_base ? std::string(source) : std::string(kDottedCircle).append(source);
      columns = has_base ? 0 : 1;
      emoji = after_emoji;
    } else {
      piece = is_skin_tone(code) && after_emoji ? std::string(kZeroWidthSpace).append(source)
                                                : std::string(source);
      columns = width_of(code);
      emoji = is_emoji(code);
    }
    has_base = has_base || columns > 0;
    after_emoji = emoji;
    if (!visit(std::string_view(piece), columns)) return;
  }
}

void require_width(Index width) {
  if (width < 0) throw_argument_error("width is " + std::to_string(width) + ", it must not be negative");
}

struct Cut {
  std::string text;
  Index columns = 0;
};

Cut cut_to(std::string_view text, Index width, Charset charset) {
  require_width(width);
  const Index mark_width = std::min<Index>(width, charset == Charset::utf8 ? 1 : 3);
  Cut all;
  std::size_t kept_bytes = 0;
  Index kept_columns = 0;
  bool fits = true;
  for_each_piece(text, charset, [&](std::string_view piece, Index columns) {
    if (all.columns + columns > width) {
      fits = false;
      return false;
    }
    all.text += piece;
    all.columns += columns;
    if (all.columns <= width - mark_width) {
      kept_bytes = all.text.size();
      kept_columns = all.columns;
    }
    return true;
  });
  if (fits) return all;
  all.text.resize(kept_bytes);
  if (mark_width > 0) {
    all.text += charset == Charset::utf8 ? "\u2026" : std::string(static_cast<std::size_t>(mark_width), '.');
  }
  all.columns = kept_columns + mark_width;
  return all;
}

}  // namespace

std::string escaped(std::string_view text, Charset charset) {
  std::string safe;
  safe.reserve(text.size());
  for_each_piece(text, charset, [&](std::string_view piece, Index) {
    safe += piece;
    return true;
  });
  return safe;
}

Index display_width(std::string_view text) {
  Index total = 0;
  for_each_piece(text, Charset::utf8, [&](std::string_view, Index columns) {
    total += columns;
    return true;
  });
  return total;
}

std::string truncated(std::string_view text, Index width, Charset charset) {
  return cut_to(text, width, charset).text;
}

std::string padded(std::string_view text, Index width, Align align, Charset charset) {
  const Cut cut = cut_to(text, width, charset);
  const auto space = static_cast<std::size_t>(width - cut.columns);
  const std::size_t before = align == Align::left ? 0 : align == Align::right ? space : space / 2;
  return std::string(before, ' ') + cut.text + std::string(space - before, ' ');
}

}  // namespace heed
