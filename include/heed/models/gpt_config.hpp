#pragma once

// What a Gpt is made by, and its form in files.

#include "heed/core/config.hpp"

#include <optional>
#include <string>

#include "heed/core/view.hpp"
#include "heed/layers/rows.hpp"

namespace heed {

/// How a model knows the order of its tokens.
enum class PositionKind {
  learned,     ///< A table of weights, added to the embedding.
  sinusoidal,  ///< Sines and cosines, a tenth of them added to the embedding (Vaswani et al. 2017,
               ///< section 3.5).
  rotary,      ///< Queries and keys are turned (Su et al. 2021).
};

/// The sizes and kinds of a Gpt.
struct GptConfig {
  Index vocab_size = 0;
  Index context = 64;  ///< The most tokens that the model looks at.
  Index num_layers = 4;
  Index num_heads = 4;
  std::optional<Index> num_kv_heads = std::nullopt;  ///< Default: num_heads.
  Index d_model = 128;
  std::optional<Index> d_ff = std::nullopt;  ///< Default: 4 * d_model.
  PositionKind positions = PositionKind::learned;
  Activation activation = Activation::gelu;
  bool gated = false;     ///< Feed-forward layers have a gate: SwiGLU with silu.
  bool rms_norm = false;  ///< Norms are RMSNorm, else LayerNorm.
  double norm_epsilon = 1e-5;
  bool bias = false;  ///< Projections, feed-forward layers and norms have biases.
  bool tied = true;   ///< The output product uses the token embedding's table.
  double dropout =
      0;  ///< The part of the embedding, and of what each layer adds, that is dropped in training.

  Index ff_size() const noexcept { return d_ff.value_or(4 * d_model); }
  Index kv_heads() const noexcept { return num_kv_heads.value_or(num_heads); }

  friend bool operator==(const GptConfig&, const GptConfig&) = default;
};

/// Throws ShapeError or ArgumentError, naming the value, if a model cannot be made of it.
HEED_EXPORT void check_config(const GptConfig& config);

/// Turns the configuration into JSON, and back. config_from_json throws FileError that says what is wrong;
/// fields that it does not know are an error too, since they could change what a model means.
HEED_EXPORT std::string config_to_json(const GptConfig& config);
HEED_EXPORT GptConfig config_from_json(const std::string& text);

}  // namespace heed
