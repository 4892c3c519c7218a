#include "chart.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "heed/core/isa.hpp"
#include "machine.hpp"

namespace heed::bench {

namespace {

// Lengths are in pixels.
constexpr double kWidth = 920;
constexpr double kMargin = 28;
constexpr double kBarsLeft = 232;
constexpr double kBarsRight = 770;  // where the axis ends; the rest is for the numbers of long bars
constexpr double kBarHeight = 11;
constexpr double kBarStep = 14;
constexpr double kGroupGap = 18;

// Bars, in the order in which they stand. Heed stands out; the others differ from each other in lightness
// too. What is not a library of its own is gray.
struct Series {
  const char* name;
  const char* label;
  const char* css_class;
};
constexpr Series all_series[] = {{"heed", "Heed", "heed"},
                                 {"heed call", "Heed, one-line call", "call"},
                                 {"col_major", "Heed, column-major", "col"},
                                 {"torch", "PyTorch", "torch"},
                                 {"ONNX Runtime", "ONNX Runtime", "onnx"},
                                 {"oneDNN", "oneDNN", "onednn"},
                                 {"ggml", "ggml", "ggml"},
                                 {"OpenBLAS", "OpenBLAS", "blas"},
                                 {"eigen", "plain Eigen", "eigen"},
                                 {"naive", "naive loops", "naive"}};

constexpr const char* style = R"(
  text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #1f2328; }
  .page { fill: #ffffff; stroke: #d1d9e0; } .title { font-size: 18px; font-weight: 600; }
  .cell { font-weight: 600; } .soft { fill: #59636e; } .number { font-size: 11px; fill: #59636e;
    paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
  .number.heed { font-weight: 600; fill: #1f2328; }
  .grid { stroke: #d1d9e0; stroke-width: 1; } .peak { stroke: #59636e; stroke-width: 1; stroke-dasharray: 4 3; }
  rect.heed { fill: #d9480f; } rect.call { fill: #f08c4b; } rect.col { fill: #f5b88f; }
  rect.torch { fill: #1864ab; } rect.onnx { fill: #4dabf7; } rect.onednn { fill: #087f5b; }
  rect.ggml { fill: #63c99b; } rect.blas { fill: #9775d6; } rect.eigen { fill: #868e96; } rect.naive { fill: #c4cad0; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } .page { fill: #0d1117; stroke: #3d444d; } .soft, .number { fill: #9198a1; } .number { stroke: #0d1117; }
    .number.heed { fill: #f0f6fc; } .grid { stroke: #2a313c; } .peak { stroke: #9198a1; }
    rect.heed { fill: #ff7a3d; } rect.call { fill: #c9622f; } rect.col { fill: #8f4a2a; }
    rect.torch { fill: #3b82d0; } rect.onnx { fill: #8cc8ff; } rect.onednn { fill: #1f9d76; }
    rect.ggml { fill: #8ce0b8; } rect.blas { fill: #b49bea; } rect.eigen { fill: #7d8590; } rect.naive { fill: #4d5560; }
  }
)";

std::string number(double value) {
  return format("%.6g", value);
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string text_at(double x, double y, const std::string& css_class, const std::string& text,
                    const char* anchor = "start") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" class=\"" + css_class + "\" text-anchor=\"" +
         anchor + "\">" + escaped(text) + "</text>\n";
}

std::string bar(double x, double y, double width, const char* css_class) {
  return "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(std::max(width, 1.0)) +
         "\" height=\"" + number(kBarHeight) + "\" rx=\"1.5\" class=\"" + css_class + "\"/>\n";
}

std::string vertical(double x, double top, double bottom, const char* css_class) {
  return "<line x1=\"" + number(x) + "\" x2=\"" + number(x) + "\" y1=\"" + number(top) + "\" y2=\"" +
         number(bottom) + "\" class=\"" + css_class + "\"/>\n";
}

std::string counted(long count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

/// What a cell is, in two lines.
struct CellText {
  std::string problem;
  std::string details;
};

CellText describe(const Cell& cell, bool with_threads) {
  CellText text;
  if (cell.cols > 0) {
    text = {std::to_string(cell.query_len) + " × " + std::to_string(cell.depth) + " × " +
                std::to_string(cell.cols),
            "matrix product"};
  } else {
    const bool decodes = cell.query_len == 1 && cell.kv_len > 1;
    text.problem = decodes ? "1 query, " + std::to_string(cell.kv_len) + " keys"
                           : counted(cell.query_len, "token", "tokens") + (cell.causal ? ", causal" : "");
    if (cell.batch > 1) text.problem = std::to_string(cell.batch) + " × " + text.problem;
    if (cell.d_model > 0) {
      text.details = "layer of " + std::to_string(cell.d_model) + ", " + counted(cell.heads, "head", "heads");
    } else {
      text.details = counted(cell.heads, "head", "heads") + " of " + std::to_string(cell.head_dim);
      if (cell.kv_heads != cell.heads) text.details += ", " + std::to_string(cell.kv_heads) + " of keys";
    }
  }
  if (cell.scalar != "float") text.details += ", " + cell.scalar;
  if (with_threads) text.details += ", " + counted(cell.threads, "thread", "threads");
  return text;
}

/// A filter may have left a cell out.
bool is_measured(const Cell& cell, const SampleMap& samples) {
  return std::any_of(cell.contestants.begin(), cell.contestants.end(),
                     [&](const Contestant& c) { return figures(cell, c.name, samples).milliseconds > 0; });
}

struct Bar {
  const Series* series;
  Figures figures;
  bool failed;
};

struct Group {
  CellText text;
  std::vector<Bar> bars;
};

std::vector<Group> groups_of(const std::vector<Cell>& cells, const SampleMap& samples, bool with_threads) {
  std::vector<Group> groups;
  for (const Cell& cell : cells) {
    if (!is_measured(cell, samples)) continue;
    Group group{describe(cell, with_threads), {}};
    for (const Series& series : all_series) {
      const auto at = std::find_if(cell.contestants.begin(), cell.contestants.end(),
                                   [&](const Contestant& c) { return c.name == series.name; });
      if (at == cell.contestants.end()) continue;
      const Figures f = figures(cell, at->name, samples);
      if (f.milliseconds > 0 || !at->failure.empty())
        group.bars.push_back({&series, f, !at->failure.empty()});
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string version_of(const std::vector<Cell>& cells, const std::string& contestant) {
  for (const Cell& cell : cells) {
    for (const Contestant& c : cell.contestants) {
      if (c.name == contestant) return c.version;
    }
  }
  return "";
}

/// "0.62 · 1.83 ms".
std::string bar_text(const Bar& b) {
  if (b.failed) return "failed";
  const double ms = b.figures.milliseconds;
  const double fraction = b.figures.peak_fraction;
  const std::string time = ms < 0.1    ? format("%.3g µs", ms * 1e3)
                           : ms < 1000 ? format("%.3g ms", ms)
                                       : format("%.3g s", ms * 1e-3);
  return format(fraction < 0.001 ? "%.4f" : fraction < 0.01 ? "%.3f" : "%.2f", fraction) + " · " + time;
}

}  // namespace

std::string chart(const std::vector<Cell>& cells, const SampleMap& samples) {
  std::set<int> threads;
  for (const Cell& cell : cells) {
    if (is_measured(cell, samples)) threads.insert(cell.threads);
  }
  const std::vector<Group> groups = groups_of(cells, samples, threads.size() > 1);

  double largest = 0;
  std::set<const Series*> shown;
  for (const Group& group : groups) {
    for (const Bar& b : group.bars) {
      largest = std::max(largest, b.figures.peak_fraction);
      shown.insert(b.series);
    }
  }
  const double axis_end = std::max(1.0, std::ceil(largest * 5) / 5);
  const auto x_of = [axis_end](double fraction) {
    return kBarsLeft + (kBarsRight - kBarsLeft) * fraction / axis_end;
  };

  std::ostringstream body;
  double y = 42;
  body << text_at(kMargin, y, "title", "Fraction of the peak of multiply-adds (longer is faster)");
  y += 22;
  std::string machine = processor() + " · " + compiler() + " · kernels: " + isa();
  if (threads.size() == 1) machine += " · " + counted(*threads.begin(), "thread", "threads");
  body << text_at(kMargin, y, "soft", machine);

  y += 26;
  double x = kMargin;
  for (const Series& series : all_series) {
    if (shown.count(&series) == 0) continue;
    const std::string version = version_of(cells, series.name);
    const std::string label = series.label + (version.empty() ? "" : " " + version);
    // Letters are about 6.6 wide; a bit of air between the entries hides the rest.
    const double width = 18 + 6.6 * static_cast<double>(label.size()) + 20;
    if (x + width > kWidth - kMargin && x > kMargin) {
      x = kMargin;
      y += 20;
    }
    body << bar(x, y - 10, 12, series.css_class) << text_at(x + 18, y, "legend", label);
    x += width;
  }

  y += 40;
  const double top = y - 10;
  double bottom = top;
  for (const Group& group : groups) {
    bottom += static_cast<double>(std::max<std::size_t>(group.bars.size(), 2)) * kBarStep + kGroupGap;
  }
  for (int tick = 0; tick * 0.2 <= axis_end + 0.01; ++tick) {
    const double at = x_of(tick * 0.2);
    body << vertical(at, top, bottom, tick == 5 ? "peak" : "grid");
    for (const double label_y : {top - 6, bottom + 16}) {
      body << text_at(at, label_y, "soft", tick == 5 ? "1 = peak" : format("%.1f", tick * 0.2), "middle");
    }
  }

  y = top + kGroupGap / 2;
  for (const Group& group : groups) {
    body << text_at(kBarsLeft - 14, y + 11, "cell", group.text.problem, "end")
         << text_at(kBarsLeft - 14, y + 26, "soft", group.text.details, "end");
    double bar_y = y;
    for (const Bar& b : group.bars) {
      const double end = x_of(b.failed ? 0 : b.figures.peak_fraction);
      if (!b.failed) body << bar(kBarsLeft, bar_y, end - kBarsLeft, b.series->css_class);
      const std::string name = b.failed ? std::string(b.series->label) + " " : "";
      body << text_at(end + 6, bar_y + 9.5, std::string("number ") + b.series->css_class, name + bar_text(b));
      bar_y += kBarStep;
    }
    y += static_cast<double>(std::max<std::size_t>(group.bars.size(), 2)) * kBarStep + kGroupGap;
  }
  y = bottom + 42;
  body << text_at(
      kMargin, y, "soft",
      "Median of a run in which all take turns; every result is compared with Heed's before. Causal "
      "masks count half the operations.");

  const std::string height = number(y + 22);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(kWidth) + "\" height=\"" + height +
         "\" viewBox=\"0 0 " + number(kWidth) + " " + height +
         "\" role=\"img\">\n<title>Heed's benchmarks on " + escaped(machine) + "</title>\n<style>" + style +
         "</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"" + number(kWidth - 1) + "\" height=\"" +
         number(y + 21) + "\" rx=\"6\" class=\"page\"/>\n" + body.str() + "</svg>\n";
}

}  // namespace heed::bench
