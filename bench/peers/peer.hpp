#pragma once

// What a C++ library must offer to stand beside Heed in the table. One library is one file in this folder and
// sees no header of another; which files are built depends on what CMake found.
//
// Tensors arrive as float, contiguous and with heads before positions: (batch, heads, length, head_dim). A
// file brings them into the layout that its library is fastest with; this is preparation, and not timed.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heed::bench {

/// softmax(query key^T / sqrt(head_dim)) value. Query head h reads key/value head h / (heads / kv_heads).
struct AttentionProblem {
  long batch, heads, kv_heads, query_len, kv_len, head_dim;
  bool causal;  // then query_len == kv_len
  int threads;
  const float* query;  // (batch, heads, query_len, head_dim)
  const float* key;    // (batch, kv_heads, kv_len, head_dim)
  const float* value;  // the same
};

/// The gradients of query, key and value of a loss whose gradient with respect to the attention is grad_out:
/// forward and backward, as in training.
struct GradientProblem {
  AttentionProblem attention;
  const float* grad_out;  // (batch, heads, query_len, head_dim)
};

/// a (rows x depth) times b (depth x cols), both row-major.
struct ProductProblem {
  long rows, depth, cols;
  int threads;
  const float* a;
  const float* b;
};

/// Multi-head self-attention with its projections, without biases. The weights are d_model x d_model,
/// row-major, and stand right of what they multiply.
struct LayerProblem {
  long batch, seq_len, d_model, heads;
  bool causal;
  int threads;
  const float* x;  // (batch * seq_len) x d_model
  const float *w_q, *w_k, *w_v, *w_o;
};

/// Steps of training a GPT, all on one batch: pre-norm blocks, LayerNorm without bias, exact GELU, learned
/// positions, the embedding's table for the output, no biases, no dropout, AdamW with beta 0.9 and 0.99,
/// decay of 0.1 on matrices, gradients clipped to a norm of 1.
struct TrainingProblem {
  long batch, seq_len, layers, heads, d_model, d_ff, vocab_size;
  double rate;
  int threads;
  const std::int32_t* inputs;   // batch x seq_len
  const std::int32_t* targets;  // the same
  /// The weights to begin with, row-major, by Heed's names: "blocks.0.attention.w_q". They stand right of
  /// what they multiply.
  const std::map<std::string, std::vector<float>>* weights;
};

/// One problem, ready to run: sessions, plans and memory are made, the number of threads is set.
class Call {
 public:
  Call() = default;
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  virtual void run() = 0;

  /// What the last run computed: (batch, heads, query_len, head_dim) for attention, the gradients of query,
  /// key and value one after another, the loss of a step of training, rows x columns otherwise.
  virtual std::vector<float> result() const = 0;
};

/// One of the ways in which a library can solve a problem. The problem's data must live as long as the call.
struct Way {
  std::string name;  // of the function or operator, in the library's own words
  std::function<std::unique_ptr<Call>()> prepare;
};

struct Peer {
  std::string name;
  std::string version;
  // All that might be the fastest on the problem; a null pointer where the library has nothing of the kind.
  std::vector<Way> (*attention)(const AttentionProblem& problem) = nullptr;
  std::vector<Way> (*product)(const ProductProblem& problem) = nullptr;
  std::vector<Way> (*layer)(const LayerProblem& problem) = nullptr;
  std::vector<Way> (*gradients)(const GradientProblem& problem) = nullptr;
  std::vector<Way> (*training)(const TrainingProblem& problem) = nullptr;
};

/// Those that were found when this program was built.
std::vector<Peer> peers();

/// (batch, length, heads, dim) from (batch, heads, length, dim), or with heads and length exchanged, back.
std::vector<float> swap_middle(const float* from, long batch, long heads, long length, long dim);

}  // namespace heed::bench
