#pragma once

// A matrix as a picture in text: attention weights in a terminal, a log, a test's failure message.
//
//   Eigen::MatrixXd weights = ...;
//   std::cout << heed::heat_map(weights);              // "█   ", "▄▃  ", "▃▂▂ ", "▂▂▁▁"
//
//   heed::HeatMapOptions options;
//   options.form = heed::HeatMapForm::ascii;
//   options.row_labels = options.col_labels = tokens;
//   std::cout << heed::heat_map(weights, options);
//
// The result is a string of lines, each ended by '\n', all of the same display width, always valid UTF-8.
// Nothing is printed by the library. Labels may be any bytes (see display_text.hpp).
//
// Levels. A value v of the range [low, high] has level floor((v - low) / (high - low) * 8), 0 to 8, drawn as
// " ▁▂▃▄▅▆▇█" (blocks) or " :-=+*#%@" (ASCII): a level says how many full eighths the value has reached.
//
// Range. Unless it is given, it is [0, 1] where every finite value lies there, up to a millionth that
// rounding may have added: weights and probabilities are drawn as they are. Weights too small for that to
// show anything, all below 1/8, get [0, largest]. Other values get [smallest, largest]; where those two are
// equal, every cell is drawn at level 4. A finite value outside a given range is drawn as the nearest end,
// and a line says how many there are.
//
// What is no number of the range has a sign of its own in every form: '?' NaN, '!' +inf, '.' -inf (in
// attention scores: hidden). They take no part in finding the range, and a line says how many there are.
// Among numbers an infinity is written as one, and only NaN has its sign and its line.
//
// Size. A matrix larger than the picture is reduced: each cell stands for a block of equal size (smaller at
// the edge), and a line says so. A NaN in a block makes its cell NaN, then +inf makes it +inf; -inf counts as
// absent, so that a cell is -inf only if its whole block is.
//
// Memory: O(cells drawn), however large the matrix. All functions may run in any threads at once.

#include "heed/core/config.hpp"

#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/core/float_bits.hpp"
#include "heed/plot/display_text.hpp"
#include "heed/plot/terminal.hpp"

namespace heed {

/// How a heat map is drawn.
enum class HeatMapForm {
  blocks,         ///< Eighth blocks " ▁▂▃▄▅▆▇█", no color.
  ascii,          ///< Numbers or the ramp " :-=+*#%@", rows and columns labeled; every byte is ASCII.
  indexed_color,  ///< Background colors out of the terminal's 256.
  true_color,     ///< Background colors of 24 bits.
};

/// What a cell that stands for a block of a larger matrix shows.
enum class Reduction {
  largest,  ///< The largest value: one strong link among thousands of weak ones stays visible.
  mean,     ///< The mean: the right choice for signed values.
};

/// What the ASCII form puts into its cells.
enum class AsciiCells {
  automatic,  ///< Numbers if the picture fits into max_width with them, else the ramp.
  numbers,    ///< Always numbers, with as many columns of the matrix reduced as that needs.
  ramp,       ///< Always one character per cell.
};

/// Whether a line explains the scale.
enum class Legend {
  automatic,  ///< Unless cells are numbers, or blocks on the plain scale 0 to 1.
  always,
  never,
};

/// The values from low to high.
struct ValueRange {
  double low;
  double high;
};

/// How a heat map is drawn.
struct HeatMapOptions {
  HeatMapForm form = HeatMapForm::blocks;
  std::string title{};                    ///< A line on top; none if empty.
  std::vector<std::string> row_labels{};  ///< One for each row of the matrix, or none at all.
  std::vector<std::string> col_labels{};  ///< One for each column of the matrix, or none at all.
  bool index_labels = false;              ///< Number what has no labels, from 0. The ASCII form always does.
  std::optional<ValueRange> range{};      ///< Both finite, low < high.
  Reduction reduction = Reduction::largest;
  AsciiCells ascii_cells = AsciiCells::automatic;
  Legend legend = Legend::automatic;
  Index max_rows = 64;         ///< Lines of cells, at least 1.
  Index max_cols = 64;         ///< Cells of a line, at least 1; fewer if max_width asks for it.
  Index max_width = 80;        ///< Columns of the whole picture, at least 40: see Terminal::width.
  Index max_label_width = 24;  ///< Columns of a row label, at least 1; at most half of max_width is used.
};

/// Returns the form for a terminal: colors if there are any, else blocks if it shows Unicode, else ASCII.
HEED_EXPORT HeatMapForm heat_map_form(ColorDepth depth, bool unicode);

/// How a matrix of a given size is laid out: which block of it each cell of the picture stands for.
struct HeatMapPlan {
  Index rows;
  Index cols;
  Index block_rows;  ///< Rows of the matrix under one cell.
  Index block_cols;
  Index shown_rows;  ///< ceil(rows / block_rows).
  Index shown_cols;
  friend bool operator==(const HeatMapPlan&, const HeatMapPlan&) = default;
};

/// Checks sizes and options, and chooses the blocks.
/// Throws ArgumentError for a negative size or an option out of its bounds, ShapeError if there are labels
/// but not one for each row or column.
HEED_EXPORT HeatMapPlan plan_heat_map(Index rows, Index cols, const HeatMapOptions& options);

/// Draws cells (row-major, shown_rows x shown_cols, each already reduced). The last step of heat_map().
/// Throws ArgumentError if the plan is not plan_heat_map(plan.rows, plan.cols, options), ShapeError if the
/// count of cells is not the plan's.
HEED_EXPORT std::string draw_heat_map(const HeatMapPlan& plan, std::span<const double> cells,
                                      const HeatMapOptions& options);

/// Reduces the values of one block to the value of its cell.
class HEED_EXPORT BlockReducer {
 public:
  explicit BlockReducer(Reduction reduction) : mean_(reduction == Reduction::mean) {}

  void add(double value) {
    has_nan_ = has_nan_ || detail::is_nan(value);
    if (value > largest_) largest_ = value;
    if (mean_ && detail::is_finite(value)) {
      sum_ += value;
      ++count_;
    }
  }

  // In the library: under -ffast-math a caller's compiler may take NaN out of it.
  [[nodiscard]] double value() const;

 private:
  bool mean_;
  bool has_nan_ = false;
  double largest_ = -std::numeric_limits<double>::infinity();
  long double sum_ = 0;  ///< Wider than double where the machine has it: a sum of large values may overflow.
  Index count_ = 0;
};

/// What can be asked for m.rows(), m.cols() and m(i, j): every Eigen matrix or array, and expressions whose
/// coefficients can be read one by one.
template <class Matrix>
concept MatrixLike = requires(const Matrix& matrix, Index index) {
  { matrix.rows() } -> std::convertible_to<Index>;
  { matrix.cols() } -> std::convertible_to<Index>;
  static_cast<double>(matrix(index, index));
};

/// A function of (row, column) whose result converts to double.
template <class Function>
concept EntryFunction = requires(Function& value, Index index) {
  static_cast<double>(value(index, index));
};

/// Draws the rows x cols matrix whose entry (i, j) is value(i, j): a matrix that need not exist in memory.
/// value is called exactly once for each entry, in unspecified order, on the calling thread; what it throws
/// passes through.
template <EntryFunction Function>
std::string heat_map(Index rows, Index cols, Function&& value, const HeatMapOptions& options = {}) {
  const HeatMapPlan plan = plan_heat_map(rows, cols, options);
  std::vector<double> cells;
  cells.reserve(static_cast<std::size_t>(plan.shown_rows) * static_cast<std::size_t>(plan.shown_cols));
  for (Index top = 0; top < rows; top += plan.block_rows) {
    for (Index left = 0; left < cols; left += plan.block_cols) {
      const Index bottom = rows - top < plan.block_rows ? rows : top + plan.block_rows;
      const Index right = cols - left < plan.block_cols ? cols : left + plan.block_cols;
      BlockReducer block(options.reduction);
      for (Index i = top; i < bottom; ++i) {
        for (Index j = left; j < right; ++j) block.add(static_cast<double>(value(i, j)));
      }
      cells.push_back(block.value());
    }
  }
  return draw_heat_map(plan, cells, options);
}

/// Draws a matrix, read by rows(), cols() and operator()(i, j): heat_map(weights).
template <MatrixLike Matrix>
std::string heat_map(const Matrix& matrix, const HeatMapOptions& options = {}) {
  return heat_map(
      static_cast<Index>(matrix.rows()), static_cast<Index>(matrix.cols()),
      [&matrix](Index i, Index j) { return static_cast<double>(matrix(i, j)); }, options);
}

/// Draws rows x cols numbers that lie row after row. Throws ShapeError if their count is not rows * cols.
HEED_EXPORT std::string heat_map(std::span<const double> values, Index rows, Index cols,
                                 const HeatMapOptions& options = {});
HEED_EXPORT std::string heat_map(std::span<const float> values, Index rows, Index cols,
                                 const HeatMapOptions& options = {});

/// Draws numbers of which entry (i, j) is values[i * row_stride + j * col_stride]: a part of a larger matrix,
/// or one stored by columns. Throws ShapeError if an entry would lie outside of values, ArgumentError for a
/// negative stride.
HEED_EXPORT std::string heat_map(std::span<const double> values, Index rows, Index cols, Index row_stride,
                                 Index col_stride, const HeatMapOptions& options = {});
HEED_EXPORT std::string heat_map(std::span<const float> values, Index rows, Index cols, Index row_stride,
                                 Index col_stride, const HeatMapOptions& options = {});

}  // namespace heed
