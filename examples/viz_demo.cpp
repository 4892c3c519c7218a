// Pictures in text: heat maps, a training curve and words by the main directions of their vectors, as blocks
// and Braille, as plain ASCII or in color. Everything shown is computed here by formulas; --csv draws your
// own matrix.
//
//   viz_demo                       what your terminal shows best
//   viz_demo --ascii               for a log
//   viz_demo --color always | less -R
//   viz_demo --csv weights.csv

#include <Eigen/Core>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "heed/core/error.hpp"
#include "heed/inspect/pca.hpp"
#include "heed/layers/positions.hpp"
#include "heed/plot/curves.hpp"
#include "heed/plot/heat_map.hpp"
#include "heed/plot/terminal.hpp"

namespace {

using heed::HeatMapForm;
using heed::HeatMapOptions;
using heed::Index;
using heed::PlotOptions;

/// What the command line and the terminal ask for.
struct Look {
  HeatMapForm form;
  bool ascii;
  bool color;
  Index width;

  [[nodiscard]] HeatMapOptions heat_map(std::string title) const {
    HeatMapOptions options;
    options.form = form;
    options.title = std::move(title);
    options.max_width = width;
    options.max_rows = 48;
    return options;
  }

  [[nodiscard]] PlotOptions plot(std::string title) const {
    PlotOptions options;
    options.charset = ascii ? heed::Charset::ascii : heed::Charset::utf8;
    options.color = color;
    options.title = std::move(title);
    options.width = width;
    return options;
  }
};

double at(Index index) {
  return static_cast<double>(index);
}

// Rows that sum to 1 over the keys up to their own: a score favors near keys, and every third word.
Eigen::MatrixXd causal_weights(Index length) {
  Eigen::MatrixXd weights = Eigen::MatrixXd::Zero(length, length);
  for (Index i = 0; i < length; ++i) {
    for (Index j = 0; j <= i; ++j)
      weights(i, j) = std::exp(1.5 * std::cos(2.1 * at(i - j)) - 0.25 * at(i - j));
    weights.row(i) /= weights.row(i).sum();
  }
  return weights;
}

void show_weights(const Look& look) {
  HeatMapOptions options = look.heat_map("Causal weights: who (row) looks at whom (column)");
  options.row_labels = options.col_labels = {"The", "cat", "sat", "on", "日本", "de", "👍", "naïve", "mat"};
  std::cout << heed::heat_map(causal_weights(9), options) << '\n';
}

void show_positions(const Look& look) {
  HeatMapOptions options = look.heat_map("Sinusoidal positions: 24 positions (rows), 32 dimensions");
  options.index_labels = true;
  options.ascii_cells = heed::AsciiCells::ramp;
  std::cout << heed::heat_map(heed::SinusoidalPositions<double>(24, 32).table(), options) << '\n';
}

// A matrix that is never stored: a band of strong links, and one single entry far off it.
void show_reduced(const Look& look) {
  HeatMapOptions options = look.heat_map("A 1000 x 1000 matrix, drawn through a function");
  options.index_labels = true;
  options.max_rows = 25;
  options.max_cols = 50;
  const auto value = [](Index i, Index j) {
    if (i == 200 && j == 800) return 1.0;
    const double distance = at(i - j) / 120;
    return 0.9 * std::exp(-distance * distance) * (0.6 + 0.4 * std::cos(at(i + j) / 90));
  };
  std::cout << heed::heat_map(1000, 1000, value, options) << '\n';
}

void show_training(const Look& look) {
  std::vector<double> train;
  std::vector<double> held_out;
  std::vector<double> held_out_steps;
  for (int step = 0; step < 2000; ++step) {
    const double noise = 0.05 * std::sin(1.7 * step) * std::cos(0.31 * step) * std::exp(-step / 1500.0);
    train.push_back(0.35 + 3.2 * std::exp(-step / 260.0) + noise);
    if (step % 50 != 0) continue;
    held_out_steps.push_back(step);
    held_out.push_back(0.8 + 2.8 * std::exp(-step / 240.0) + step * 1e-4);
  }
  PlotOptions options = look.plot("Training: loss against step");
  options.x_label = "step";
  options.y_label = "loss (nats)";
  std::cout << heed::plot_curves({{"training", {}, train}, {"held out", held_out_steps, held_out}}, options)
            << '\n';
}

// Vectors of words: a group has a center, a word its own small deviation, spread over 16 dimensions.
void show_words(const Look& look) {
  const std::vector<std::vector<std::string>> groups{{"cat", "dog", "horse", "猫", "🐈"},
                                                     {"Paris", "Tokyo", "東京", "Berlin", "Kraków"},
                                                     {"one", "two", "three", "vier", "五"},
                                                     {"run", "walk", "swim", "跑"}};
  constexpr Index dimensions = 16;
  std::vector<std::string> words;
  for (const auto& group : groups) words.insert(words.end(), group.begin(), group.end());
  Eigen::MatrixXd table(static_cast<Index>(words.size()), dimensions);
  Index row = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t w = 0; w < groups[g].size(); ++w, ++row) {
      for (Index k = 0; k < dimensions; ++k) {
        const double center = std::sin(1.3 * at(k) * static_cast<double>(g + 1) + static_cast<double>(g));
        const double own = std::sin(static_cast<double>((w + 3) * (g + 2)) * 2.7 * at(k + 1));
        table(row, k) = center + 0.45 * own;
      }
    }
  }
  const auto two = heed::pca(table, 2);
  std::vector<heed::LabeledPoint> points;
  for (Index i = 0; i < table.rows(); ++i) {
    points.push_back({two.projected(i, 0), two.projected(i, 1), words[static_cast<std::size_t>(i)]});
  }
  const auto percent = [&](Index i) {
    return std::to_string(std::lround(100 * two.explained_variance(i) / two.total_variance)) + " %";
  };
  PlotOptions options = look.plot("Words by the two main directions of their vectors");
  options.x_label = "first component, " + percent(0) + " of the variance";
  options.y_label = "second component, " + percent(1);
  options.height = 20;
  std::cout << heed::plot_scatter(points, options);
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

double number_of(const std::string& field, const std::string& place) {
  double value = 0;
  const char* begin = field.data() + (field.size() > 1 && field[0] == '+' && field[1] != '-' ? 1 : 0);
  const char* end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range)
    heed::throw_file_error(place + " is out of double's range: " + field);
  if (error != std::errc() || stop != end) {
    heed::throw_file_error(place + " is not a number: \"" + heed::truncated(field, 40) + "\"");
  }
  return value;
}

/// A matrix of comma-separated numbers, one row per line; empty lines are skipped.
struct Csv {
  std::vector<double> values{};
  Index rows = 0;
  Index cols = 0;
};

Csv read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) heed::throw_file_error("cannot open " + heed::escaped(path));
  Csv csv;
  std::string line;
  for (Index number = 1; std::getline(file, line); ++number) {
    if (trimmed(line).empty()) continue;
    Index fields = 0;
    for (std::size_t start = 0; start <= line.size();) {
      const std::size_t comma = std::min(line.find(',', start), line.size());
      const std::string place =
          heed::escaped(path) + ", line " + std::to_string(number) + ", field " + std::to_string(++fields);
      csv.values.push_back(number_of(trimmed(std::string_view(line).substr(start, comma - start)), place));
      start = comma + 1;
    }
    if (csv.rows > 0 && fields != csv.cols) {
      heed::throw_file_error(heed::escaped(path) + ", line " + std::to_string(number) + " has " +
                             std::to_string(fields) + " fields, the first row has " +
                             std::to_string(csv.cols));
    }
    csv.cols = fields;
    ++csv.rows;
  }
  if (file.bad()) heed::throw_file_error("cannot read " + heed::escaped(path));
  if (csv.rows == 0) heed::throw_file_error(heed::escaped(path) + " holds no numbers");
  return csv;
}

void show_csv(const Look& look, const std::string& path) {
  const Csv csv = read_csv(path);
  HeatMapOptions options =
      look.heat_map(path + ": " + std::to_string(csv.rows) + " x " + std::to_string(csv.cols));
  options.index_labels = true;
  std::cout << heed::heat_map(csv.values, csv.rows, csv.cols, options);
}

int program(int argc, char** argv) {
  CLI::App app{"Heat maps, curves and scatter plots as text"};
  bool ascii = false;
  std::optional<Index> width;
  std::string csv;
  std::string color = "auto";
  app.add_flag("--ascii", ascii, "ASCII alone, numbers where they fit; no color");
  demo::choice(app, "--color", color, {"never", "always", "auto"}, "auto: where the terminal shows it");
  demo::number(app, "--width", width, "columns to use (default: the terminal's, at most 100)",
               {.min = 40, .max = 1000});
  demo::path(app, "--csv", csv, "file", "draw this matrix: one row per line, numbers separated by commas");
  if (const auto code = demo::parse(app, argc, argv)) return *code;

  const heed::ColorMode mode = color == "never"    ? heed::ColorMode::never
                               : color == "always" ? heed::ColorMode::always
                                                   : heed::ColorMode::automatic;
  const heed::Terminal terminal = heed::query_terminal();
  const heed::ColorDepth depth = ascii ? heed::ColorDepth::none : heed::color_depth(mode, terminal);
  Look look{};
  look.ascii = ascii || (!terminal.unicode && terminal.interactive);
  look.form =
      look.ascii && depth == heed::ColorDepth::none ? HeatMapForm::ascii : heed::heat_map_form(depth, true);
  look.color = depth != heed::ColorDepth::none;
  look.width = width.value_or(std::clamp<Index>(terminal.width, 40, 100));
  if (!csv.empty()) {
    show_csv(look, csv);
    return 0;
  }
  show_weights(look);
  show_positions(look);
  show_reduced(look);
  show_training(look);
  show_words(look);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("viz_demo", [&] { return program(argc, argv); });
}
