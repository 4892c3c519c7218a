#pragma once

// Small models of every kind, and what they are trained on.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "heed/models/gpt_trainer.hpp"
#include "helpers.hpp"

namespace heed::test {

/// Of [0, count).
inline Index draw(Random& random, Index count) {
  return static_cast<Index>(random.random() * static_cast<double>(count));
}

/// A configuration with any combination of options and odd sizes, from one seed.
inline GptConfig drawn_config(std::uint64_t seed) {
  Random random(seed);
  const auto coin = [&] { return random.random() < 0.5; };
  GptConfig config;
  config.vocab_size = 5 + draw(random, 8);
  config.context = 3 + draw(random, 6);
  config.num_layers = 1 + draw(random, 3);
  config.positions = static_cast<PositionKind>(draw(random, 3));
  config.num_heads = 1 + draw(random, 4);
  if (config.num_heads % 2 == 0 && coin()) config.num_kv_heads = config.num_heads / 2;
  // With fewer numbers a norm is all but a step, and differences say nothing of its slope.
  const Index head_dim =
      4 + (config.positions == PositionKind::rotary ? 2 * draw(random, 3) : draw(random, 5));
  config.d_model = config.num_heads * head_dim;
  if (coin()) config.d_ff = 3 + draw(random, 20);
  config.activation = static_cast<Activation>(draw(random, 4));
  config.gated = coin();
  config.rms_norm = coin();
  config.norm_epsilon = coin() ? 1e-5 : 1e-3;
  config.bias = coin();
  config.tied = coin();
  return config;
}

/// A model none of whose weights is 0 or 1: freshly made, it would hide mistakes behind them.
template <class Scalar>
Gpt<Scalar> stirred_model(const GptConfig& config, std::uint64_t seed, double bound = 0.4) {
  Random random(seed);
  Gpt<Scalar> model(config, random);
  for (const Parameter<Scalar>& weight : parameters(model)) {
    for (Index i = 0; i < weight.value.rows; ++i) {
      for (Index j = 0; j < weight.value.cols; ++j)
        weight.value(i, j) += static_cast<Scalar>(random.uniform(-bound, bound));
    }
  }
  return model;
}

inline std::vector<TokenId> drawn_ids(Index count, Index vocab_size, std::uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (TokenId& id : ids) id = static_cast<TokenId>(draw(random, vocab_size));
  return ids;
}

/// Inputs and targets that have nothing to do with each other. Some targets are ignored.
inline TokenBatch drawn_batch(Index count, Index vocab_size, std::uint64_t seed) {
  TokenBatch batch{drawn_ids(count, vocab_size, seed), drawn_ids(count, vocab_size, seed + 1)};
  Random random(seed + 2);
  for (std::size_t i = 1; i < batch.targets.size(); ++i) {
    if (random.random() < 0.2) batch.targets[i] = kIgnoredTarget;
  }
  return batch;
}

/// All weights of a model, one after another.
template <class Scalar>
std::vector<Scalar> numbers_of(const Gpt<Scalar>& model) {
  std::vector<Scalar> numbers;
  model.for_each_parameter([&](const std::string&, const auto& matrix) {
    numbers.insert(numbers.end(), matrix.data(), matrix.data() + matrix.size());
  });
  return numbers;
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// What a training has reached: weights, gradients, and the optimizer's state.
template <class Scalar>
struct TrainingState {
  std::vector<Scalar> weights, gradients, first_moments, second_moments;
  Index steps;

  explicit TrainingState(const GptTrainer<Scalar>& trainer)
      : weights(numbers_of(trainer.model())),
        gradients(numbers_of(trainer.gradients())),
        first_moments(trainer.optimizer().first_moments().begin(), trainer.optimizer().first_moments().end()),
        second_moments(trainer.optimizer().second_moments().begin(),
                       trainer.optimizer().second_moments().end()),
        steps(trainer.optimizer().steps()) {}

  /// But for the gradients, which no checkpoint has.
  bool resumes_as(const TrainingState& other) const {
    const auto same = [](const std::vector<Scalar>& a, const std::vector<Scalar>& b) {
      return same_bits(std::span<const Scalar>(a), std::span<const Scalar>(b));
    };
    return same(weights, other.weights) && same(first_moments, other.first_moments) &&
           same(second_moments, other.second_moments) && steps == other.steps;
  }
  bool is(const TrainingState& other) const {
    return resumes_as(other) &&
           same_bits(std::span<const Scalar>(gradients), std::span<const Scalar>(other.gradients));
  }
};

}  // namespace heed::test
