// PyTorch's C++ library: at::scaled_dot_product_attention, which takes its flash kernel for these problems.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <array>
#include <cstdint>
#include <utility>

#include "peer.hpp"

namespace heed::bench {

std::vector<Way> torch_training(const TrainingProblem& problem);  // torch_gpt.cpp
void set_torch_threads(int threads);

namespace {

// A view, without a copy. ATen has no constant tensors; nothing here writes to it.
at::Tensor tensor(const float* data, at::IntArrayRef sizes) {
  return at::from_blob(const_cast<float*>(data), sizes, at::kFloat);
}

class TorchCall final : public Call {
 public:
  TorchCall(int threads, std::function<at::Tensor()> function) : function_(std::move(function)) {
    set_torch_threads(threads);
  }

  void run() override {
    const c10::InferenceMode guard;
    out_ = function_();
  }

  std::vector<float> result() const override {
    const at::Tensor out = out_.contiguous();
    return {out.const_data_ptr<float>(), out.const_data_ptr<float>() + out.numel()};
  }

 private:
  std::function<at::Tensor()> function_;
  at::Tensor out_;
};

// heads_last: how the heads of a projection lie in memory when nobody has moved them.
std::unique_ptr<Call> prepare_attention(const AttentionProblem& p, bool heads_last) {
  const c10::InferenceMode guard;
  at::Tensor query = tensor(p.query, {p.batch, p.heads, p.query_len, p.head_dim});
  at::Tensor key = tensor(p.key, {p.batch, p.kv_heads, p.kv_len, p.head_dim});
  at::Tensor value = tensor(p.value, {p.batch, p.kv_heads, p.kv_len, p.head_dim});
  if (heads_last) {
    for (at::Tensor* t : {&query, &key, &value}) *t = t->transpose(1, 2).contiguous().transpose(1, 2);
  }
  const bool causal = p.causal;
  const bool grouped = p.heads != p.kv_heads;
  return std::make_unique<TorchCall>(p.threads, [query, key, value, causal, grouped] {
    return at::scaled_dot_product_attention(query, key, value, {}, 0.0, causal, std::nullopt, grouped);
  });
}

std::vector<Way> attention(const AttentionProblem& p) {
  return {{"scaled_dot_product_attention (B,H,N,D)", [p] { return prepare_attention(p, false); }},
          {"scaled_dot_product_attention (B,N,H,D)", [p] { return prepare_attention(p, true); }}};
}

/// Forward and backward by torch's own automatic differentiation.
class TorchGradients final : public Call {
 public:
  TorchGradients(const GradientProblem& p, bool heads_last) : causal_(p.attention.causal) {
    const AttentionProblem& a = p.attention;
    set_torch_threads(a.threads);
    const std::array<std::int64_t, 4> sizes = {a.batch, a.heads, a.query_len, a.head_dim};
    for (const float* data : {a.query, a.key, a.value}) {
      at::Tensor t = tensor(data, sizes).clone();
      if (heads_last) t = t.transpose(1, 2).contiguous().transpose(1, 2);
      inputs_.push_back(t.requires_grad_());
    }
    grad_out_ = tensor(p.grad_out, sizes).clone();
    if (heads_last) grad_out_ = grad_out_.transpose(1, 2).contiguous().transpose(1, 2);
  }

  void run() override {
    const at::Tensor out = at::scaled_dot_product_attention(inputs_[0], inputs_[1], inputs_[2], {}, 0.0,
                                                            causal_, std::nullopt, false);
    grads_ = torch::autograd::grad({out}, inputs_, {grad_out_});
  }

  std::vector<float> result() const override {
    std::vector<float> all;
    for (const at::Tensor& grad : grads_) {
      const at::Tensor own = grad.contiguous();
      all.insert(all.end(), own.const_data_ptr<float>(), own.const_data_ptr<float>() + own.numel());
    }
    return all;
  }

 private:
  bool causal_;
  std::vector<at::Tensor> inputs_;
  at::Tensor grad_out_;
  std::vector<at::Tensor> grads_;
};

std::vector<Way> gradients(const GradientProblem& p) {
  return {{"scaled_dot_product_attention (B,H,N,D) and autograd::grad",
           [p] { return std::make_unique<TorchGradients>(p, false); }},
          {"scaled_dot_product_attention (B,N,H,D) and autograd::grad",
           [p] { return std::make_unique<TorchGradients>(p, true); }}};
}

std::vector<Way> product(const ProductProblem& p) {
  return {{"mm", [p] {
             const c10::InferenceMode guard;
             const at::Tensor a = tensor(p.a, {p.rows, p.depth});
             const at::Tensor b = tensor(p.b, {p.depth, p.cols});
             return std::make_unique<TorchCall>(p.threads, [a, b] { return at::mm(a, b); });
           }}};
}

// The layer as good PyTorch code has it: one product for query, key and value, no copy of the heads before
// attention. On a CPU this is faster than nn.MultiheadAttention.
std::unique_ptr<Call> prepare_layer(const LayerProblem& p) {
  const c10::InferenceMode guard;
  const std::array<std::int64_t, 2> square = {p.d_model, p.d_model};
  const at::Tensor x = tensor(p.x, {p.batch, p.seq_len, p.d_model});
  // linear() multiplies by the transposed weight.
  const at::Tensor w_in =
      at::cat({tensor(p.w_q, square), tensor(p.w_k, square), tensor(p.w_v, square)}, 1).t().contiguous();
  const at::Tensor w_out = tensor(p.w_o, square).t().contiguous();
  return std::make_unique<TorchCall>(p.threads, [p, x, w_in, w_out] {
    const at::Tensor qkv = at::linear(x, w_in)
                               .view({p.batch, p.seq_len, 3, p.heads, p.d_model / p.heads})
                               .permute({2, 0, 3, 1, 4});
    const at::Tensor heads =
        at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, p.causal, std::nullopt, false);
    return at::linear(heads.transpose(1, 2).reshape({p.batch, p.seq_len, p.d_model}), w_out);
  });
}

std::vector<Way> layer(const LayerProblem& p) {
  return {{"linear + scaled_dot_product_attention + linear", [p] { return prepare_layer(p); }}};
}

}  // namespace

// Torch counts its own threads. Those of the OpenBLAS under it, if that is what it runs on, are its user's
// business.
void set_torch_threads(int threads) {
  at::set_num_threads(threads);
  if (void* function = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(function)(threads);
  }
}

Peer torch_peer() {
  return {"torch", TORCH_VERSION, &attention, &product, &layer, &gradients, &torch_training};
}

}  // namespace heed::bench
