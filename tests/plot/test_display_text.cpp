// Texts of any bytes on a terminal: how many columns they take, what is escaped, and how they are cut and
// padded.

#include <string>

#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/plot/display_text.hpp"
#include "text_checks.hpp"

using heed::Align;
using heed::Charset;
using heed::display_width;
using heed::escaped;
using heed::padded;
using heed::truncated;

TEST_CASE("letters take one column, CJK and emoji two, marks and zero-width spaces none", "[display_text]") {
  CHECK(display_width("cat") == 3);
  CHECK(display_width("日本") == 4);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("👍") == 2);
  CHECK(display_width("\u200b") == 0);
  CHECK(display_width("") == 0);
  CHECK(display_width("🇯🇵") == 2);
  CHECK(display_width("ｗ") == 2);
  CHECK(display_width("\u1100\u1161\u11a8") == 2);
  CHECK(display_width("│▄⠤…") == 4);
}

TEST_CASE("control characters are shown as their escapes", "[display_text]") {
  CHECK(escaped("\t") == "\\t");
  CHECK(escaped("\n") == "\\n");
  CHECK(escaped("\r") == "\\r");
  CHECK(escaped("\x1b[31m") == "\\x1b[31m");
  CHECK(escaped("\x7f") == "\\x7f");
  CHECK(escaped("\u009b") == "\\u009b");
  CHECK(escaped(std::string("ab\0cd", 5)) == "ab\\x00cd");
}

TEST_CASE("every byte that is no part of a character is shown as its number", "[display_text]") {
  CHECK(escaped("\x80") == "\\x80");
  CHECK(escaped("\xf0\x9f") == "\\xf0\\x9f");
  CHECK(escaped("a\xff"
                "日") == "a\\xff日");
  CHECK(escaped("\xc0\xaf") == "\\xc0\\xaf");           // overlong
  CHECK(escaped("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(escaped("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

TEST_CASE("characters that reorder or hide text are escaped", "[display_text]") {
  CHECK(escaped("a\u202eb") == "a\\u202eb");
  CHECK(escaped("\u2067\u200f\u061c") == "\\u2067\\u200f\\u061c");
  CHECK(escaped("\ufeff\u2028\u00ad") == "\\ufeff\\u2028\\u00ad");
  CHECK(escaped("\U000e0041") == "\\U000e0041");
  CHECK(escaped("שלום") == "שלום");
}

TEST_CASE("emoji sequences are taken apart, so that all terminals agree on their width", "[display_text]") {
  CHECK(escaped("👩\u200d💻") == "👩💻");
  CHECK(escaped("❤\ufe0f") == "❤");
  CHECK(display_width("❤\ufe0f") == 1);
  CHECK(escaped("👍\U0001f3fd") == "👍\u200b\U0001f3fd");
  CHECK(display_width("👍\U0001f3fd") == 4);
  CHECK(escaped("\U0001f3fd") == "\U0001f3fd");
}

TEST_CASE("a combining mark with nothing to stand on stands on a dotted circle", "[display_text]") {
  CHECK(escaped("\u0301") == "\u25cc\u0301");
  CHECK(display_width("\u0301") == 1);
  CHECK(escaped("e\u0301\u0302") == "e\u0301\u0302");
  CHECK(display_width("\u200b\u0301") == 1);
}

TEST_CASE("escaping twice changes nothing, and widths agree with the C library's", "[display_text]") {
  for (const std::string& label : text_checks::odd_labels()) {
    CAPTURE(label);
    const std::string once = escaped(label);
    CHECK(text_checks::decode(once).valid);
    CHECK(escaped(once) == once);
    CHECK(display_width(once) == display_width(label));
    CHECK(display_width(label) == text_checks::c_library_width(once));
    const std::string ascii = escaped(label, Charset::ascii);
    CHECK(text_checks::is_ascii(ascii));
    CHECK(escaped(ascii, Charset::ascii) == ascii);
  }
}

TEST_CASE("every code point is drawn in the columns the C library gives it, or escaped", "[display_text]") {
  // Marks that take room of their own count as none here, where some C libraries say 1: left out of the
  // count. The tables may still be of different versions of Unicode, which differ in a few hundred
  // characters, under one percent. What must never happen is a control character or half a character.
  long compared = 0;
  long differing = 0;
  for (std::uint32_t code = 0x20; code < 0x20000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    const std::string text = text_checks::encode(code);
    const std::string safe = escaped(text);
    const text_checks::Decoded decoded = text_checks::decode(safe);
    bool clean = decoded.valid;
    for (const std::uint32_t shown : decoded.code_points) {
      clean = clean && !text_checks::is_control(shown) && !text_checks::is_treacherous(shown);
    }
    if (!clean) FAIL("U+" << std::hex << code << " is not safe");
    const long expected = text_checks::c_library_width(safe);
    const long width = display_width(text);
    if (expected < 0 || (width == 0 && expected == 1)) continue;
    ++compared;
    if (expected != width) ++differing;
  }
  CAPTURE(compared, differing);
  CHECK(compared > 60000);
  CHECK(differing < compared / 100);
}

TEST_CASE("a cut text fits, ends in an ellipsis and cuts no character, escape or mark from its letter",
          "[display_text]") {
  CHECK(truncated("abcdef", 6) == "abcdef");
  CHECK(truncated("abcdefg", 6) == "abcde…");
  CHECK(truncated("日本語", 5) == "日本…");
  CHECK(truncated("日本語", 4) == "日…");  // the second character would leave no room for the ellipsis
  CHECK(truncated("日本語", 6) == "日本語");
  CHECK(truncated("ae\u0301\u0302bcd", 3) == "ae\u0301\u0302…");
  CHECK(truncated("abe\u0301", 3) == "abe\u0301");
  CHECK(truncated("abce\u0301", 3) == "ab…");
  CHECK(truncated("a\x1b[31m", 4) == "a…");
  CHECK(truncated("日本", 1) == "…");
  CHECK(truncated("日本", 0).empty());
  CHECK(truncated("abcdefg", 6, Charset::ascii) == "abc...");
  CHECK(truncated("abcdefg", 2, Charset::ascii) == "..");
  CHECK(display_width(truncated(std::string(200, 'w'), 24)) == 24);
}

TEST_CASE("a padded text takes exactly the columns asked for, whatever it holds", "[display_text]") {
  CHECK(padded("ab", 5) == "ab   ");
  CHECK(padded("ab", 5, Align::right) == "   ab");
  CHECK(padded("ab", 5, Align::center) == " ab  ");
  CHECK(padded("日本語", 4) == "日… ");
  for (const std::string& label : text_checks::odd_labels()) {
    for (const heed::Index width : {0, 1, 2, 3, 4, 5, 7, 12, 250}) {
      CAPTURE(label, width);
      CHECK(text_checks::c_library_width(padded(label, width)) == width);
      CHECK(padded(label, width, Align::right, Charset::ascii).size() == static_cast<std::size_t>(width));
    }
  }
}

TEST_CASE("a negative width is an error that says so", "[display_text]") {
  try {
    truncated("cat", -3);
    FAIL("no error");
  } catch (const heed::ArgumentError& error) {
    CHECK(std::string(error.what()) == "width is -3, it must not be negative");
  }
}
