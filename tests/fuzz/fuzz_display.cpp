// A libFuzzer target: labels, heat maps and plots of anything are valid UTF-8 with lines of one width, and
// send no command to a terminal.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "byte_choices.hpp"
#include "heed/core/error.hpp"
#include "heed/plot/curves.hpp"
#include "heed/plot/heat_map.hpp"
#include "text_checks.hpp"

namespace {

using namespace heed;
using namespace heed::test;
using text_checks::c_library_width;
using text_checks::decode;
using text_checks::encode;
using text_checks::flaw_of;
using text_checks::is_ascii;

/// Any number: of the size of weights, of any size, or none.
double value(ByteChoices& choices) {
  constexpr double special[] = {0,
                                1,
                                -1,
                                std::numeric_limits<double>::quiet_NaN(),
                                HUGE_VAL,
                                -HUGE_VAL,
                                std::numeric_limits<double>::max(),
                                std::numeric_limits<double>::lowest(),
                                std::numeric_limits<double>::denorm_min(),
                                1.0000001};
  switch (choices.below(4)) {
    case 0:
      return special[choices.below(std::size(special))];
    case 1: {
      double any = 0;
      const std::string bytes = choices.text(sizeof any);
      std::memcpy(&any, bytes.data(), bytes.size());
      return any;
    }
    default:
      return static_cast<double>(choices.below(257)) / 256;
  }
}

std::string label(ByteChoices& choices) {
  return choices.text(choices.below(2) == 0 ? choices.below(5) : choices.below(60));
}

std::vector<std::string> labels(ByteChoices& choices, Index count) {
  std::vector<std::string> result;
  if (choices.below(2) == 0) return result;
  for (Index i = 0; i < count; ++i) result.push_back(label(choices));
  return result;
}

std::optional<ValueRange> range(ByteChoices& choices) {
  if (choices.below(4) > 0) return std::nullopt;
  return ValueRange{value(choices), value(choices)};
}

/// One of its bounds, or something near or far.
Index size(ByteChoices& choices, Index least) {
  constexpr Index far[] = {0, -1, std::numeric_limits<Index>::max(), std::numeric_limits<Index>::min(),
                           1'000'000};
  return choices.below(16) == 0 ? far[choices.below(std::size(far))] : least + choices.below(100);
}

/// True if the C library's table and Unicode's give each character as many columns. Tables of two versions of
/// Unicode differ in some.
bool tables_agree(std::string_view text) {
  const std::vector<std::uint32_t> codes = decode(text).code_points;
  return std::all_of(codes.begin(), codes.end(), [](std::uint32_t code) {
    const std::string character = encode(code);
    return c_library_width(character) == display_width(character);
  });
}

void check_labels(ByteChoices& choices) {
  const std::string text = choices.text(400);
  for (const Charset charset : {Charset::utf8, Charset::ascii}) {
    const std::string safe = escaped(text, charset);
    require_law(escaped(safe, charset) == safe, "escaping twice changes nothing", safe);
    require_law(charset == Charset::utf8 || is_ascii(safe), "ASCII is asked for", safe);
    const std::string flaw = flaw_of(safe + "\n", 100'000, false, display_width);
    require_law(flaw.empty(), "an escaped text is sound", flaw);
    const Index width = choices.below(50);
    const std::string cut = truncated(text, width, charset);
    require_law(display_width(cut) <= width, "a cut text fits", cut);
    require_law(!tables_agree(cut) || display_width(cut) == c_library_width(cut),
                "widths are those of the C library", cut);
    const std::string filled = padded(text, width, static_cast<Align>(choices.below(3)), charset);
    require_law(display_width(filled) == width, "a padded text takes its columns", filled);
  }
}

void require_sound(const std::string& picture, Index width, bool colored) {
  const std::string flaw = flaw_of(picture, width, colored, display_width);
  require_law(flaw.empty(), "a picture is sound", flaw + "\n" + picture);
}

void check_heat_map(ByteChoices& choices) {
  const Index rows = choices.below(choices.below(2) == 0 ? 6 : 90);
  const Index cols = choices.below(choices.below(2) == 0 ? 6 : 90);
  HeatMapOptions options;
  options.form = static_cast<HeatMapForm>(choices.below(4));
  options.title = label(choices);
  options.row_labels = labels(choices, rows);
  options.col_labels = labels(choices, cols);
  options.index_labels = choices.below(2) == 0;
  options.range = range(choices);
  options.reduction = static_cast<Reduction>(choices.below(2));
  options.ascii_cells = static_cast<AsciiCells>(choices.below(3));
  options.legend = static_cast<Legend>(choices.below(3));
  options.max_rows = size(choices, 1);
  options.max_cols = size(choices, 1);
  options.max_width = size(choices, 40);
  options.max_label_width = size(choices, 1);
  std::vector<double> values(static_cast<std::size_t>(rows * cols));
  for (double& v : values) v = value(choices);
  try {
    const std::string picture = heat_map(values, rows, cols, options);
    const bool colored =
        options.form == HeatMapForm::indexed_color || options.form == HeatMapForm::true_color;
    require_sound(picture, options.max_width, colored);
    require_law(options.form != HeatMapForm::ascii || is_ascii(picture), "ASCII is asked for", picture);
  } catch (const ArgumentError&) {
    // an option out of its bounds
  }
}

PlotOptions plot_options(ByteChoices& choices) {
  PlotOptions options;
  options.charset = static_cast<Charset>(choices.below(2));
  options.color = choices.below(2) == 0;
  options.title = label(choices);
  options.x_label = label(choices);
  options.y_label = label(choices);
  options.x_range = range(choices);
  options.y_range = range(choices);
  options.width = size(choices, 40);
  options.height = size(choices, 3);
  options.max_label_width = size(choices, 1);
  // A picture of a million lines is none that a test should draw.
  options.height = std::min<Index>(options.height, 200);
  options.width = std::min<Index>(options.width, 400);
  return options;
}

void require_sound_plot(const std::string& picture, const PlotOptions& options) {
  require_sound(picture, options.width, options.color);
  require_law(options.charset == Charset::utf8 || is_ascii(picture), "ASCII is asked for", picture);
}

void check_curves(ByteChoices& choices) {
  PlotOptions options = plot_options(choices);
  options.log_y = choices.below(3) == 0;
  std::vector<Series> series(static_cast<std::size_t>(choices.below(4)));
  for (Series& one : series) {
    if (choices.below(2) == 0) one.name = label(choices);
    const Index count = choices.below(choices.below(2) == 0 ? 4 : 60);
    const bool with_x = choices.below(2) == 0;
    for (Index i = 0; i < count; ++i) {
      one.y.push_back(value(choices));
      if (with_x) one.x.push_back(value(choices));
    }
  }
  try {
    require_sound_plot(plot_curves(series, options), options);
  } catch (const ArgumentError&) {
  }
}

void check_scatter(ByteChoices& choices) {
  const PlotOptions options = plot_options(choices);
  std::vector<LabeledPoint> points(static_cast<std::size_t>(choices.below(30)));
  for (LabeledPoint& point : points) point = {value(choices), value(choices), label(choices)};
  try {
    require_sound_plot(plot_scatter(points, options), options);
  } catch (const ArgumentError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteChoices choices(data, size);
  switch (choices.below(4)) {
    case 0:
      check_labels(choices);
      break;
    case 1:
      check_heat_map(choices);
      break;
    case 2:
      check_curves(choices);
      break;
    default:
      check_scatter(choices);
  }
  return 0;
}
