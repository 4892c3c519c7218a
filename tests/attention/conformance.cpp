// conformance DIR...: runs every attention case (*.safetensors) of the folders against the engine.
//
// A case holds query, key, value and options, and what must come out of them: out, and perhaps weights,
// logsumexp and gradients. Layout of the tensors: query [batch, heads, queries, head_dim] and so on; options
// by name in the file's metadata.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "heed/attention/backward.hpp"
#include "heed/io/safetensors.hpp"
#include "heed/plot/display_text.hpp"

namespace {

using heed::Index;
using heed::Matrix;
using heed::SafetensorsFile;

struct Settings {
  std::string scalar = "float";
  Index threads = 1;
  heed::Executor* executor = nullptr;
};

std::optional<std::string> metadata(const SafetensorsFile& file, const std::string& key) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end()) return std::nullopt;
  return at->second;
}

double number(const SafetensorsFile& file, const std::string& key) {
  const std::string text = metadata(file, key).value_or("");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    throw std::runtime_error(key + " in the metadata is " + heed::escaped(text) + ", not a finite number");
  }
  return value;
}

Index whole_number(const SafetensorsFile& file, const std::string& key) {
  const double value = number(file, key);
  if (value != std::round(value) || std::abs(value) > 1e15) {
    throw std::runtime_error(key + " in the metadata is " + *metadata(file, key) +
                             ", not a whole number within 1e15");
  }
  return static_cast<Index>(value);
}

bool flag(const SafetensorsFile& file, const std::string& key) {
  const std::string text = metadata(file, key).value_or("0");
  if (text != "0" && text != "1") throw std::runtime_error(key + " in the metadata is neither 0 nor 1");
  return text == "1";
}

/// The shape of a tensor of `rank` dimensions, none of which is absurd (a tensor without elements may claim
/// any).
std::vector<Index> shape_of(const SafetensorsFile& file, const std::string& name, std::size_t rank) {
  const std::vector<Index>& shape = file.at(name).shape;
  if (shape.size() != rank) {
    throw std::runtime_error(name + " has " + std::to_string(shape.size()) + " dimensions, not " +
                             std::to_string(rank));
  }
  for (const Index n : shape) {
    if (n > (Index{1} << 24)) throw std::runtime_error(name + " has a dimension of " + std::to_string(n));
  }
  return shape;
}

/// [batch, heads, rows, cols] as Heed wants it: (batch * rows) x (heads * cols).
template <class T>
Matrix<T> rows_by_heads(const SafetensorsFile& file, const std::string& name) {
  const std::vector<Index> shape = shape_of(file, name, 4);
  const auto values = file.values<T>(name);
  Matrix<T> m(shape[0] * shape[2], shape[1] * shape[3]);
  for (std::size_t at = 0; at < values.size(); ++at) {
    Index rest = static_cast<Index>(at);
    const Index c = rest % shape[3];
    rest /= shape[3];
    const Index i = rest % shape[2];
    rest /= shape[2];
    m(rest / shape[1] * shape[2] + i, rest % shape[1] * shape[3] + c) = values[at];
  }
  return m;
}

/// [batch, heads, rows, cols] as weights are returned: (batch * heads * rows) x cols.
Matrix<double> stacked(const SafetensorsFile& file, const std::string& name) {
  const std::vector<Index> shape = shape_of(file, name, 4);
  const auto values = file.values<double>(name);
  Matrix<double> m(shape[0] * shape[1] * shape[2], shape[3]);
  std::copy(values.begin(), values.end(), m.data());
  return m;
}

/// [batch, heads, rows] as a logsumexp is returned: (batch * rows) x heads.
Matrix<double> rows_by_head(const SafetensorsFile& file, const std::string& name) {
  const std::vector<Index> shape = shape_of(file, name, 3);
  const auto values = file.values<double>(name);
  Matrix<double> m(shape[0] * shape[2], shape[1]);
  for (std::size_t at = 0; at < values.size(); ++at) {
    const Index row = static_cast<Index>(at) / shape[2];
    m(row / shape[1] * shape[2] + static_cast<Index>(at) % shape[2], row % shape[1]) = values[at];
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
    return name + " is " + heed::size_text(heed::view(actual)) + ", expected " +
           heed::size_text(heed::view(expected));
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

/// A matrix of [1 or batch, 1 or heads, 1 or queries, keys] as masks have it: blocks of rows, one below the
/// other.
template <class T>
struct Blocks {
  Matrix<T> matrix;
  heed::MaskRows per = heed::MaskRows::nothing;
};

template <class Stored, class T>
Blocks<T> blocks(const SafetensorsFile& file, const std::string& name) {
  const std::vector<Index> shape = shape_of(file, name, 4);
  const auto values = file.values<Stored>(name);
  Blocks<T> result;
  if (shape[0] > 1) result.per = heed::MaskRows::sequence;
  if (shape[1] > 1) result.per = shape[0] > 1 ? heed::MaskRows::head_of_sequence : heed::MaskRows::head;
  result.matrix.resize(shape[0] * shape[1] * shape[2], shape[3]);
  std::copy(values.begin(), values.end(), result.matrix.data());
  return result;
}

/// The numbers of a tensor of one dimension.
template <class Stored, class T>
std::vector<T> numbers(const SafetensorsFile& file, const std::string& name) {
  (void)shape_of(file, name, 1);
  const auto values = file.values<Stored>(name);
  return std::vector<T>(values.begin(), values.end());
}

/// Empty if the gradients of a case are right, or it has none; else what is wrong.
template <class T>
std::string check_gradients(const SafetensorsFile& file, const Matrix<T>& query, const Matrix<T>& key,
                            const Matrix<T>& value, const heed::AttentionResult<T>& forward,
                            const heed::AttentionOptions& options, Tolerance tolerance) {
  if (file.find("grad_out") == nullptr) return "";
  const Matrix<T> grad_out = rows_by_heads<T>(file, "grad_out");
  const auto grads =
      heed::scaled_dot_product_attention_backward(query, key, value, forward, grad_out, options);
  std::string problem;
  const auto check = [&](const char* name, const Matrix<T>& actual, auto expected_of) {
    if (problem.empty() && file.find(name) != nullptr)
      problem = difference(name, actual, expected_of(file, name), tolerance);
  };
  check("grad_query", grads.query, rows_by_heads<double>);
  check("grad_key", grads.key, rows_by_heads<double>);
  check("grad_value", grads.value, rows_by_heads<double>);
  check("grad_bias", grads.biases.empty() ? Matrix<T>() : grads.biases.front(), stacked);
  check("grad_sinks", grads.sinks, [](const SafetensorsFile& f, const char* name) {
    const auto sinks = numbers<double, double>(f, name);
    Matrix<double> row(1, static_cast<Index>(sinks.size()));
    std::copy(sinks.begin(), sinks.end(), row.data());
    return row;
  });
  return problem;
}

/// Empty if the case passes, else what is wrong.
template <class T>
std::string run_case(const SafetensorsFile& file, const Settings& settings) {
  const Matrix<T> query = rows_by_heads<T>(file, "query");
  const Matrix<T> key = rows_by_heads<T>(file, "key");
  const Matrix<T> value = rows_by_heads<T>(file, "value");
  const std::vector<Index> query_shape = shape_of(file, "query", 4);
  const std::vector<Index> key_shape = shape_of(file, "key", 4);
  const std::vector<Index> value_shape = shape_of(file, "value", 4);
  for (const std::size_t dimension : {std::size_t{0}, std::size_t{1}}) {
    if (key_shape[dimension] != value_shape[dimension])
      throw std::runtime_error("key and value differ in batch or heads");
  }
  if (query_shape[0] != key_shape[0]) throw std::runtime_error("query and key differ in batch");
  heed::AttentionOptions options;
  options.batch_size = query_shape[0];
  options.num_heads = query_shape[1];
  options.num_kv_heads = key_shape[1];
  options.executor = settings.executor;
  if (metadata(file, "scale")) options.scale = number(file, "scale");
  if (metadata(file, "softcap")) options.softcap = number(file, "softcap");
  heed::Mask& mask = options.mask;
  if (flag(file, "causal")) mask = heed::causal();
  if (metadata(file, "window_left") || metadata(file, "window_right")) {
    const auto side = [&](const char* name) {
      return metadata(file, name) ? whole_number(file, name) : heed::kUnlimited;
    };
    mask = mask & heed::window(side("window_left"), side("window_right"));
  }
  if (file.find("query_offsets") != nullptr) {
    mask = mask & heed::query_offsets(numbers<std::int64_t, Index>(file, "query_offsets"));
  } else if (metadata(file, "query_offset")) {
    mask = mask & heed::query_offset(whole_number(file, "query_offset"));
  } else {
    mask = mask & heed::top_left();
  }
  if (file.find("kv_lengths") != nullptr)
    mask = mask & heed::kv_lengths(numbers<std::int64_t, Index>(file, "kv_lengths"));
  if (file.find("alibi_slopes") != nullptr)
    mask = mask & heed::alibi(numbers<double, double>(file, "alibi_slopes"));
  if (file.find("sinks") != nullptr) options.sinks = numbers<double, double>(file, "sinks");
  Blocks<T> bias;
  if (file.find("bias") != nullptr) {
    bias = blocks<T, T>(file, "bias");
    mask = mask & heed::bias(bias.matrix, bias.per);
  }
  Blocks<bool> keep;
  if (file.find("keep") != nullptr) {
    keep = blocks<std::uint8_t, bool>(file, "keep");
    mask = mask & heed::keep_where(keep.matrix, keep.per);
  }
  const auto result = heed::scaled_dot_product_attention_with_weights(query, key, value, options);

  const bool is_float = sizeof(T) == sizeof(float);
  Tolerance tolerance = is_float ? Tolerance{1e-5, 1e-5} : Tolerance{1e-11, 1e-11};
  if (metadata(file, "tolerance_float")) {
    const double given = number(file, "tolerance_float");
    if (is_float) tolerance = {given, given};
  }
  Tolerance out_tolerance = tolerance;
  if (metadata(file, "tolerance")) {
    const double given = number(file, "tolerance");
    out_tolerance = {0, given};
    tolerance.absolute = std::max(tolerance.absolute, given);
  }
  std::string problem = difference("out", result.out, rows_by_heads<double>(file, "out"), out_tolerance);
  if (problem.empty() && file.find("weights") != nullptr) {
    problem = difference("weights", result.weights.stacked, stacked(file, "weights"), tolerance);
  }
  if (problem.empty() && file.find("logsumexp") != nullptr) {
    problem = difference("logsumexp", result.logsumexp, rows_by_head(file, "logsumexp"), tolerance);
  }
  if (problem.empty()) problem = check_gradients<T>(file, query, key, value, result, options, tolerance);
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
  demo::folders(app, folders, "folders of cases");
  demo::choice(app, "--scalar", settings.scalar, {"float", "double"}, "what to compute in");
  demo::number(app, "--threads", settings.threads, "threads to work on", {.min = 1, .max = 1024});
  if (const auto code = demo::parse(app, argc, argv)) return *code;
  std::unique_ptr<heed::ThreadPool> pool;
  if (settings.threads > 1) {
    pool = std::make_unique<heed::ThreadPool>(settings.threads);
    settings.executor = pool.get();
  }

  int passed = 0;
  int failed = 0;
  for (const std::filesystem::path& path : cases_in(folders)) {
    std::string problem;
    try {
      const SafetensorsFile file = SafetensorsFile::open(path);
      if (metadata(file, "format") != "attention-case/1")
        throw std::runtime_error("its metadata has no format attention-case/1");
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
  std::printf("%d passed, %d failed\n", passed, failed);
  if (passed + failed == 0) std::fprintf(stderr, "conformance: no *.safetensors in these folders\n");
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return demo::guarded("conformance", [&] { return run(argc, argv); });
}
