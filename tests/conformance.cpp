// tests/conformance DIR...: runs every attention case (*.safetensors) of the folders against the engine.
//
// A case holds query, key, value and options, and what must come out of them: out, and perhaps weights and
// logsumexp. Layout of the tensors: query [batch, heads, queries, head_dim] and so on; options by name in the
// file's metadata.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "heed/attention.hpp"
#include "heed/safetensors.hpp"

namespace {

using heed::Index;
using heed::Matrix;
using heed::SafetensorsFile;

struct Settings {
  std::string scalar = "float";
  Index threads = 1;
  heed::Executor* executor = nullptr;
};

/// Options that a case may have and the engine does not offer yet: the case is skipped, and counted under the
/// option's name.
const char* const kLaterTensors[] = {"keep", "kv_lengths", "query_offsets", "alibi_slopes", "sinks"};
const char* const kLaterMetadata[] = {"softcap", "window_left", "window_right"};

std::optional<std::string> metadata(const SafetensorsFile& file, const std::string& key) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end()) return std::nullopt;
  return at->second;
}

double number(const std::string& text) {
  std::size_t used = 0;
  const double value = std::stod(text, &used);
  if (used != text.size()) throw std::runtime_error("\"" + text + "\" in the metadata is not a number");
  return value;
}

/// [batch, heads, rows, cols] as Heed wants it: (batch * rows) x (heads * cols).
template <class T>
Matrix<T> rows_by_heads(const SafetensorsFile& file, const std::string& name) {
  const auto& shape = file.at(name).shape;
  if (shape.size() != 4)
    throw std::runtime_error(name + " has " + std::to_string(shape.size()) + " dimensions, not 4");
  const auto values = file.values<T>(name);
  Matrix<T> m(shape[0] * shape[2], shape[1] * shape[3]);
  std::size_t at = 0;
  for (Index b = 0; b < shape[0]; ++b) {
    for (Index h = 0; h < shape[1]; ++h) {
      for (Index i = 0; i < shape[2]; ++i) {
        for (Index c = 0; c < shape[3]; ++c) m(b * shape[2] + i, h * shape[3] + c) = values[at++];
      }
    }
  }
  return m;
}

struct Tolerance {
  double relative;
  double absolute;
};

/// Empty if every element of `actual` is within the tolerance of `expected`, else where the worst one is.
template <class T>
std::string difference(const std::string& name, const Matrix<T>& actual, const Matrix<double>& expected,
                       Tolerance tolerance) {
  if (actual.rows() != expected.rows() || actual.cols() != expected.cols()) {
    return name + " is " + heed::size_of(heed::view(actual)) + ", expected " +
           heed::size_of(heed::view(expected));
  }
  std::string worst;
  double excess = 0;
  for (Index i = 0; i < actual.rows(); ++i) {
    for (Index j = 0; j < actual.cols(); ++j) {
      const auto a = static_cast<double>(actual(i, j));
      const double e = expected(i, j);
      if (a == e || (std::isnan(a) && std::isnan(e))) continue;
      const double over = std::abs(a - e) - tolerance.absolute - tolerance.relative * std::abs(e);
      if (over > excess || std::isnan(over) || std::isinf(over)) {
        excess = std::isnan(over) ? std::numeric_limits<double>::infinity() : over;
        char text[160];
        (void)std::snprintf(text, sizeof text, "(%td, %td) is %.9g, expected %.9g", i, j, a, e);
        worst = name + text;
      }
    }
  }
  return worst;
}

/// The name of an option that the engine does not offer yet, or nothing.
std::string unsupported(const SafetensorsFile& file) {
  for (const char* name : kLaterTensors) {
    if (file.find(name) != nullptr) return name;
  }
  for (const char* name : kLaterMetadata) {
    if (metadata(file, name)) return name;
  }
  if (const auto* bias = file.find("bias")) {
    const auto& query = file.at("query").shape;
    if (bias->shape.size() != 4 || bias->shape[0] != 1 || bias->shape[1] != 1 ||
        bias->shape[2] != query.at(2)) {
      return "bias of its own for each sequence or head, or one row for all";
    }
  }
  return "";
}

/// Empty if the case passes, else what is wrong.
template <class T>
std::string run_case(const SafetensorsFile& file, const Settings& settings) {
  const Matrix<T> query = rows_by_heads<T>(file, "query");
  const Matrix<T> key = rows_by_heads<T>(file, "key");
  const Matrix<T> value = rows_by_heads<T>(file, "value");
  heed::AttentionOptions options;
  options.batch_size = file.at("query").shape[0];
  options.num_heads = file.at("query").shape[1];
  options.num_kv_heads = file.at("key").shape[1];
  options.executor = settings.executor;
  if (const auto scale = metadata(file, "scale")) options.scale = number(*scale);
  if (metadata(file, "causal").value_or("0") == "1") options.mask = heed::causal();
  if (const auto offset = metadata(file, "query_offset")) {
    options.mask = options.mask & heed::query_offset(static_cast<Index>(number(*offset)));
  }
  Matrix<T> bias;
  if (file.find("bias") != nullptr) {
    bias = rows_by_heads<T>(file, "bias");
    options.mask = options.mask & heed::bias(bias);
  }
  const auto result = heed::scaled_dot_product_attention_with_weights(query, key, value, options);

  const bool is_float = sizeof(T) == sizeof(float);
  Tolerance tolerance = is_float ? Tolerance{1e-5, 1e-5} : Tolerance{1e-11, 1e-11};
  if (const auto text = metadata(file, "tolerance_float"); text && is_float)
    tolerance = {number(*text), number(*text)};
  Tolerance out_tolerance = tolerance;
  if (const auto text = metadata(file, "tolerance")) {
    out_tolerance = {0, number(*text)};
    tolerance.absolute = std::max(tolerance.absolute, number(*text));
  }
  std::string problem = difference("out", result.out, rows_by_heads<double>(file, "out"), out_tolerance);
  if (problem.empty() && file.find("weights") != nullptr) {
    const auto& shape = file.at("weights").shape;
    const auto values = file.values<double>("weights");
    const Matrix<double> expected =
        Eigen::Map<const Matrix<double>>(values.data(), shape.at(0) * shape.at(1) * shape.at(2), shape.at(3));
    problem = difference("weights", result.weights.stacked, expected, tolerance);
  }
  if (problem.empty() && file.find("logsumexp") != nullptr) {
    const auto& shape = file.at("logsumexp").shape;
    const auto values = file.values<double>("logsumexp");
    Matrix<double> expected(shape.at(0) * shape.at(2), shape.at(1));
    std::size_t at = 0;
    for (Index b = 0; b < shape[0]; ++b) {
      for (Index h = 0; h < shape[1]; ++h) {
        for (Index i = 0; i < shape[2]; ++i) expected(b * shape[2] + i, h) = values.at(at++);
      }
    }
    problem = difference("logsumexp", result.logsumexp, expected, tolerance);
  }
  return problem;
}

std::vector<std::filesystem::path> cases_in(const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

int run(int argc, char** argv) {
  CLI::App app{"Runs attention cases (*.safetensors) against the engine."};
  std::vector<std::string> folders;
  Settings settings;
  app.add_option("DIR", folders, "Folders of cases")->required();
  app.add_option("--scalar", settings.scalar, "float or double")->check(CLI::IsMember({"float", "double"}));
  app.add_option("--threads", settings.threads, "Threads to work on")->check(CLI::Range(1, 1024));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::unique_ptr<heed::ThreadPool> pool;
  if (settings.threads > 1) {
    pool = std::make_unique<heed::ThreadPool>(settings.threads);
    settings.executor = pool.get();
  }

  int passed = 0;
  int failed = 0;
  std::map<std::string, int> skipped;
  for (const std::filesystem::path& path : cases_in(folders)) {
    std::string problem;
    try {
      const SafetensorsFile file = SafetensorsFile::open(path);
      if (metadata(file, "format") != "attention-case/1")
        throw std::runtime_error("its metadata has no format attention-case/1");
      if (const std::string option = unsupported(file); !option.empty()) {
        ++skipped[option];
        continue;
      }
      problem =
          settings.scalar == "float" ? run_case<float>(file, settings) : run_case<double>(file, settings);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) {
      ++passed;
    } else {
      ++failed;
      std::printf("FAILED %s: %s\n", path.filename().c_str(), problem.c_str());
    }
  }
  int skips = 0;
  for (const auto& [option, count] : skipped) {
    std::printf("skipped %d: %s\n", count, option.c_str());
    skips += count;
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skips);
  if (passed + failed + skips == 0) std::fprintf(stderr, "conformance: no *.safetensors in these folders\n");
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "conformance: %s\n", error.what());
    return 2;
  }
}
