// ggml, the library under llama.cpp: its flash attention with keys and values in float, like everyone else's
// here, and its product.

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "peer.hpp"

namespace heed::bench {

namespace {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Backend = std::unique_ptr<ggml_backend, Deleter<&ggml_backend_free>>;
using Context = std::unique_ptr<ggml_context, Deleter<&ggml_free>>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Deleter<&ggml_backend_buffer_free>>;

// The library picks the processor's best code when it loads its backends.
Backend cpu_backend(int threads) {
  static const bool loaded = [] {
    ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    ggml_backend_load_all();
    return true;
  }();
  (void)loaded;
  Backend backend(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
  if (!backend) throw std::runtime_error("ggml has no backend for the CPU");
  // Backends are loaded at run time, so their functions are looked up by name.
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend.get()));
  const auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(
      ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"));
  if (set_threads == nullptr) throw std::runtime_error("ggml's number of threads cannot be set");
  set_threads(backend.get(), threads);
  return backend;
}

/// A graph and the memory of its tensors. Derived classes describe the graph, then finish() it, then fill its
/// inputs.
class GgmlCall : public Call {
 public:
  explicit GgmlCall(int threads)
      : backend_(cpu_backend(threads)), context_(ggml_init({std::size_t{1} << 20U, nullptr, true})) {}

  void run() override {
    if (ggml_backend_graph_compute(backend_.get(), graph_) != GGML_STATUS_SUCCESS) {
      throw std::runtime_error("ggml could not compute its graph");
    }
  }

  std::vector<float> result() const override {
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(out_)));
    ggml_backend_tensor_get(out_, values.data(), 0, ggml_nbytes(out_));
    return values;
  }

 protected:
  ggml_context* context() { return context_.get(); }

  void finish(ggml_tensor* out) {
    out_ = out;
    graph_ = ggml_new_graph(context());
    ggml_build_forward_expand(graph_, out);
    buffer_.reset(ggml_backend_alloc_ctx_tensors(context(), backend_.get()));
  }

  static void fill(ggml_tensor* tensor, const void* data) {
    ggml_backend_tensor_set(tensor, data, 0, ggml_nbytes(tensor));
  }

 private:
  Backend backend_;
  Context context_;
  Buffer buffer_;
  ggml_cgraph* graph_ = nullptr;
  ggml_tensor* out_ = nullptr;
};

class AttentionCall final : public GgmlCall {
 public:
  explicit AttentionCall(const AttentionProblem& p) : GgmlCall(p.threads), p_(p) {
    const auto heads = [this](long length, long count) {
      return ggml_new_tensor_4d(context(), GGML_TYPE_F32, p_.head_dim, length, count, p_.batch);
    };
    ggml_tensor* query = heads(p.query_len, p.heads);
    ggml_tensor* key = heads(p.kv_len, p.kv_heads);
    ggml_tensor* value = heads(p.kv_len, p.kv_heads);
    ggml_tensor* mask =
        p.causal ? ggml_new_tensor_2d(context(), GGML_TYPE_F16, p.kv_len, p.query_len) : nullptr;
    const float scale = 1 / std::sqrt(static_cast<float>(p.head_dim));
    finish(ggml_flash_attn_ext(context(), query, key, value, mask, scale, 0, 0));
    fill(query, p.query);
    fill(key, p.key);
    fill(value, p.value);
    if (mask == nullptr) return;
    const ggml_fp16_t visible = ggml_fp32_to_fp16(0);
    const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
    std::vector<ggml_fp16_t> rows(static_cast<std::size_t>(p.query_len * p.kv_len), visible);
    for (long i = 0; i < p.query_len; ++i) {
      for (long j = i + 1; j < p.kv_len; ++j) rows[static_cast<std::size_t>(i * p.kv_len + j)] = hidden;
    }
    fill(mask, rows.data());
  }

  std::vector<float> result() const override {
    // Positions come before heads here.
    return swap_middle(GgmlCall::result().data(), p_.batch, p_.query_len, p_.heads, p_.head_dim);
  }

 private:
  AttentionProblem p_;
};

class ProductCall final : public GgmlCall {
 public:
  explicit ProductCall(const ProductProblem& p) : GgmlCall(p.threads) {
    // ggml sums over the fastest dimension of both: the weights are stored as (cols x depth).
    ggml_tensor* weights = ggml_new_tensor_2d(context(), GGML_TYPE_F32, p.depth, p.cols);
    ggml_tensor* a = ggml_new_tensor_2d(context(), GGML_TYPE_F32, p.depth, p.rows);
    finish(ggml_mul_mat(context(), weights, a));
    fill(weights, swap_middle(p.b, 1, p.depth, p.cols, 1).data());
    fill(a, p.a);
  }
};

std::vector<Way> attention(const AttentionProblem& p) {
  return {{"flash_attn_ext", [p] { return std::make_unique<AttentionCall>(p); }}};
}

std::vector<Way> product(const ProductProblem& p) {
  return {{"mul_mat", [p] { return std::make_unique<ProductCall>(p); }}};
}

}  // namespace

Peer ggml_peer() {
  return {"ggml", ggml_version(), &attention, &product, nullptr};
}

}  // namespace heed::bench
