// Steps of training a GPT with PyTorch's C++ library: its own automatic differentiation, and the AdamW that
// is fastest here, all weights in one call.

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/normalization.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include <string>
#include <utility>

#include "peer.hpp"

namespace heed::bench {

void set_torch_threads(int threads);  // torch.cpp

namespace {

namespace F = torch::nn::functional;

class TorchTraining final : public Call {
 public:
  TorchTraining(const TrainingProblem& p, bool fused) : problem_(p), fused_(fused) {
    set_torch_threads(p.threads);
    // linear() multiplies by the transposed weight; query, key and value are one product.
    const auto weight = [&](const std::string& name, long rows, long cols) {
      return torch::from_blob(const_cast<float*>(p.weights->at(name).data()), {rows, cols}).clone();
    };
    const auto parameter = [&](const torch::Tensor& t) {
      parameters_.push_back(t.contiguous().requires_grad_());
      decays_.push_back(t.dim() > 1);
      return parameters_.back();
    };
    const long d = p.d_model;
    table_ = parameter(weight("tokens.table", p.vocab_size, d));
    positions_ = parameter(weight("positions", p.seq_len, d));
    for (long l = 0; l < p.layers; ++l) {
      const std::string block = "blocks." + std::to_string(l) + ".";
      const torch::Tensor qkv =
          torch::cat({weight(block + "attention.w_q", d, d), weight(block + "attention.w_k", d, d),
                      weight(block + "attention.w_v", d, d)},
                     1);
      blocks_.push_back({parameter(weight(block + "norm1.weight", 1, d).flatten()), parameter(qkv.t()),
                         parameter(weight(block + "attention.w_o", d, d).t()),
                         parameter(weight(block + "norm2.weight", 1, d).flatten()),
                         parameter(weight(block + "feed_forward.up.w", d, p.d_ff).t()),
                         parameter(weight(block + "feed_forward.down.w", p.d_ff, d).t())});
    }
    norm_ = parameter(weight("final_norm.weight", 1, d).flatten());
    const auto ids = [&](const std::int32_t* from) {
      return torch::from_blob(const_cast<std::int32_t*>(from), {p.batch, p.seq_len}, torch::kInt32)
          .to(torch::kInt64);
    };
    inputs_ = ids(p.inputs);
    targets_ = ids(p.targets).flatten();
    places_ = torch::arange(p.seq_len);
    make_optimizer();
  }

  void run() override {
    const torch::Tensor loss = forward();
    for (torch::Tensor& t : parameters_) t.mutable_grad().reset();
    loss.backward();
    torch::nn::utils::clip_grad_norm_(parameters_, 1.0);
    if (fused_) {
      step_fused();
    } else {
      optimizer_->step();
    }
    loss_ = loss.item<float>();
  }

  std::vector<float> result() const override { return {loss_}; }

 private:
  struct Block {
    torch::Tensor norm1, qkv, out, norm2, up, down;
  };

  torch::Tensor norm(const torch::Tensor& x, const torch::Tensor& weight) const {
    return F::layer_norm(x, F::LayerNormFuncOptions({problem_.d_model}).weight(weight).eps(1e-5));
  }

  torch::Tensor forward() const {
    const TrainingProblem& p = problem_;
    torch::Tensor x = at::embedding(table_, inputs_) + at::embedding(positions_, places_);
    for (const Block& block : blocks_) {
      const torch::Tensor qkv = torch::linear(norm(x, block.norm1), block.qkv)
                                    .view({p.batch, p.seq_len, 3, p.heads, p.d_model / p.heads})
                                    .permute({2, 0, 3, 1, 4});
      const torch::Tensor heads =
          at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, true, std::nullopt, false);
      x = x + torch::linear(heads.transpose(1, 2).reshape({p.batch, p.seq_len, p.d_model}), block.out);
      x = x + torch::linear(F::gelu(torch::linear(norm(x, block.norm2), block.up)), block.down);
    }
    const torch::Tensor logits = torch::linear(norm(x, norm_), table_);
    return F::cross_entropy(logits.view({p.batch * p.seq_len, p.vocab_size}), targets_);
  }

  void make_optimizer() {
    std::vector<torch::Tensor> decaying;
    std::vector<torch::Tensor> others;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      (decays_[i] ? decaying : others).push_back(parameters_[i]);
    if (fused_) {
      groups_ = {{decaying, 0.1}, {others, 0.0}};
      for (Group& group : groups_) {
        for (const torch::Tensor& t : group.parameters) {
          group.first.push_back(torch::zeros_like(t));
          group.second.push_back(torch::zeros_like(t));
          group.steps.push_back(torch::zeros({}));
        }
      }
      return;
    }
    const auto options = [&](double decay) {
      return std::make_unique<torch::optim::AdamWOptions>(
          torch::optim::AdamWOptions(problem_.rate).betas({0.9, 0.99}).weight_decay(decay));
    };
    optimizer_ = std::make_unique<torch::optim::AdamW>(
        std::vector<torch::optim::OptimizerParamGroup>{{decaying, options(0.1)}, {others, options(0)}});
  }

  void step_fused() {
    const torch::NoGradGuard guard;
    for (Group& group : groups_) {
      std::vector<torch::Tensor> grads;
      for (const torch::Tensor& t : group.parameters) grads.push_back(t.grad());
      for (torch::Tensor& step : group.steps) step += 1;
      at::_fused_adamw_(group.parameters, grads, group.first, group.second, {}, group.steps, problem_.rate,
                        0.9, 0.99, group.decay, 1e-8, false, false);
    }
  }

  struct Group {
    std::vector<torch::Tensor> parameters;
    double decay;
    std::vector<torch::Tensor> first = {}, second = {}, steps = {};
  };

  TrainingProblem problem_;
  bool fused_;
  std::vector<torch::Tensor> parameters_;
  std::vector<bool> decays_;
  torch::Tensor table_, positions_, norm_, inputs_, targets_, places_;
  std::vector<Block> blocks_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  std::vector<Group> groups_;
  float loss_ = 0;
};

}  // namespace

std::vector<Way> torch_training(const TrainingProblem& p) {
  return {{"autograd and optim::AdamW", [p] { return std::make_unique<TorchTraining>(p, false); }},
          {"autograd and _fused_adamw_", [p] { return std::make_unique<TorchTraining>(p, true); }}};
}

}  // namespace heed::bench
