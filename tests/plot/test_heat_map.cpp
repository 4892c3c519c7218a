// Heat maps: their forms, labels, ranges and blocks, and that no picture is wider than the terminal.

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "heed/core/error.hpp"
#include "heed/plot/heat_map.hpp"
#include "text_checks.hpp"

using heed::heat_map;
using heed::HeatMapForm;
using heed::HeatMapOptions;
using heed::Index;
using text_checks::flaw_of;
using text_checks::lines_of;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::array<HeatMapForm, 4> all_forms{HeatMapForm::blocks, HeatMapForm::ascii,
                                               HeatMapForm::indexed_color, HeatMapForm::true_color};

bool colored(HeatMapForm form) {
  return form == HeatMapForm::indexed_color || form == HeatMapForm::true_color;
}

// The weights of a causal attention head over four tokens.
Eigen::MatrixXd causal_weights() {
  Eigen::MatrixXd weights(4, 4);
  weights << 1, 0, 0, 0,                                                //
      0.559156301362177, 0.44084369863782297, 0, 0,                     //
      0.3990195727913041, 0.32255793661738685, 0.27842249059130897, 0,  //
      0.32216308597928495, 0.2530353773145677, 0.2144714750905351, 0.21033006161561218;
  return weights;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
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

}  // namespace

TEST_CASE("weights are drawn as full eighths of 1", "[heat_map]") {
  CHECK(heat_map(causal_weights()) == "█   \n▄▃  \n▃▂▂ \n▂▂▁▁\n");
  std::vector<double> row;
  for (int i = 0; i <= 8; ++i) row.push_back(i / 8.0);
  CHECK(heat_map(row, 1, 9) == " ▁▂▃▄▅▆▇█\n");
  for (double& value : row) value = std::nextafter(value, -1.0);
  row[0] = 0;
  CHECK(heat_map(row, 1, 9) == "  ▁▂▃▄▅▆▇\n");  // just below an eighth has not reached it
}

TEST_CASE("one matrix in memory, by strides, through a function and as an Eigen expression is one picture",
          "[heat_map]") {
  const Eigen::MatrixXd weights = causal_weights();
  const Eigen::Matrix<float, 4, 4, Eigen::RowMajor> by_rows = weights.cast<float>();
  const std::vector<float> dense(by_rows.data(), by_rows.data() + 16);
  const std::span<const double> by_columns(weights.data(), 16);
  const std::string expected = heat_map(weights);
  CHECK(heat_map(dense, 4, 4) == expected);
  CHECK(heat_map(by_columns, 4, 4, 1, 4) == expected);
  CHECK(heat_map(4, 4, [&](Index i, Index j) { return weights(i, j); }) == expected);
  CHECK(heat_map(weights.block(0, 0, 4, 4)) == expected);
  CHECK(heat_map((weights * 2).array() / 2) == expected);
  CHECK(heat_map(weights.transpose()) != expected);
}

TEST_CASE("the ASCII form shows numbers under aligned labels", "[heat_map]") {
  HeatMapOptions options;
  options.form = HeatMapForm::ascii;
  options.row_labels = {"I", "like", "deep", "nets"};
  options.col_labels = options.row_labels;
  CHECK(heat_map(causal_weights(), options) ==
        "          I like deep nets  \n"
        "   I | 1.00    0    0    0 |\n"
        "like | 0.56 0.44    0    0 |\n"
        "deep | 0.40 0.32 0.28    0 |\n"
        "nets | 0.32 0.25 0.21 0.21 |\n");
  options.ascii_cells = heed::AsciiCells::ramp;
  CHECK(heat_map(causal_weights(), options) ==
        "       I   like deep nets \n"
        "   I |@@@@               |\n"
        "like |++++ ====          |\n"
        "deep |==== ---- ----     |\n"
        "nets |---- ---- :::: ::::|\n"
        "     0 | :-=+*#%@| 1      \n");
}

TEST_CASE("without labels the ASCII form numbers rows and columns", "[heat_map]") {
  HeatMapOptions options;
  options.form = HeatMapForm::ascii;
  CHECK(heat_map(Eigen::MatrixXd::Constant(2, 2, 0.25), options) ==
        "        0     1  \n"
        "0 | 0.250 0.250 |\n"
        "1 | 0.250 0.250 |\n");
}

TEST_CASE("odd labels leave every form aligned, valid UTF-8 and free of raw controls", "[heat_map]") {
  const std::vector<std::string> labels = text_checks::odd_labels();
  const auto count = static_cast<Index>(labels.size());
  for (const HeatMapForm form : all_forms) {
    for (const bool numbers : {false, true}) {
      HeatMapOptions options;
      options.form = form;
      options.title = labels[7] + labels[8] + labels[11];
      options.ascii_cells = numbers ? heed::AsciiCells::numbers : heed::AsciiCells::ramp;
      // all together, then each alone in a small map where every cell is as wide as its label
      options.row_labels = options.col_labels = labels;
      const auto value = [](Index i, Index j) { return std::abs(std::sin(static_cast<double>(3 * i + j))); };
      CHECK(flaw_of(heat_map(count, count, value, options), 80, colored(form)).empty());
      for (const std::string& label : labels) {
        options.row_labels = options.col_labels = {"a", label, "b"};
        const std::string picture = heat_map(3, 3, value, options);
        CAPTURE(label, picture);
        CHECK(flaw_of(picture, 80, colored(form)) == "");
        if (form == HeatMapForm::ascii) CHECK(text_checks::is_ascii(picture));
        CHECK(lines_of(text_checks::without_colors(picture)).size() >= 5);  // title, header and three rows
      }
    }
  }
}

TEST_CASE("a label with a NUL is shown whole and the map goes on after it", "[heat_map]") {
  HeatMapOptions options;
  options.row_labels = {std::string("ab\0cd", 5), "next"};
  const std::string picture = heat_map(Eigen::MatrixXd::Ones(2, 3), options);
  CHECK(picture == "ab\\x00cd │███│\n    next │███│\n");
}

TEST_CASE("a long label is cut with an ellipsis at max_label_width", "[heat_map]") {
  HeatMapOptions options;
  options.max_label_width = 8;
  options.row_labels = {std::string(200, 'w'), "日本語日本語"};
  CHECK(heat_map(Eigen::MatrixXd::Ones(2, 1), options) == "wwwwwww… │█│\n 日本語… │█│\n");
}

TEST_CASE("NaN and infinities have marks of their own and do not stretch the range", "[heat_map]") {
  const std::vector<double> values{0, nan_value, 1, infinity, 0.5, -infinity};
  CHECK(heat_map(values, 1, 6) ==
        " ?█!▄." + std::string(51, ' ') + "\n? is NaN (1 cell), ! is +inf (1 cell), . is -inf (1 cell)\n");
  for (const HeatMapForm form : all_forms) {
    HeatMapOptions options;
    options.form = form;
    options.ascii_cells = heed::AsciiCells::ramp;
    const std::string picture = heat_map(values, 1, 6, options);
    CHECK(flaw_of(picture, 80, colored(form)) == "");
    CHECK(contains(picture, "? is NaN (1 cell)"));
  }
  HeatMapOptions numbers;
  numbers.form = HeatMapForm::ascii;
  const std::string table = heat_map(values, 1, 6, numbers);
  CHECK_FALSE(contains(table, "nan"));
  CHECK(contains(table, " ? "));
  CHECK(contains(table, "? is NaN (1 cell)"));
  CHECK_FALSE(contains(table, "+inf"));
  CHECK(contains(table, "-inf"));
  CHECK(contains(table, "-inf"));
  CHECK(heat_map(std::vector<double>(3, nan_value), 1, 3).substr(0, 3) == "???");
}

TEST_CASE("values outside of a given range are drawn as its ends, and counted", "[heat_map]") {
  HeatMapOptions options;
  options.range = heed::ValueRange{0, 1};
  const std::string picture = heat_map(std::vector<double>{-3, 0.5, 2, 7}, 1, 4, options);
  CHECK(picture.substr(0, 10) == " ▄██");
  CHECK(contains(picture, "1 cell below 0 drawn as the lowest level"));
  CHECK(contains(picture, "2 cells above 1 drawn as the highest level"));
}

TEST_CASE("the range is 0 to 1 for weights, 0 to the largest for tiny ones, else all of the values",
          "[heat_map]") {
  CHECK(heat_map(std::vector<double>{0.5, 0.25}, 1, 2) == "▄▂\n");
  CHECK(lines_of(heat_map(std::vector<double>{0.02, 0.01}, 1, 2)).front().substr(0, 6) == "█▄");
  CHECK(contains(heat_map(std::vector<double>{0.02, 0.01}, 1, 2), "0 │ ▁▂▃▄▅▆▇█│ 0.02"));
  CHECK(contains(heat_map(std::vector<double>{-2, 2}, 1, 2), "-2 │ ▁▂▃▄▅▆▇█│ 2"));
  CHECK(lines_of(heat_map(std::vector<double>{-2, 0, 2}, 1, 3)).front().substr(0, 7) == " ▄█");
}

TEST_CASE("equal values are drawn without a division by zero", "[heat_map]") {
  CHECK(heat_map(Eigen::MatrixXd::Zero(1, 2)) == "  \n");
  CHECK(heat_map(Eigen::MatrixXd::Ones(1, 2)) == "██\n");
  CHECK(contains(heat_map(Eigen::MatrixXd::Constant(2, 2, -7)), "▄▄"));
  CHECK(contains(heat_map(Eigen::MatrixXd::Constant(2, 2, -7)), "every value is -7"));
  for (const HeatMapForm form : all_forms) {
    for (const double value : {0.0, -7.0, 1e308, 5e-324}) {
      HeatMapOptions options;
      options.form = form;
      CHECK(flaw_of(heat_map(Eigen::MatrixXd::Constant(2, 2, value), options), 80, colored(form)) == "");
    }
  }
}

TEST_CASE("the whole range of double is drawn without overflow", "[heat_map]") {
  const std::vector<double> values{-1.7e308, 0, 1.7e308};
  CHECK(lines_of(heat_map(values, 1, 3)).front().substr(0, 7) == " ▄█");
  HeatMapOptions options;
  options.form = HeatMapForm::ascii;
  options.ascii_cells = heed::AsciiCells::numbers;
  CHECK(contains(heat_map(values, 1, 3, options), "-1.7e+308"));
  CHECK(flaw_of(heat_map(values, 1, 3, options), 80) == "");
}

TEST_CASE("empty matrices say that they are empty, and one cell is a map", "[heat_map]") {
  CHECK(heat_map(Eigen::MatrixXd(0, 0)) == "empty matrix: 0 x 0\n");
  CHECK(heat_map(Eigen::MatrixXd(0, 5)) == "empty matrix: 0 x 5\n");
  CHECK(heat_map(Eigen::MatrixXd(5, 0)) == "empty matrix: 5 x 0\n");
  CHECK(heat_map(Eigen::MatrixXd::Ones(1, 1)) == "█\n");
  for (const HeatMapForm form : all_forms) {
    HeatMapOptions options;
    options.form = form;
    options.row_labels = {"a", "b"};
    CHECK(contains(heat_map(Eigen::MatrixXd(2, 0), options), "empty matrix: 2 x 0"));
    options.row_labels = {"a"};
    options.col_labels = {"b"};
    CHECK(flaw_of(heat_map(Eigen::MatrixXd::Zero(1, 1), options), 80, colored(form)) == "");
  }
}

TEST_CASE("a count of labels that does not fit is an error that names both counts", "[heat_map]") {
  HeatMapOptions options;
  options.row_labels = {"a", "b", "c"};
  const auto draw = [&] { heat_map(causal_weights(), options); };
  CHECK(message_of<heed::ShapeError>(draw) == "row_labels has 3 entries, the matrix has 4 rows");
  options.row_labels.clear();
  options.col_labels = {"a", "b", "c", "d", "e"};
  CHECK(message_of<heed::ShapeError>(draw) == "col_labels has 5 entries, the matrix has 4 columns");
}

TEST_CASE("numbers that do not fill the matrix are an error before any is read", "[heat_map]") {
  const std::vector<double> seven(7);
  CHECK(message_of<heed::ShapeError>([&] { heat_map(seven, 2, 4); }) ==
        "values has 7 numbers, the matrix is 2 x 4");
  CHECK(message_of<heed::ShapeError>([&] { heat_map(seven, 2, 3, 5, 1); }) ==
        "values has 7 numbers, too few for 2 x 3 with row_stride 5 and col_stride 1");
  CHECK(message_of<heed::ShapeError>([&] { heat_map(seven, 2, 2, 5, 1); }) == "no error");
  const Index huge = std::numeric_limits<Index>::max();
  CHECK(message_of<heed::ShapeError>([&] { heat_map(seven, 3, 3, huge, huge); }) != "no error");
  CHECK(message_of<heed::ShapeError>([&] { heat_map(seven, huge, huge); }) != "no error");
  CHECK(message_of<heed::ArgumentError>([&] { heat_map(seven, 2, 2, -1, 1); }) ==
        "row_stride is -1 and col_stride 1, they must not be negative");
  CHECK(message_of<heed::ArgumentError>([&] { heat_map(-1, 2, [](Index, Index) { return 0.0; }); }) ==
        "rows is -1, it must be at least 0");
}

TEST_CASE("options out of their bounds are errors that name them", "[heat_map]") {
  const auto error_with = [](auto change) {
    HeatMapOptions options;
    change(options);
    return message_of<heed::ArgumentError>([&] { heat_map(causal_weights(), options); });
  };
  CHECK(error_with([](auto& o) { o.max_rows = 0; }) == "max_rows is 0, it must be at least 1");
  CHECK(error_with([](auto& o) { o.max_cols = -4; }) == "max_cols is -4, it must be at least 1");
  CHECK(error_with([](auto& o) { o.max_width = 39; }) == "max_width is 39, it must be at least 40");
  CHECK(error_with([](auto& o) { o.max_label_width = 0; }) == "max_label_width is 0, it must be at least 1");
  CHECK(error_with([](auto& o) {
          o.range = heed::ValueRange{1, 1};
        }) == "range is [1, 1], it must be finite with low < high");
  CHECK(error_with([](auto& o) {
          o.range = heed::ValueRange{0, infinity};
        }) == "range is [0, inf], it must be finite with low < high");
}

TEST_CASE("a large matrix is reduced by blocks to the largest value, and the picture says so", "[heat_map]") {
  HeatMapOptions options;
  options.max_rows = 32;
  const auto one_hot = [](Index i, Index j) { return i == 130 && j == 4095 ? 1.0 : 0.0; };
  const std::string picture = heat_map(4096, 4096, one_hot, options);
  const std::vector<std::string> lines = lines_of(picture);
  REQUIRE(lines.size() == 33);
  CHECK(lines.back().substr(0, 68) == "reduced 4096 x 4096 to 32 x 64, each cell the largest of 128 x 64");
  CHECK(lines[0].find("█") == std::string::npos);
  CHECK(lines[1].substr(0, 66) == std::string(63, ' ').append("█"));  // row 130 is in the second block
  CHECK(flaw_of(picture, 80) == "");
}

TEST_CASE("the mean of blocks is drawn where it is asked for, at the edge of fewer values", "[heat_map]") {
  HeatMapOptions options;
  options.reduction = heed::Reduction::mean;
  options.max_cols = 2;
  const std::vector<double> values{1, 0, 0, 1, 1};  // blocks of 3: 1/3 and 1
  CHECK(heat_map(values, 1, 5, options).substr(0, 6) == "▂█");
  CHECK(contains(heat_map(values, 1, 5, options),
                 "reduced 1 x 5 to 1 x 2, each cell the mean of 1 x 3 (fewer at the edge)"));
  options.reduction = heed::Reduction::largest;
  CHECK(heat_map(values, 1, 5, options).substr(0, 6) == "██");
}

TEST_CASE("values that rounding took out of [0, 1] are drawn on its scale, others are not", "[heat_map]") {
  const auto picture = [](const std::vector<double>& values) {
    return heat_map(values, 1, static_cast<Index>(values.size()), {.legend = heed::Legend::always});
  };
  const std::string plain = picture({0, 0.25, 1});
  CHECK(picture({0, 0.25, 1.0000001}) == plain);
  CHECK(picture({-1e-8, 0.25, 1}) == plain);
  CHECK(picture({-1e-8, 0.25, 1.0000001}) == plain);
  CHECK(picture({1.0000001, 1.0000001, 1.0000001}) == picture({1, 1, 1}));
  for (const std::vector<double>& values : {std::vector{0.0, 0.25, 1.00001}, {-0.00001, 0.25, 1.0}})
    CHECK(picture(values) != plain);
  // Small numbers have signs of their own.
  CHECK(contains(picture({-1e-9, 1e-9}), "-1e-09"));
  CHECK(contains(picture({-1e-9, -1e-9}), "every value is -1e-09"));
}

TEST_CASE("a block with a NaN is NaN, with +inf is +inf, and is -inf only if all of it is", "[heat_map]") {
  for (const auto reduction : {heed::Reduction::largest, heed::Reduction::mean}) {
    HeatMapOptions options;
    options.reduction = reduction;
    options.max_cols = 5;
    const std::vector<double> values{nan_value, infinity,  infinity,  0,        -infinity,
                                     1,         -infinity, -infinity, infinity, -infinity};
    CHECK(heat_map(values, 1, 10, options).substr(0, 7) == "?!█.!");
  }
}

TEST_CASE("each entry of a matrix is read exactly once, also where blocks end early", "[heat_map]") {
  for (const Index rows : {1, 63, 64, 65, 129, 200}) {
    for (const Index cols : {1, 64, 65, 131}) {
      std::vector<int> reads(static_cast<std::size_t>(rows * cols));
      heat_map(rows, cols, [&](Index i, Index j) {
        REQUIRE((i >= 0 && i < rows && j >= 0 && j < cols));
        ++reads[static_cast<std::size_t>(i * cols + j)];
        return 0.5;
      });
      CHECK(std::set<int>(reads.begin(), reads.end()) == std::set<int>{1});
    }
  }
}

TEST_CASE("no picture is wider than max_width, whatever the matrix and its labels", "[heat_map]") {
  for (const HeatMapForm form : all_forms) {
    for (const Index width : {40, 41, 57, 80, 200}) {
      for (const Index cols : {1, 7, 39, 300}) {
        HeatMapOptions options;
        options.form = form;
        options.max_width = width;
        options.max_cols = 1000;
        options.index_labels = true;
        const auto value = [](Index i, Index j) { return std::sin(static_cast<double>(i * 7 + j)) * 1e5; };
        CAPTURE(static_cast<int>(form), width, cols);
        CHECK(flaw_of(heat_map(9, cols, value, options), width, colored(form)) == "");
        options.ascii_cells = heed::AsciiCells::numbers;
        options.row_labels.assign(9, std::string(100, 'x'));
        options.col_labels.assign(static_cast<std::size_t>(cols), "日本語");
        CHECK(flaw_of(heat_map(9, cols, value, options), width, colored(form)) == "");
      }
    }
  }
}

TEST_CASE("the color form sets backgrounds and leaves the terminal as it was at every line's end",
          "[heat_map]") {
  HeatMapOptions options;
  options.form = HeatMapForm::indexed_color;
  const std::string indexed = heat_map(causal_weights(), options);
  CHECK(contains(indexed, "[48;5;"));
  CHECK_FALSE(contains(indexed, "[48;2;"));
  options.form = HeatMapForm::true_color;
  const std::string full = heat_map(causal_weights(), options);
  CHECK(contains(full, "[48;2;"));
  for (const std::string& line : lines_of(full)) {
    const std::size_t last = line.rfind('\x1b');
    REQUIRE(last != std::string::npos);
    CHECK(line.substr(last, 4) == "\x1b[0m");
  }
  // equal values have equal colors, and the largest differs from the smallest
  const auto color_of = [&](double value) {
    return lines_of(heat_map(std::vector<double>{value, 0, 1}, 1, 3, options)).front().substr(0, 30);
  };
  CHECK(color_of(0.5) == color_of(0.5));
  CHECK(color_of(0) != color_of(0.5));
  CHECK(color_of(1) != color_of(0.5));
}

TEST_CASE("a plan that does not belong to the options is refused", "[heat_map]") {
  HeatMapOptions options;
  const heed::HeatMapPlan plan = heed::plan_heat_map(2, 2, options);
  const std::vector<double> cells(4);
  CHECK(heed::draw_heat_map(plan, cells, options) == "  \n  \n");
  CHECK(message_of<heed::ShapeError>([&] { heed::draw_heat_map(plan, std::vector<double>(3), options); }) ==
        "cells has 3 values, the plan shows 2 x 2");
  heed::HeatMapPlan wrong = plan;
  wrong.shown_rows = 3;
  CHECK(message_of<heed::ArgumentError>([&] {
          heed::draw_heat_map(wrong, std::vector<double>(6), options);
        }) == "plan is not the one of a 2 x 2 matrix under these options");
}
