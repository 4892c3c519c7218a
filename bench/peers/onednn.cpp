// oneDNN: attention is a pattern of its graph interface, which the library compiles into one kernel; the
// product is a primitive.

#include <omp.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_graph.hpp>
#include <stdexcept>
#include <unordered_map>

#include "peer.hpp"

namespace heed::bench {

namespace {

using dnnl::graph::logical_tensor;
using dnnl::graph::op;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// Whatever pool another build of the library may have, this is the one whose threads are counted here.
void set_threads(int threads) {
  if constexpr (DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_OMP) {
    throw std::runtime_error("this build of oneDNN does not take its threads from OpenMP");
  }
  omp_set_num_threads(threads);
}

logical_tensor describe(std::size_t id, const logical_tensor::dims& dims) {
  return {id, logical_tensor::data_type::f32, dims, logical_tensor::layout_type::strided};
}

class AttentionCall final : public Call {
 public:
  explicit AttentionCall(const AttentionProblem& p)
      : stream_(engine()),
        scale_(1 / std::sqrt(static_cast<float>(p.head_dim))),
        out_(static_cast<std::size_t>(p.batch * p.heads * p.query_len * p.head_dim)) {
    set_threads(p.threads);
    // Heads that share a key are a dimension of their own, along which the key is broadcast.
    const long group = p.heads / p.kv_heads;
    using dims = logical_tensor::dims;
    const dims query_dims = group > 1 ? dims{p.batch, p.kv_heads, group, p.query_len, p.head_dim}
                                      : dims{p.batch, p.heads, p.query_len, p.head_dim};
    const dims key_dims = group > 1 ? dims{p.batch, p.kv_heads, 1, p.kv_len, p.head_dim}
                                    : dims{p.batch, p.heads, p.kv_len, p.head_dim};
    dims score_dims = query_dims;
    score_dims.back() = p.kv_len;
    dims mask_dims(query_dims.size(), 1);
    mask_dims[mask_dims.size() - 2] = p.query_len;
    mask_dims.back() = p.kv_len;

    enum : std::size_t { query, key, value, factor, mask, scores, scaled, masked, weights, out };
    const logical_tensor query_t = describe(query, query_dims);
    const logical_tensor key_t = describe(key, key_dims);
    const logical_tensor value_t = describe(value, key_dims);
    const logical_tensor factor_t = describe(factor, {1});
    const logical_tensor mask_t = describe(mask, mask_dims);
    const logical_tensor scores_t = describe(scores, score_dims);
    const logical_tensor scaled_t = describe(scaled, score_dims);
    const logical_tensor masked_t = describe(masked, score_dims);
    const logical_tensor weights_t = describe(weights, score_dims);
    const logical_tensor out_t = describe(out, query_dims);

    op query_key(0, op::kind::MatMul, {query_t, key_t}, {scores_t}, "query_key");
    query_key.set_attr<bool>(op::attr::transpose_b, true);
    const op times_scale(1, op::kind::Multiply, {scores_t, factor_t}, {scaled_t}, "times_scale");
    const op add_mask(2, op::kind::Add, {scaled_t, mask_t}, {masked_t}, "add_mask");
    op softmax(3, op::kind::SoftMax, {p.causal ? masked_t : scaled_t}, {weights_t}, "softmax");
    softmax.set_attr<std::int64_t>(op::attr::axis, -1);
    softmax.set_attr<std::string>(op::attr::mode, "inf_as_zero");
    const op weights_value(4, op::kind::MatMul, {weights_t, value_t}, {out_t}, "weights_value");

    dnnl::graph::graph graph(dnnl::engine::kind::cpu);
    graph.add_op(query_key);
    graph.add_op(times_scale);
    if (p.causal) graph.add_op(add_mask);
    graph.add_op(softmax);
    graph.add_op(weights_value);
    graph.finalize();
    const std::vector<dnnl::graph::partition> partitions = graph.get_partitions();
    if (partitions.size() != 1) throw std::runtime_error("attention was not fused into one partition");

    if (p.causal) {
      mask_.assign(static_cast<std::size_t>(p.query_len * p.kv_len), 0.0F);
      for (long i = 0; i < p.query_len; ++i) {
        for (long j = i + 1; j < p.kv_len; ++j) {
          mask_[static_cast<std::size_t>(i * p.kv_len + j)] = -std::numeric_limits<float>::infinity();
        }
      }
    }
    // The library reads inputs through pointers that are not const.
    const std::unordered_map<std::size_t, void*> data = {{query, const_cast<float*>(p.query)},
                                                         {key, const_cast<float*>(p.key)},
                                                         {value, const_cast<float*>(p.value)},
                                                         {factor, &scale_},
                                                         {mask, mask_.data()}};
    const std::vector<logical_tensor> ports = partitions[0].get_input_ports();
    compiled_ = partitions[0].compile(ports, {out_t}, engine());
    for (const logical_tensor& port : ports) inputs_.emplace_back(port, engine(), data.at(port.get_id()));
    outputs_.emplace_back(out_t, engine(), out_.data());
  }

  void run() override {
    compiled_.execute(stream_, inputs_, outputs_);
    stream_.wait();
  }

  std::vector<float> result() const override { return out_; }

 private:
  dnnl::stream stream_;
  float scale_;
  std::vector<float> mask_;
  std::vector<float> out_;
  dnnl::graph::compiled_partition compiled_;
  std::vector<dnnl::graph::tensor> inputs_;
  std::vector<dnnl::graph::tensor> outputs_;
};

class ProductCall final : public Call {
 public:
  explicit ProductCall(const ProductProblem& p)
      : stream_(engine()), out_(static_cast<std::size_t>(p.rows * p.cols)) {
    set_threads(p.threads);
    const auto row_major = [](long rows, long cols) {
      return dnnl::memory::desc({rows, cols}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
    };
    const dnnl::memory::desc a = row_major(p.rows, p.depth);
    const dnnl::memory::desc b = row_major(p.depth, p.cols);
    const dnnl::memory::desc c = row_major(p.rows, p.cols);
    matmul_ = dnnl::matmul(dnnl::matmul::primitive_desc(engine(), a, b, c));
    arguments_ = {{DNNL_ARG_SRC, dnnl::memory(a, engine(), const_cast<float*>(p.a))},
                  {DNNL_ARG_WEIGHTS, dnnl::memory(b, engine(), const_cast<float*>(p.b))},
                  {DNNL_ARG_DST, dnnl::memory(c, engine(), out_.data())}};
  }

  void run() override {
    matmul_.execute(stream_, arguments_);
    stream_.wait();
  }

  std::vector<float> result() const override { return out_; }

 private:
  dnnl::stream stream_;
  std::vector<float> out_;
  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

std::vector<Way> attention(const AttentionProblem& p) {
  return {{"graph: MatMul, Multiply, SoftMax, MatMul", [p] { return std::make_unique<AttentionCall>(p); }}};
}

std::vector<Way> product(const ProductProblem& p) {
  return {{"matmul", [p] { return std::make_unique<ProductCall>(p); }}};
}

std::string version() {
  const dnnl::version_t* v = dnnl::version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace

Peer onednn_peer() {
  return {"oneDNN", version(), &attention, &product, nullptr};
}

}  // namespace heed::bench
