// Curves and scatter plots: axes, gaps, legends and labels, in lines of one width.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/plot/curves.hpp"
#include "text_checks.hpp"

using heed::Charset;
using heed::LabeledPoint;
using heed::plot_curve;
using heed::plot_curves;
using heed::plot_scatter;
using heed::PlotOptions;
using text_checks::flaw_of;
using text_checks::lines_of;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

PlotOptions ascii(heed::Index width = 40, heed::Index height = 5) {
  PlotOptions options;
  options.charset = Charset::ascii;
  options.width = width;
  options.height = height;
  return options;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::size_t count_of(const std::string& text, char wanted) {
  std::size_t count = 0;
  for (const char c : text) count += c == wanted ? 1U : 0U;
  return count;
}

// The text inside the frame of a row, right of the y axis.
std::string inside(const std::string& line) {
  const std::size_t axis = line.find_first_of("|+");
  return axis == std::string::npos ? "" : line.substr(axis + 1);
}

template <class Error, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<double> ramp(std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>(i);
  return values;
}

}  // namespace

TEST_CASE("a rising line goes from the lower left to the upper right corner, between labeled axes",
          "[plot]") {
  CHECK(plot_curve(ramp(5), ascii()) ==
        "4 +                                *****\n"
        "  |                       *********     \n"
        "2 +              *********              \n"
        "  |     *********                       \n"
        "0 +*****                                \n"
        "  ++-----------------+-----------------+\n"
        "   0                 2                 4\n");
}

TEST_CASE("Braille dots resolve what a character cannot: four heights within one line", "[plot]") {
  PlotOptions options;
  options.width = 40;
  options.height = 3;
  options.y_range = heed::ValueRange{0, 11};  // 3 lines of 4 dots
  for (int level = 0; level < 12; ++level) {
    const std::vector<std::string> lines = lines_of(plot_curve(std::vector<double>(2, level), options));
    const auto row = static_cast<std::size_t>(2 - level / 4);
    const char* dots[] = {"⣀", "⠤", "⠒", "⠉"};
    CHECK(contains(lines[row], dots[level % 4]));
  }
}

TEST_CASE("every line of a plot has one width, with wide names, titles and labels of any bytes", "[plot]") {
  std::vector<heed::Series> series;
  std::vector<LabeledPoint> points;
  for (const std::string& label : text_checks::odd_labels()) {
    const auto i = static_cast<double>(series.size());
    series.push_back({label, {}, {i, std::sin(i), -i}});
    points.push_back({std::sin(i * 1.7), std::cos(i * 2.3), label});
  }
  for (const Charset charset : {Charset::utf8, Charset::ascii}) {
    for (const bool color : {false, true}) {
      for (const heed::Index width : {40, 41, 80, 133}) {
        PlotOptions options;
        options.charset = charset;
        options.color = color;
        options.width = width;
        for (const std::string& label : text_checks::odd_labels()) {
          options.title = options.x_label = options.y_label = label;
          const std::string curves = plot_curves(series, options);
          const std::string scatter = plot_scatter(points, options);
          CAPTURE(label, curves, scatter);
          CHECK(flaw_of(curves, width, color) == "");
          CHECK(flaw_of(scatter, width, color) == "");
          if (charset == Charset::ascii) CHECK(text_checks::is_ascii(curves + scatter));
        }
      }
    }
  }
}

TEST_CASE("no series, an empty series, one point and equal values all have a plot", "[plot]") {
  for (const Charset charset : {Charset::utf8, Charset::ascii}) {
    PlotOptions options;
    options.charset = charset;
    CHECK(contains(plot_curves({}, options), "no points to draw"));
    CHECK(contains(plot_curve(std::vector<double>{}, options), "no points to draw"));
    CHECK(contains(plot_scatter({}, options), "no points to draw"));
    for (const double value : {0.0, 3.0, -1e-300, 5e-324, 1.7e308, -1.7e308}) {
      CAPTURE(value);
      CHECK(flaw_of(plot_curve(std::vector<double>{value}, options), 80) == "");
      CHECK(flaw_of(plot_curve(std::vector<double>(7, value), options), 80) == "");
      CHECK(flaw_of(plot_scatter({{value, value, "one"}}, options), 80) == "");
    }
  }
  const std::string one = plot_curve(std::vector<double>{3}, ascii());
  CHECK(count_of(one, '*') == 1);
  CHECK(inside(lines_of(one)[2]).find('*') != std::string::npos);  // in the middle of the five rows
  const std::vector<std::string> flat = lines_of(plot_curve(std::vector<double>(9, 3), ascii()));
  CHECK(inside(flat[2]).find_first_not_of('*') == std::string::npos);
}

TEST_CASE("a NaN or infinity is a gap in the line, and counted; a lone point between gaps is seen",
          "[plot]") {
  std::vector<double> values(38, 1.0);
  values[10] = nan_value;
  values[11] = nan_value;
  values[13] = infinity;
  PlotOptions options = ascii(41);
  const std::string picture = plot_curve(values, options);
  CHECK(contains(picture, "3 points not finite, left out"));
  const std::string row = inside(lines_of(picture)[2]);
  const std::size_t columns = row.size();
  std::size_t gaps = 0;
  for (std::size_t i = 1; i < columns; ++i) gaps += row[i] == ' ' && row[i - 1] == '*' ? 1U : 0U;
  CHECK(gaps == 2);
  CHECK(contains(row, " * "));
  CHECK(count_of(plot_curve(std::vector<double>{nan_value, nan_value}, options), '*') == 0);
}

TEST_CASE("a logarithmic axis makes equal factors equal heights, and leaves out what is not positive",
          "[plot]") {
  PlotOptions options = ascii(60, 9);
  options.log_y = true;
  options.y_range = heed::ValueRange{1, 1e4};
  options.x_range = heed::ValueRange{0, 4};
  const std::vector<std::string> lines =
      lines_of(plot_curves({{"", {0, 0, 2, 2, 4}, {1, -1, 100, 0, 1e4}}}, options));
  CHECK(count_of(lines[8], '*') == 1);
  CHECK(count_of(lines[4], '*') == 1);
  CHECK(count_of(lines[0], '*') == 1);
  CHECK(contains(lines[0], "1e+04"));
  CHECK(contains(lines[4], "100"));
  CHECK(contains(lines.back(), "2 points not above 0, left out of the logarithmic axis"));
  options.y_range = heed::ValueRange{0, 1};
  CHECK(message_of<heed::ArgumentError>([&] { plot_curve(ramp(3), options); }) ==
        "y_range starts at 0, on a logarithmic axis it must start above 0");
  options.y_range.reset();
  for (const double value : {5e-324, 1.0, 1.7e308}) {
    CHECK(flaw_of(plot_curve(std::vector<double>{value, value / 2, value}, options), 60) == "");
  }
  CHECK(flaw_of(plot_curve(std::vector<double>{5e-324, 1.7e308}, options), 60) == "");
}

TEST_CASE("more points than columns are all drawn: a spike of one value in a million is seen", "[plot]") {
  std::vector<double> values(1000000, 0.0);
  values[654321] = 1;
  const std::string picture = plot_curve(values, ascii(60, 9));
  const std::vector<std::string> lines = lines_of(picture);
  CHECK(count_of(lines[0], '*') == 1);
  CAPTURE(picture);
  CHECK(contains(picture, "1000000 points in 57 columns: each column spans"));
}

TEST_CASE("series are told apart by dashes or marks, and named in the legend", "[plot]") {
  const std::vector<heed::Series> series{
      {"one", {}, {1, 1, 1}}, {"two", {}, {2, 2, 2}}, {"three", {}, {3, 3, 3}}};
  const std::string text = plot_curves(series, ascii(60, 7));
  CHECK(contains(lines_of(text)[0], "**** one   oooo two   ++++ three"));
  PlotOptions options;
  options.width = 60;
  options.height = 7;
  const std::string dots = plot_curves(series, options);
  CHECK(contains(lines_of(dots)[0], "⠤⠤⠤⠤ one"));
  CHECK(contains(lines_of(dots)[0], "⠤⠤⠄  two"));
  CHECK_FALSE(contains(dots, "\x1b"));
  options.color = true;
  CHECK(contains(plot_curves(series, options), "\x1b[38;5;"));
}

TEST_CASE("a given range cuts lines at the frame and counts the points outside", "[plot]") {
  PlotOptions options = ascii(40, 5);
  options.y_range = heed::ValueRange{0, 1};
  const std::string picture = plot_curve(std::vector<double>{0.5, 1e300, -1e300, 0.5}, options);
  CHECK(contains(picture, "2 points outside of the range"));
  CHECK(flaw_of(picture, 40) == "");
}

TEST_CASE("ticks are round numbers that differ from one another", "[plot]") {
  const auto axis_texts = [](double low, double high) {
    std::vector<std::string> texts;
    const std::string picture = plot_curve(std::vector<double>{low, high}, ascii(70, 13));
    for (const std::string& line : lines_of(picture)) {
      const std::size_t axis = line.find(" +");
      if (axis == std::string::npos || line.find("--") != std::string::npos) continue;
      texts.push_back(line.substr(0, axis));
    }
    return texts;
  };
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{{0, 1},
                                                                        {-3, 17},
                                                                        {0.001, 0.0014},
                                                                        {1e6, 1e6 + 0.01},
                                                                        {-1e300, 1e300},
                                                                        {1e-300, 3e-300},
                                                                        {99999, 100001},
                                                                        {2e-5, 7e-5}}) {
    const std::vector<std::string> texts = axis_texts(low, high);
    CAPTURE(low, high, texts);
    CHECK(texts.size() >= 2);
    CHECK(texts.size() <= 8);
    for (std::size_t i = 1; i < texts.size(); ++i) {
      CHECK(texts[i] != texts[i - 1]);
      CHECK(std::stold(texts[i - 1]) > std::stold(texts[i]));
    }
  }
}

TEST_CASE("a scatter plot puts points where they are, with their labels beside them", "[plot]") {
  PlotOptions options = ascii(40, 5);
  options.x_range = heed::ValueRange{0, 1};
  options.y_range = heed::ValueRange{0, 1};
  const std::vector<std::string> lines =
      lines_of(plot_scatter({{0, 1, "nw"}, {1, 0, "se"}, {0.5, 0.5, "mid"}}, options));
  CHECK(inside(lines[0]).substr(0, 4) == "o nw");
  CHECK(contains(inside(lines[2]), "o mid"));
  const std::string last = inside(lines[4]);
  CHECK(last.substr(last.size() - 4) == "se o");  // no room on the right of the last column
}

TEST_CASE("labels never cover points or each other; the rest is shortened or left out, and counted",
          "[plot]") {
  PlotOptions options = ascii(40, 5);
  std::vector<LabeledPoint> crowd;
  for (int i = 0; i < 40; ++i) crowd.push_back({i % 20 * 1.0, i / 20 * 1.0, "label" + std::to_string(i)});
  const std::string picture = plot_scatter(crowd, options);
  CHECK(flaw_of(picture, 40) == "");
  std::string area;
  for (std::size_t row = 0; row < 5; ++row) area += inside(lines_of(picture)[row]);
  CHECK(count_of(area, 'o') == 40);  // the labels have no such letter
  std::size_t whole = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string label = "label" + std::to_string(i);
    for (std::size_t at = area.find(label); at != std::string::npos; at = area.find(label, at + 1)) {
      const char after = at + label.size() < area.size() ? area[at + label.size()] : ' ';
      if (after < '0' || after > '9') ++whole;
    }
  }
  const auto number_before = [&](std::string_view what) -> std::size_t {
    for (const std::string& line : lines_of(picture)) {
      if (line.find(what) != std::string::npos) return std::stoul(line);
    }
    return 0;
  };
  const std::size_t shortened = number_before("shortened");
  const std::size_t left_out = number_before("without room, left out");
  CHECK(whole > 0);
  CHECK(left_out > 0);
  CHECK(whole + shortened + left_out == 40);
}

TEST_CASE("points in one cell and points that are not finite are counted", "[plot]") {
  const std::string picture = plot_scatter(
      {{0, 0, "a"}, {0, 0, "b"}, {1, 1, "c"}, {nan_value, 0, "d"}, {0, -infinity, "e"}}, ascii());
  CHECK(contains(picture, "1 point in the cell of another"));
  CHECK(contains(picture, "2 points not finite, left out"));
}

TEST_CASE("sizes that do not fit and options out of their bounds are errors that name them", "[plot]") {
  CHECK(message_of<heed::ShapeError>([] {
          plot_curves({{"ok", {}, {1}}, {"bad\n", {1, 2}, {1, 2, 3}}});
        }) == "series 1 (bad\\n) has 2 x and 3 y");
  const auto error_with = [](auto change) {
    PlotOptions options;
    change(options);
    return message_of<heed::ArgumentError>([&] { plot_curve(ramp(3), options); });
  };
  CHECK(error_with([](auto& o) { o.width = 39; }) == "width is 39, it must be from 40 to 100000");
  CHECK(error_with([](auto& o) { o.height = 2; }) == "height is 2, it must be from 3 to 10000");
  CHECK(error_with([](auto& o) { o.max_label_width = 0; }) ==
        "max_label_width is 0, it must be from 1 to 100000");
  CHECK(error_with([](auto& o) {
          o.y_range = heed::ValueRange{2, 1};
        }) == "y_range is [2, 1], it must be finite with low < high");
  CHECK(error_with([](auto& o) {
          o.x_range = heed::ValueRange{0, nan_value};
        }) == "x_range is [0, nan], it must be finite with low < high");
  PlotOptions log;
  log.log_y = true;
  CHECK(message_of<heed::ArgumentError>([&] { plot_scatter({}, log); }) ==
        "log_y is set, a scatter plot has linear axes only");
}

TEST_CASE("axes up to the largest finite number have labels that are numbers", "[plot]") {
  constexpr double largest = std::numeric_limits<double>::max();
  for (const double value : {1.7e308, largest, 1e308, 0.9e308, 4e307}) {
    for (const double other : {-value, 0.0, value / 2, -value / 3}) {
      for (const heed::Index height : {3, 5, 16}) {
        CAPTURE(value, other, height);
        PlotOptions options = ascii(60, height);
        const std::string curve = plot_curves({{"", {other, value}, {other, value}}}, options);
        const std::string points = plot_scatter({{other, value, ""}, {value, other, ""}}, options);
        for (const std::string& picture : {curve, points}) {
          CAPTURE(picture);
          CHECK_FALSE(contains(picture, "nan"));
          CHECK_FALSE(contains(picture, "inf"));
        }
        // Points have margins, within which a small picture may have no tick but 0, at any scale.
        CHECK(contains(curve, "e+30"));
      }
    }
    PlotOptions options = ascii(60, 8);
    options.log_y = true;
    for (const double low : {5e-324, 1.0, value / 2, value / 30}) {
      const std::string picture = plot_curve(std::vector<double>{low, value}, options);
      CAPTURE(value, low, picture);
      CHECK_FALSE(contains(picture, "nan"));
      CHECK_FALSE(contains(picture, "inf"));
    }
  }
}
