// Draws a heat map: cells, labels, legend and notes.

#include "heed/plot/heat_map.hpp"

#include <algorithm>
#include <array>

#include "heed/core/error.hpp"
#include "plot/color_scale.hpp"
#include "plot/heat_map_layout.hpp"
#include "plot/heat_map_values.hpp"
#include "plot/number_text.hpp"
#include "plot/text_block.hpp"

namespace heed {
namespace {

using plot::HeatMapLabels;
using plot::HeatMapScale;
using plot::TextBlock;
using plot::TextLine;

constexpr std::array<const char*, 9> kBlockLevels{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 9> kAsciiLevels{" ", ":", "-", "=", "+", "*", "#", "%", "@"};
constexpr Index kWidestColumnLabel = 12;  // where each cell is as wide as its label
constexpr Index kWidestRulerLabel = 8;
constexpr Index kLegendCells = 16;

std::size_t at(Index index) {
  return static_cast<std::size_t>(index);
}

class Picture {
 public:
  Picture(const HeatMapPlan& plan, std::span<const double> cells, const HeatMapOptions& options)
      : plan_(plan),
        cells_(cells),
        options_(options),
        charset_(plot::charset_of(options.form)),
        labels_(plot::heat_map_labels(plan.rows, plan.block_rows, options)),
        scale_(plot::heat_map_scale(cells, options.range)) {
    choose_columns();
  }

  std::string str() {
    TextBlock block;
    if (!options_.title.empty()) {
      const std::string title = truncated(options_.title, options_.max_width, charset_);
      block.add(TextLine().add(title, display_width(title)));
    }
    if (cells_.empty()) {
      block.add_note("empty matrix: " + std::to_string(plan_.rows) + " x " + std::to_string(plan_.cols),
                     options_.max_width);
      return block.str();
    }
    if (!column_labels_.empty()) block.add(header());
    for (Index row = 0; row < plan_.shown_rows; ++row) block.add(cells_of(row));
    if (wants_legend()) block.add(legend());
    for (const std::string& note : plot::heat_map_notes(plan_, scale_, options_, !numbers_.empty())) {
      block.add_note(note, options_.max_width);
    }
    if (label_step_ > 1 && !options_.col_labels.empty()) {
      block.add_note("one in " + std::to_string(label_step_) + " column labels is shown", options_.max_width);
    }
    return block.str();
  }

 private:
  // Columns.

  void choose_columns() {
    pitch_ = plot::is_color(options_.form) ? 2 : 1;
    if (cells_.empty()) return;
    collect_column_labels();
    choose_numbers();
    const bool named = !options_.col_labels.empty();
    for (const Index widest : {kWidestColumnLabel, kWidestRulerLabel}) {
      const Index wide = std::min(label_width_, widest) + 1;
      if (one_label_each_ || !numbers_.empty() || !named || plan_.block_cols > 1 || !fits(wide)) continue;
      pitch_ = std::max(pitch_, wide);
      one_label_each_ = true;
    }
    gap_ = one_label_each_ ? 1 : 0;
    if (!one_label_each_ && !column_labels_.empty()) choose_label_step();
  }

  void collect_column_labels() {
    const bool numbered = options_.index_labels || options_.form == HeatMapForm::ascii;
    if (options_.col_labels.empty() && !numbered) return;
    for (Index col = 0; col < plan_.shown_cols; ++col) {
      const Index first = col * plan_.block_cols;
      column_labels_.push_back(options_.col_labels.empty() ? std::to_string(first)
                                                           : options_.col_labels[at(first)]);
      label_width_ = std::max(label_width_, plot::label_columns(column_labels_.back(), options_.form));
    }
  }

  void choose_numbers() {
    if (options_.form != HeatMapForm::ascii || options_.ascii_cells == AsciiCells::ramp) return;
    const bool must = options_.ascii_cells == AsciiCells::numbers;
    if (!must && plan_.block_cols > 1) return;
    std::vector<std::string> texts = plot::cell_numbers(cells_);
    Index widest = 0;
    for (const std::string& text : texts) widest = std::max(widest, static_cast<Index>(text.size()));
    const Index end = 1;  // a space before the frame
    if (!must && !fits(widest + 1, end)) return;
    numbers_ = std::move(texts);
    pitch_ = widest + 1;
    for (const Index label : {kWidestRulerLabel, kWidestColumnLabel}) {
      const Index roomy = std::max(widest, std::min(label_width_, label)) + 1;
      if (fits(roomy, end)) pitch_ = roomy;
    }
    one_label_each_ = true;
  }

  // The smallest of 1, 2, 5, 10, 20, ... that leaves each label its room and a space.
  void choose_label_step() {
    const Index needed = std::min(label_width_, kWidestRulerLabel) + 1;
    constexpr std::array<Index, 3> steps{1, 2, 5};
    for (Index power = 1;; power *= 10) {
      for (const Index step : steps) {
        label_step_ = step * power;
        if (label_step_ * pitch_ >= needed || label_step_ >= plan_.shown_cols) return;
      }
    }
  }

  [[nodiscard]] bool fits(Index pitch, Index more = 0) const {
    return plan_.shown_cols * pitch + more <= labels_.cell_columns;
  }

  // Lines.

  [[nodiscard]] const char* edge() const {
    if (!labels_.framed || plot::is_color(options_.form)) return "";
    return options_.form == HeatMapForm::ascii ? "|" : "│";
  }
  [[nodiscard]] Index edge_columns() const { return *edge() == '\0' ? 0 : 1; }
  [[nodiscard]] Index margin() const { return labels_.row_columns + (labels_.row_columns > 0 ? 1 : 0); }

  TextLine header() const {
    TextLine line;
    line.gap(margin() + edge_columns());
    const Index end = line.columns() + plan_.shown_cols * pitch_;
    for (Index col = 0; col < plan_.shown_cols; col += label_step_) {
      const std::string& label = column_labels_[at(col)];
      if (one_label_each_) {
        const Align align = numbers_.empty() ? Align::center : Align::right;
        line.gap(col > 0 || !numbers_.empty() ? 1 : 0);
        line.add(padded(label, pitch_ - 1, align, charset_), pitch_ - 1);
        continue;
      }
      const Index start = margin() + edge_columns() + col * pitch_;
      const Index room = std::min(end - start, std::max<Index>(1, label_step_ * pitch_ - 1));
      if (col > 0 && std::min(plot::label_columns(label, options_.form), kWidestRulerLabel) > room) continue;
      const std::string text = truncated(label, std::min(room, kWidestRulerLabel), charset_);
      line.gap(start - line.columns()).add(text, display_width(text));
    }
    return line;
  }

  TextLine cells_of(Index row) const {
    TextLine line;
    if (!labels_.rows.empty()) {
      line.add(padded(labels_.rows[at(row)], labels_.row_columns, Align::right, charset_),
               labels_.row_columns);
      if (labels_.row_columns > 0) line.gap(1);
    }
    line.add(edge(), edge_columns());
    std::string colors;
    for (Index col = 0; col < plan_.shown_cols; ++col) {
      const Index index = row * plan_.shown_cols + col;
      if (!numbers_.empty()) {
        line.ascii(padded(numbers_[at(index)], pitch_, Align::right));
      } else if (plot::is_color(options_.form)) {
        add_colored(line, cells_[at(index)], colors);
      } else {
        line.gap(col > 0 ? gap_ : 0)
            .add(plot::repeated(glyph(cells_[at(index)]), pitch_ - gap_), pitch_ - gap_);
      }
    }
    if (!colors.empty()) line.add(plot::kResetColors, 0);
    if (!numbers_.empty()) line.gap(1);
    return line.add(edge(), edge_columns());
  }

  [[nodiscard]] std::string glyph(double value) const {
    if (const char mark = plot::special_mark(value); mark != '\0') return std::string(1, mark);
    const auto level = static_cast<std::size_t>(plot::heat_level(value, scale_));
    return options_.form == HeatMapForm::ascii ? kAsciiLevels[level] : kBlockLevels[level];
  }

  [[nodiscard]] ColorDepth depth() const {
    return options_.form == HeatMapForm::true_color ? ColorDepth::true_color : ColorDepth::indexed;
  }

  // Cells of one color side by side share one color sequence.
  void add_colored(TextLine& line, double value, std::string& colors) const {
    const char mark = plot::special_mark(value);
    const bool marked = mark != '\0';
    std::string wanted = plot::kResetColors;
    if (!marked) {
      wanted = plot::heat_background(scale_.all_equal ? 0.5 : value,
                                     scale_.all_equal ? heed::ValueRange{0, 1} : scale_.range, depth());
    }
    if (wanted != colors && !(colors.empty() && marked)) line.add(wanted, 0);
    if (wanted != plot::kResetColors || !colors.empty()) colors = wanted;
    line.ascii(padded(marked ? std::string_view(&mark, 1) : std::string_view(), pitch_, Align::center));
  }

  [[nodiscard]] bool wants_legend() const {
    if (options_.legend == Legend::always) return true;
    if (options_.legend == Legend::never || !numbers_.empty()) return false;
    const bool plain = scale_.range.low == 0 && scale_.range.high == 1;
    return options_.form != HeatMapForm::blocks || !plain;
  }

  TextLine legend() const {
    TextLine line;
    line.gap(margin());
    if (scale_.all_equal) return TextLine().ascii("every value is " + plot::short_number(scale_.range.low));
    const std::string low = plot::short_number(scale_.range.low) + " ";
    const std::string high = plot::short_number(scale_.range.high).insert(0, 1, ' ');
    const bool colored = plot::is_color(options_.form);
    const Index bar = colored ? kLegendCells : plot::kHighestLevel + 3;
    const auto ends = static_cast<Index>(low.size() + high.size());
    if (line.columns() + bar + ends > options_.max_width) line = TextLine();
    line.ascii(low);
    if (colored) {
      for (Index i = 0; i < kLegendCells; ++i) {
        const double part = static_cast<double>(i) / static_cast<double>(kLegendCells - 1);
        const double value = scale_.range.low * (1 - part) + scale_.range.high * part;
        line.add(plot::heat_background(value, scale_.range, depth()), 0).gap(1);
      }
      line.add(plot::kResetColors, 0);
    } else {
      const bool ascii = options_.form == HeatMapForm::ascii;
      line.add(ascii ? "|" : "│", 1);
      for (const char* level : ascii ? kAsciiLevels : kBlockLevels) line.add(level, 1);
      line.add(ascii ? "|" : "│", 1);
    }
    return line.ascii(high);
  }

  const HeatMapPlan& plan_;
  std::span<const double> cells_;
  const HeatMapOptions& options_;
  Charset charset_;
  HeatMapLabels labels_;
  HeatMapScale scale_;
  std::vector<std::string> column_labels_;
  std::vector<std::string> numbers_;  ///< The texts of the cells if they are numbers.
  Index label_width_ = 0;
  Index label_step_ = 1;
  Index pitch_ = 1;  ///< Columns from one cell to the next.
  Index gap_ = 0;    ///< Columns of them that stay empty.
  bool one_label_each_ = false;
};

}  // namespace

std::string draw_heat_map(const HeatMapPlan& plan, std::span<const double> cells,
                          const HeatMapOptions& options) {
  if (plan != plan_heat_map(plan.rows, plan.cols, options)) {
    throw_argument_error("plan is not the one of a " + std::to_string(plan.rows) + " x " +
                         std::to_string(plan.cols) + " matrix under these options");
  }
  const std::size_t expected = at(plan.shown_rows) * at(plan.shown_cols);
  if (cells.size() != expected) {
    throw_shape_error("cells has " + std::to_string(cells.size()) + " values, the plan shows " +
                      std::to_string(plan.shown_rows) + " x " + std::to_string(plan.shown_cols));
  }
  return Picture(plan, cells, options).str();
}

}  // namespace heed
