#pragma once

// A decoder-only transformer (Radford et al. 2019, "Language models are unsupervised multitask learners"):
// embedding, blocks of attention and feed-forward layers, each on the normalized sum of what came before, and
// scores for the next token.
//
//   heed::Random random(1337);
//   heed::Gpt<float> model({.vocab_size = tokenizer.vocab_size(), .context = 64}, random);
//   const auto logits = model.forward(ids);  // a row for each token: scores of the one after it
//
// gpt_trainer.hpp trains it, generate.hpp lets it write.

#include "heed/core/config.hpp"

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heed/core/token.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/positions.hpp"
#include "heed/layers/weights.hpp"
#include "heed/models/gpt_config.hpp"
#include "heed/models/gpt_memory.hpp"

namespace heed {

/// x + attention(norm1(x)), and to that + feed_forward(norm2(it)): pre-norm (Xiong et al. 2020).
template <class Scalar>
struct GptBlock : ParameterWalk<GptBlock<Scalar>> {
  Norm<Scalar> norm1;
  MultiHeadAttention<Scalar> attention;
  Norm<Scalar> norm2;
  FeedForward<Scalar> feed_forward;

 private:
  friend class ParameterWalk<GptBlock<Scalar>>;

  template <class Self, class F, class Name>
  static void visit(Self& self, F& f, const Name& prefix) {
    self.norm1.for_each_parameter(f, prefix + "norm1.");
    self.attention.for_each_parameter(f, prefix + "attention.");
    self.norm2.for_each_parameter(f, prefix + "norm2.");
    self.feed_forward.for_each_parameter(f, prefix + "feed_forward.");
  }
};

/// Scalar is float or double. forward() is const and keeps nothing: one model serves several threads at once.
template <class Scalar>
class Gpt : public ParameterWalk<Gpt<Scalar>> {
  static_assert(has_kernels<Scalar>, "Gpt is for float and double");

 public:
  TokenEmbedding<Scalar> tokens;
  Matrix<Scalar> positions;  ///< context x d_model; empty unless they are learned.
  std::vector<GptBlock<Scalar>> blocks;
  Norm<Scalar> final_norm;
  Matrix<Scalar> output;  ///< d_model x vocab_size; empty if it is the embedding's table.

  /// Draws weights uniformly with standard deviation 0.02, divided by sqrt(2 * num_layers) in the products
  /// that end a block (Radford et al. 2019); biases are 0, norms 1. Throws as check_config does, and
  /// ArgumentError for more bytes than the machine has (gpt_memory.hpp counts them), before any is taken.
  Gpt(const GptConfig& config, Random& random)
      : tokens((detail::require_gpt_memory(gpt_bytes<Scalar>(config), "a GPT", config),
                detail::uniform_matrix<Scalar>(config.vocab_size, config.d_model, random, kBound))),
        final_norm(norm_of(config)),
        config_(config),
        sinusoids_(sinusoids(config)) {
    const Index d = config.d_model;
    const double last = kBound / std::sqrt(2.0 * static_cast<double>(config.num_layers));
    if (config.positions == PositionKind::rotary) rotary_.emplace(d / config.num_heads, config.context);
    if (config.positions == PositionKind::learned)
      positions = detail::uniform_matrix<Scalar>(config.context, d, random, kBound);
    MultiHeadAttentionConfig sizes{.d_model = d, .num_heads = config.num_heads};
    sizes.num_kv_heads = config.num_kv_heads;
    sizes.bias = config.bias;
    for (Index l = 0; l < config.num_layers; ++l) {
      MultiHeadAttention<Scalar> attention(sizes, random, kBound);
      attention.w_o *= static_cast<Scalar>(last / kBound);
      Linear<Scalar> up(d, config.ff_size(), random, config.bias, kBound);
      std::optional<Linear<Scalar>> gate;
      if (config.gated) gate.emplace(d, config.ff_size(), random, config.bias, kBound);
      Linear<Scalar> down(config.ff_size(), d, random, config.bias, last);
      blocks.push_back({{},
                        norm_of(config),
                        std::move(attention),
                        norm_of(config),
                        {std::move(up), std::move(gate), std::move(down), config.activation}});
    }
    if (!config.tied) output = detail::uniform_matrix<Scalar>(d, config.vocab_size, random, kBound);
  }

  const GptConfig& config() const noexcept { return config_; }

  /// Throws ShapeError, naming the matrix, unless all have the sizes of the configuration: whatever works on
  /// the model looks first.
  void check_weights() const {
    const GptConfig& c = config_;
    const Index d = c.d_model;
    const Index kv = d / c.num_heads * c.kv_heads();
    const bool learned = c.positions == PositionKind::learned;
    const auto require_shape = [](const auto& matrix, const char* name, Index rows, Index cols) {
      detail::require_matrix(view(matrix), name, rows, cols, "the configuration");
    };
    require_shape(tokens.table, "tokens.table", c.vocab_size, d);
    require_shape(positions, "positions", learned ? c.context : 0, learned ? d : 0);
    require_shape(output, "output", c.tied ? 0 : d, c.tied ? 0 : c.vocab_size);
    const auto require_bias = [&](const RowVector<Scalar>& bias, const char* name, Index cols) {
      if (bias.size() > 0) require_shape(bias, name, 1, cols);
    };
    require_shape(final_norm.weight, "final_norm.weight", 1, d);
    require_bias(final_norm.bias, "final_norm.bias", d);
    if (std::ssize(blocks) != c.num_layers) {
      throw_shape_error("the model has " + std::to_string(blocks.size()) +
                        " blocks, its configuration says " + std::to_string(c.num_layers));
    }
    for (const GptBlock<Scalar>& block : blocks) {
      const MultiHeadAttention<Scalar>& attention = block.attention;
      if (attention.num_heads() != c.num_heads || attention.num_kv_heads() != c.kv_heads()) {
        throw_shape_error("a block has " + std::to_string(attention.num_heads()) + " heads on " +
                          std::to_string(attention.num_kv_heads()) +
                          " of keys and values, its configuration says " + std::to_string(c.num_heads) +
                          " on " + std::to_string(c.kv_heads()));
      }
      require_shape(block.norm1.weight, "norm1.weight", 1, d);
      require_bias(block.norm1.bias, "norm1.bias", d);
      require_bias(attention.b_q, "attention.b_q", d);
      require_bias(attention.b_k, "attention.b_k", kv);
      require_bias(attention.b_v, "attention.b_v", kv);
      require_bias(attention.b_o, "attention.b_o", d);
      require_shape(attention.w_q, "attention.w_q", d, d);
      require_shape(attention.w_k, "attention.w_k", d, kv);
      require_shape(attention.w_v, "attention.w_v", d, kv);
      require_shape(attention.w_o, "attention.w_o", d, d);
      require_shape(block.norm2.weight, "norm2.weight", 1, d);
      require_bias(block.norm2.bias, "norm2.bias", d);
      require_bias(block.feed_forward.up.b, "feed_forward.up.b", c.ff_size());
      require_bias(block.feed_forward.down.b, "feed_forward.down.b", d);
      require_shape(block.feed_forward.up.w, "feed_forward.up.w", d, c.ff_size());
      require_shape(block.feed_forward.down.w, "feed_forward.down.w", c.ff_size(), d);
      if (block.feed_forward.gate.has_value() != c.gated)
        throw_shape_error("a block has a gate where the configuration has none, or none where it has one");
      if (c.gated) {
        require_shape(block.feed_forward.gate->w, "feed_forward.gate.w", d, c.ff_size());
        require_bias(block.feed_forward.gate->b, "feed_forward.gate.b", c.ff_size());
      }
    }
  }

  /// Returns the vectors that the first block gets: ids.size() x d_model. ids are batch_size sequences of
  /// equal length, whose first tokens stand at position `first`. Throws RangeError for an id outside the
  /// vocabulary or a position outside the context, ShapeError if ids cannot be split.
  Matrix<Scalar> embed(std::span<const TokenId> ids, Index batch_size = 1, Index first = 0) const {
    check_weights();
    const Index rows = static_cast<Index>(ids.size());
    const Index seq_len = detail::per_sequence(rows, batch_size, "ids");
    if (first < 0 || seq_len > config_.context - first) {
      throw_range_error(std::to_string(seq_len) + " tokens from position " + std::to_string(first) +
                        " on are more than the context, which is " + std::to_string(config_.context));
    }
    Matrix<Scalar> x = tokens.forward(ids);
    const MatrixView<const Scalar> table = position_table();
    for (Index b = 0; !table.empty() && b < batch_size; ++b) {
      const MatrixView<Scalar> own = mutable_view(x).block(b * seq_len, 0, seq_len, x.cols());
      RowFunctions<Scalar>::add(own, table.block(first, 0, seq_len, x.cols()), own);
    }
    return x;
  }

  /// Runs the blocks and the output product on vectors as embed() returns them, and returns a row of scores
  /// for each. Memory: a few matrices of the size of x, and the logits.
  template <class X>
  Matrix<Scalar> logits(const Eigen::DenseBase<X>& x, Index batch_size = 1,
                        Executor* executor = nullptr) const {
    check_weights();
    Matrix<Scalar> stream = x;
    for (const GptBlock<Scalar>& block : blocks) {
      stream += block.attention.forward(block.norm1.forward(stream, executor),
                                        attention_options(batch_size, executor));
      stream += block.feed_forward.forward(block.norm2.forward(stream, executor), executor);
    }
    return project(stream, executor);
  }

  /// Returns ids.size() x vocab_size scores: row i has the scores of the token after ids[i]. Throws as
  /// embed().
  Matrix<Scalar> forward(std::span<const TokenId> ids, Index batch_size = 1,
                         Executor* executor = nullptr) const {
    return logits(embed(ids, batch_size), batch_size, executor);
  }

  /// Returns which position looks at which in one layer: the weights of all its heads, for one sequence.
  /// Throws RangeError if there is no such layer, and as embed().
  AttentionWeights<Scalar> attention_weights(std::span<const TokenId> ids, Index layer) const {
    if (layer < 0 || layer >= config_.num_layers) {
      throw_range_error("layer " + std::to_string(layer) + " is wanted, there are " +
                        std::to_string(config_.num_layers));
    }
    Matrix<Scalar> stream = embed(ids);
    for (Index l = 0; l < layer; ++l) {
      const GptBlock<Scalar>& block = blocks[static_cast<std::size_t>(l)];
      stream += block.attention.forward(block.norm1.forward(stream), attention_options(1, nullptr));
      stream += block.feed_forward.forward(block.norm2.forward(stream));
    }
    const GptBlock<Scalar>& block = blocks[static_cast<std::size_t>(layer)];
    return block.attention.forward_with_weights(block.norm1.forward(stream), attention_options(1, nullptr))
        .weights;
  }

  /// Returns the scores of vectors behind the last block, by the final norm and the output product.
  template <class X>
  Matrix<Scalar> project(const Eigen::DenseBase<X>& stream, Executor* executor = nullptr) const {
    check_weights();
    const Matrix<Scalar> normed = final_norm.forward(stream, executor);
    Matrix<Scalar> result(normed.rows(), config_.vocab_size);
    multiply<Scalar>(view(normed), {output_view(), mutable_view(result)}, executor);
    return result;
  }

  /// Returns the options of causal attention with this model's positions.
  LayerOptions attention_options(Index batch_size, Executor* executor) const {
    LayerOptions options;
    options.mask = causal();
    options.batch_size = batch_size;
    options.score.rotary = rotary_;
    options.executor = executor;
    return options;
  }

  /// Returns the output matrix, d_model x vocab_size: `output`, or the embedding's table turned.
  MatrixView<const Scalar> output_view() const {
    return config_.tied ? view(tokens.table).transposed() : view(output);
  }

  /// Returns what is added to the embedding, a row for each position; empty if nothing is.
  MatrixView<const Scalar> position_table() const {
    if (config_.positions == PositionKind::learned) return view(positions);
    if (config_.positions == PositionKind::sinusoidal) return view(sinusoids_);
    return {};
  }

  const std::optional<Rotary>& rotary() const noexcept { return rotary_; }

 private:
  friend class ParameterWalk<Gpt<Scalar>>;

  // Of a uniform distribution with standard deviation 0.02: 0.02 sqrt(3).
  static constexpr double kBound = 0.034641016151377546;

  /// Returns sines scaled by 0.1: at full size they swamp embeddings of 0.02, which the paper multiplies by
  /// sqrt(d_model) instead (docs/measurements.md#sinusoids).
  static Matrix<Scalar> sinusoids(const GptConfig& config) {
    if (config.positions != PositionKind::sinusoidal) return {};
    constexpr Scalar factor = static_cast<Scalar>(0.1);
    Matrix<Scalar> table = SinusoidalPositions<Scalar>(config.context, config.d_model).table();
    table *= factor;
    return table;
  }

  static Norm<Scalar> norm_of(const GptConfig& config) {
    return Norm<Scalar>(config.d_model, config.bias && !config.rms_norm,
                        {!config.rms_norm, config.norm_epsilon});
  }

  template <class Self, class F, class Name>
  static void visit(Self& self, F& f, const Name& prefix) {
    self.tokens.for_each_parameter(f, prefix + "tokens.");
    if (self.positions.size() > 0) f(prefix + "positions", self.positions);
    for (std::size_t l = 0; l < self.blocks.size(); ++l)
      self.blocks[l].for_each_parameter(f, prefix + "blocks." + std::to_string(l) + ".");
    self.final_norm.for_each_parameter(f, prefix + "final_norm.");
    if (self.output.size() > 0) f(prefix + "output", self.output);
  }

  GptConfig config_;
  Matrix<Scalar> sinusoids_;  ///< context x d_model, or empty.
  std::optional<Rotary> rotary_;
};

}  // namespace heed
