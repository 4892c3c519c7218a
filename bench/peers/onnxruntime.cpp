// ONNX Runtime: models of one operator, made in memory by its model editor. Inputs and outputs are bound, so
// that a run copies nothing.

#include <fcntl.h>
#include <onnxruntime_cxx_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <utility>

#include "peer.hpp"

namespace heed::bench {

namespace {

using Dims = std::vector<std::int64_t>;

constexpr int opset = 23;  // the first with an operator for attention

/// Sends the standard error nowhere while it lives.
class Silence {
 public:
  Silence() : kept_(dup(STDERR_FILENO)) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)dup2(nowhere, STDERR_FILENO);
    (void)close(nowhere);
  }
  ~Silence() {
    (void)dup2(kept_, STDERR_FILENO);
    (void)close(kept_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int kept_;
};

const Ort::Env& environment() {
  static const Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "heed_bench");
  return env;
}

std::size_t count(const Dims& dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return static_cast<std::size_t>(product);
}

template <class T>
constexpr ONNXTensorElementDataType element_type =
    std::is_same_v<T, float> ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;

class OrtCall final : public Call {
 public:
  explicit OrtCall(int threads)
      : threads_(threads), memory_(Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault)) {}

  /// Copies the data.
  template <class T>
  void add_input(const std::string& name, const Dims& dims, std::vector<T> data) {
    bind(name, dims, store(std::move(data)), true);
  }

  void add_output(const std::string& name, const Dims& dims) {
    std::vector<float>& data = store(std::vector<float>(count(dims)));
    if (out_ == nullptr) out_ = &data;
    bind(name, dims, data, false);
  }

  /// An input that is written in place: the operator appends to a cache.
  void add_cache(const std::string& past, const std::string& present, const Dims& dims,
                 std::vector<float> data) {
    std::vector<float>& stored = store(std::move(data));
    bind(past, dims, stored, true);
    bind(present, dims, stored, false);
  }

  /// How to bring the result, the first output, into the order that Call::result() promises.
  void reorder_result(std::function<std::vector<float>(const std::vector<float>&)> reorder) {
    reorder_ = std::move(reorder);
  }

  void finish(const char* operator_name, const char* domain,
              const std::vector<std::pair<const char*, std::int64_t>>& attributes) {
    // Where Torch has brought ONNX's operators along, the first model meets each a second time, and says so.
    // What matters is thrown.
    const Silence silence;
    std::vector<Ort::OpAttr> node_attributes;
    for (const auto& [name, number] : attributes)
      node_attributes.emplace_back(name, &number, 1, ORT_OP_ATTR_INT);
    Ort::Graph graph;
    graph.SetInputs(inputs_);
    graph.SetOutputs(outputs_);
    Ort::Node node(operator_name, domain, "node", input_names_, output_names_, node_attributes);
    graph.AddNode(node);
    Ort::Model model({{"", opset}, {"com.microsoft", 1}});
    model.AddGraph(graph);
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(threads_);
    options.SetInterOpNumThreads(1);
    options.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
    session_ = Ort::Session(environment(), model, options);
    binding_ = Ort::IoBinding(session_);
    for (std::size_t i = 0; i < input_names_.size(); ++i)
      binding_.BindInput(input_names_[i].c_str(), input_values_[i]);
    for (std::size_t i = 0; i < output_names_.size(); ++i) {
      binding_.BindOutput(output_names_[i].c_str(), output_values_[i]);
    }
  }

  void run() override { session_.Run(Ort::RunOptions{nullptr}, binding_); }

  std::vector<float> result() const override { return reorder_ ? reorder_(*out_) : *out_; }

 private:
  std::vector<float>& store(std::vector<float> data) { return floats_.emplace_back(std::move(data)); }
  std::vector<std::int32_t>& store(std::vector<std::int32_t> data) {
    return integers_.emplace_back(std::move(data));
  }

  template <class T>
  void bind(const std::string& name, const Dims& dims, std::vector<T>& data, bool input) {
    const Ort::TensorTypeAndShapeInfo shape(element_type<T>, dims);
    const Ort::TypeInfo type = Ort::TypeInfo::CreateTensorInfo(shape.GetConst());
    (input ? inputs_ : outputs_).emplace_back(name, type.GetConst());
    (input ? input_names_ : output_names_).push_back(name);
    (input ? input_values_ : output_values_)
        .push_back(Ort::Value::CreateTensor<T>(memory_, data.data(), data.size(), dims.data(), dims.size()));
  }

  int threads_;
  Ort::MemoryInfo memory_;
  std::list<std::vector<float>> floats_;  // their addresses are bound
  std::list<std::vector<std::int32_t>> integers_;
  std::vector<float>* out_ = nullptr;
  std::vector<Ort::ValueInfo> inputs_, outputs_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<Ort::Value> input_values_, output_values_;
  Ort::Session session_{nullptr};
  Ort::IoBinding binding_{nullptr};
  std::function<std::vector<float>(const std::vector<float>&)> reorder_;
};

std::vector<float> copy(const float* data, long size) {
  return {data, data + size};
}

std::unique_ptr<Call> attention_of_standard(const AttentionProblem& p) {
  auto call = std::make_unique<OrtCall>(p.threads);
  const long kv_size = p.batch * p.kv_heads * p.kv_len * p.head_dim;
  const Dims query_dims = {p.batch, p.heads, p.query_len, p.head_dim};
  const Dims key_dims = {p.batch, p.kv_heads, p.kv_len, p.head_dim};
  call->add_input("query", query_dims, copy(p.query, static_cast<long>(count(query_dims))));
  call->add_input("key", key_dims, copy(p.key, kv_size));
  call->add_input("value", key_dims, copy(p.value, kv_size));
  call->add_output("out", query_dims);
  call->finish("Attention", "", {{"is_causal", p.causal ? 1 : 0}});
  return call;
}

// Positions before heads, as the operators of com.microsoft have it.
std::function<std::vector<float>(const std::vector<float>&)> heads_first(const AttentionProblem& p) {
  return [p](const std::vector<float>& out) {
    return swap_middle(out.data(), p.batch, p.query_len, p.heads, p.head_dim);
  };
}

std::unique_ptr<Call> multi_head_attention(const AttentionProblem& p) {
  auto call = std::make_unique<OrtCall>(p.threads);
  const Dims query_dims = {p.batch, p.query_len, p.heads * p.head_dim};
  const Dims key_dims = {p.batch, p.kv_len, p.heads * p.head_dim};
  call->add_input("query", query_dims, swap_middle(p.query, p.batch, p.heads, p.query_len, p.head_dim));
  call->add_input("key", key_dims, swap_middle(p.key, p.batch, p.heads, p.kv_len, p.head_dim));
  call->add_input("value", key_dims, swap_middle(p.value, p.batch, p.heads, p.kv_len, p.head_dim));
  call->add_output("out", query_dims);
  call->reorder_result(heads_first(p));
  call->finish("MultiHeadAttention", "com.microsoft",
               {{"num_heads", p.heads}, {"unidirectional", p.causal ? 1 : 0}});
  return call;
}

// Always causal: the queries are the last positions, whose keys and values come with them, and the earlier
// ones stand in a cache that has room for all.
std::unique_ptr<Call> group_query_attention(const AttentionProblem& p) {
  auto call = std::make_unique<OrtCall>(p.threads);
  const auto newest = [&p](const float* data) {
    const std::vector<float> all = swap_middle(data, p.batch, p.kv_heads, p.kv_len, p.head_dim);
    const long row = p.kv_heads * p.head_dim;
    std::vector<float> rows;
    for (long b = 0; b < p.batch; ++b) {
      const auto end = all.begin() + (b + 1) * p.kv_len * row;
      rows.insert(rows.end(), end - p.query_len * row, end);
    }
    return rows;
  };
  const Dims query_dims = {p.batch, p.query_len, p.heads * p.head_dim};
  const Dims key_dims = {p.batch, p.query_len, p.kv_heads * p.head_dim};
  const Dims cache_dims = {p.batch, p.kv_heads, p.kv_len, p.head_dim};
  const auto cache_size = static_cast<long>(count(cache_dims));
  call->add_input("query", query_dims, swap_middle(p.query, p.batch, p.heads, p.query_len, p.head_dim));
  call->add_input("key", key_dims, newest(p.key));
  call->add_input("value", key_dims, newest(p.value));
  call->add_output("out", query_dims);
  call->add_cache("past_key", "present_key", cache_dims, copy(p.key, cache_size));
  call->add_cache("past_value", "present_value", cache_dims, copy(p.value, cache_size));
  const auto length = static_cast<std::int32_t>(p.kv_len);
  call->add_input("last_position", {p.batch},
                  std::vector<std::int32_t>(static_cast<std::size_t>(p.batch), length - 1));
  call->add_input("length", {1}, std::vector<std::int32_t>{length});
  call->reorder_result(heads_first(p));
  call->finish("GroupQueryAttention", "com.microsoft",
               {{"num_heads", p.heads}, {"kv_num_heads", p.kv_heads}});
  return call;
}

std::vector<Way> attention(const AttentionProblem& p) {
  std::vector<Way> ways = {{"Attention", [p] { return attention_of_standard(p); }}};
  if (p.heads == p.kv_heads) ways.push_back({"MultiHeadAttention", [p] { return multi_head_attention(p); }});
  if (p.causal || p.query_len == 1) {
    ways.push_back({"GroupQueryAttention", [p] { return group_query_attention(p); }});
  }
  return ways;
}

std::vector<Way> product(const ProductProblem& p) {
  return {{"MatMul", [p] {
             auto call = std::make_unique<OrtCall>(p.threads);
             call->add_input("a", {p.rows, p.depth}, copy(p.a, p.rows * p.depth));
             call->add_input("b", {p.depth, p.cols}, copy(p.b, p.depth * p.cols));
             call->add_output("c", {p.rows, p.cols});
             call->finish("MatMul", "", {});
             return call;
           }}};
}

}  // namespace

Peer onnxruntime_peer() {
  return {"ONNX Runtime", Ort::GetVersionString(), &attention, &product, nullptr};
}

}  // namespace heed::bench
