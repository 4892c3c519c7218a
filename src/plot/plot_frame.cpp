// What every plot has before anything is drawn into it: checked options, axes and ticks.

#include "plot/plot_frame.hpp"

#include <algorithm>
#include <cmath>

#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "plot/number_text.hpp"

namespace heed::plot {
namespace {

constexpr Index kMinWidth = 40;
constexpr Index kMinHeight = 3;
constexpr Index kColumnsPerTick = 12;
constexpr Index kRowsPerTick = 3;
constexpr Index kMaxRows = 10000;
constexpr Index kMaxColumns = 100000;

void require_between(const char* name, Index value, Index least, Index most) {
  if (value >= least && value <= most) return;
  throw_argument_error(std::string(name) + " is " + std::to_string(value) + ", it must be from " +
                       std::to_string(least) + " to " + std::to_string(most));
}

void require_range(const char* name, const std::optional<ValueRange>& range) {
  if (!range || (detail::is_finite(range->low) && detail::is_finite(range->high) && range->low < range->high))
    return;
  throw_argument_error(std::string(name) + " is [" + short_number(range->low, 17) + ", " +
                       short_number(range->high, 17) + "], it must be finite with low < high");
}

struct Lines {
  const char* bar;
  const char* bar_tick;
  const char* corner;
  const char* corner_tick;
  const char* floor;
  const char* floor_tick;
};
constexpr Lines kUtf8Lines{"│", "┤", "└", "┴", "─", "┬"};
constexpr Lines kAsciiLines{"|", "+", "+", "+", "-", "+"};

Index cell_of(double fraction, Index cells) {
  return static_cast<Index>(std::lround(fraction * static_cast<double>(cells - 1)));
}

TextLine styled(const std::string& text, Index room, Charset charset) {
  const std::string cut = truncated(text, room, charset);
  return TextLine().add(cut, display_width(cut));
}

void add_area(TextBlock& block, const PlotFrame& frame, const Lines& lines,
              const std::function<void(TextLine&, Index)>& append_row) {
  std::vector<std::string> texts(static_cast<std::size_t>(frame.rows));
  for (const Tick& tick : frame.y.ticks) {
    texts[static_cast<std::size_t>(cell_of(1 - tick.fraction, frame.rows))] = tick.text;
  }
  for (Index row = 0; row < frame.rows; ++row) {
    const std::string& text = texts[static_cast<std::size_t>(row)];
    TextLine line;
    line.ascii(padded(text, frame.gutter, Align::right))
        .gap(1)
        .add(text.empty() ? lines.bar : lines.bar_tick, 1);
    append_row(line, row);
    block.add(std::move(line));
  }
}

// The floor with its ticks, the numbers under them (each only where it does not touch the one before) and the
// name of the axis at the right end.
void add_floor(TextBlock& block, const PlotFrame& frame, const Lines& lines, const PlotOptions& options) {
  TextLine floor;
  TextLine numbers;
  const Index origin = frame.gutter + 2;
  floor.gap(frame.gutter + 1).add(lines.corner, 1);
  Index next_free = 0;
  for (const Tick& tick : frame.x.ticks) {
    const Index column = cell_of(tick.fraction, frame.columns);
    const auto width = static_cast<Index>(tick.text.size());
    const Index start = std::clamp<Index>(origin + column - width / 2, 0, origin + frame.columns - width);
    if (start < next_free || origin + column < floor.columns()) continue;
    floor.add(repeated(lines.floor, origin + column - floor.columns()), origin + column - floor.columns());
    floor.add(lines.floor_tick, 1);
    numbers.gap(start - numbers.columns()).ascii(tick.text);
    next_free = numbers.columns() + 2;
  }
  const Index rest = origin + frame.columns - floor.columns();
  floor.add(repeated(lines.floor, rest), std::max<Index>(rest, 0));
  block.add(std::move(floor));
  block.add(std::move(numbers));
  if (options.x_label.empty()) return;
  const std::string label = truncated(options.x_label, frame.columns, options.charset);
  const Index width = display_width(label);
  block.add(TextLine().gap(origin + frame.columns - width).add(label, width));
}

}  // namespace

void check_plot_options(const PlotOptions& options) {
  require_between("width", options.width, kMinWidth, kMaxColumns);
  require_between("height", options.height, kMinHeight, kMaxRows);
  require_between("max_label_width", options.max_label_width, 1, kMaxColumns);
  require_range("x_range", options.x_range);
  require_range("y_range", options.y_range);
  if (options.log_y && options.y_range && options.y_range->low <= 0) {
    throw_argument_error("y_range starts at " + short_number(options.y_range->low, 17) +
                         ", on a logarithmic axis it must start above 0");
  }
}

PlotFrame make_frame(const Extent& x, const Extent& y, AxisEnds x_ends, AxisEnds y_ends,
                     const PlotOptions& options) {
  PlotFrame frame;
  frame.rows = options.height;
  const Index y_ticks = options.height / kRowsPerTick + 2;
  frame.y = options.log_y ? logarithmic_axis(y, options.y_range, y_ticks)
                          : linear_axis(y, options.y_range, y_ends, y_ticks);
  for (const Tick& tick : frame.y.ticks) {
    frame.gutter = std::max(frame.gutter, static_cast<Index>(tick.text.size()));
  }
  frame.columns = options.width - frame.gutter - 2;
  frame.x = linear_axis(x, options.x_range, x_ends, std::max<Index>(2, frame.columns / kColumnsPerTick));
  return frame;
}

std::string draw_frame(const PlotFrame& frame, const PlotOptions& options,
                       const std::vector<TextLine>& legend,
                       const std::function<void(TextLine&, Index)>& append_row,
                       const std::vector<std::string>& notes) {
  const Lines& lines = options.charset == Charset::utf8 ? kUtf8Lines : kAsciiLines;
  TextBlock block;
  if (!options.title.empty()) block.add(styled(options.title, options.width, options.charset));
  for (const TextLine& line : legend) block.add(line);
  if (!options.y_label.empty()) block.add(styled(options.y_label, options.width, options.charset));
  add_area(block, frame, lines, append_row);
  add_floor(block, frame, lines, options);
  for (const std::string& note : notes) block.add_note(note, options.width);
  return block.str();
}

std::string counted(Index count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace heed::plot
