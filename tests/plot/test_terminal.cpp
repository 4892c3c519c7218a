// What a terminal shows: colors, Unicode, and who decides.

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "catch.hpp"
#include "heed/plot/heat_map.hpp"
#include "heed/plot/terminal.hpp"

using heed::color_depth;
using heed::ColorDepth;
using heed::ColorMode;
using heed::Terminal;

namespace {

Terminal capable() {
  Terminal terminal;
  terminal.interactive = true;
  terminal.unicode = true;
  terminal.term = "xterm-256color";
  return terminal;
}

}  // namespace

TEST_CASE("automatic color needs an interactive terminal that is not dumb, and no NO_COLOR", "[terminal]") {
  CHECK(color_depth(ColorMode::automatic, capable()) == ColorDepth::indexed);
  Terminal pipe = capable();
  pipe.interactive = false;
  CHECK(color_depth(ColorMode::automatic, pipe) == ColorDepth::none);
  Terminal dumb = capable();
  dumb.term = "dumb";
  CHECK(color_depth(ColorMode::automatic, dumb) == ColorDepth::none);
  dumb.term = "";
  CHECK(color_depth(ColorMode::automatic, dumb) == ColorDepth::none);
  Terminal plain = capable();
  plain.no_color = true;
  CHECK(color_depth(ColorMode::automatic, plain) == ColorDepth::none);
}

TEST_CASE("an explicit choice of color wins over the environment", "[terminal]") {
  Terminal plain;
  plain.no_color = true;
  CHECK(color_depth(ColorMode::always, plain) == ColorDepth::indexed);
  CHECK(color_depth(ColorMode::never, capable()) == ColorDepth::none);
}

TEST_CASE("24-bit color is written only where COLORTERM promises it", "[terminal]") {
  Terminal terminal = capable();
  for (const char* value : {"truecolor", "24bit"}) {
    terminal.color_term = value;
    CHECK(color_depth(ColorMode::automatic, terminal) == ColorDepth::true_color);
    CHECK(color_depth(ColorMode::always, terminal) == ColorDepth::true_color);
  }
  terminal.color_term = "yes";
  CHECK(color_depth(ColorMode::automatic, terminal) == ColorDepth::indexed);
}

TEST_CASE("the form of a heat map follows colors first, then Unicode", "[terminal]") {
  using heed::HeatMapForm;
  CHECK(heed::heat_map_form(ColorDepth::true_color, false) == HeatMapForm::true_color);
  CHECK(heed::heat_map_form(ColorDepth::indexed, true) == HeatMapForm::indexed_color);
  CHECK(heed::heat_map_form(ColorDepth::none, true) == HeatMapForm::blocks);
  CHECK(heed::heat_map_form(ColorDepth::none, false) == HeatMapForm::ascii);
}

TEST_CASE("the query reads the environment, and a file is no terminal", "[terminal]") {
  const int file = ::open("/dev/null", O_WRONLY);
  REQUIRE(file >= 0);
  ::setenv("TERM", "xterm", 1);
  ::setenv("NO_COLOR", "1", 1);
  ::setenv("COLORTERM", "truecolor", 1);
  ::setenv("COLUMNS", "123", 1);
  ::setenv("LC_ALL", "de_DE.utf8", 1);
  Terminal found = heed::query_terminal(file);
  CHECK_FALSE(found.interactive);
  CHECK(found.no_color);
  CHECK(found.term == "xterm");
  CHECK(found.color_term == "truecolor");
  CHECK(found.width == 123);
  CHECK(found.unicode);
  ::setenv("NO_COLOR", "", 1);  // set but empty counts as not set
  ::setenv("LC_ALL", "POSIX", 1);
  ::setenv("LANG", "en_US.UTF-8", 1);  // LC_ALL wins
  found = heed::query_terminal(file);
  CHECK_FALSE(found.no_color);
  CHECK_FALSE(found.unicode);
  for (const char* nonsense : {"0", "-5", "many", "80x", "99999999999999999999", ""}) {
    ::setenv("COLUMNS", nonsense, 1);
    CHECK(heed::query_terminal(file).width == 80);
  }
  ::close(file);
}
