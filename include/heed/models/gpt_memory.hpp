#pragma once

// The memory that a Gpt takes, and what trains it or lets it write: known from its configuration alone.
//
//   const heed::GptConfig config{.vocab_size = 65, .context = 256, .num_layers = 6, .d_model = 384};
//   std::cout << heed::gpt_bytes<float>(config) << " bytes, " << heed::gpt_trainer_bytes<float>(config, 12)
//             << " more to train it, this machine has " << heed::physical_memory() << '\n';

#include "heed/core/config.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "heed/core/memory.hpp"
#include "heed/models/gpt_config.hpp"

namespace heed {

namespace detail {

/// The tokens that a decoder reads at a time from a prompt: enough for the products to run at full speed.
inline constexpr Index kDecoderRows = 128;

HEED_EXPORT std::uint64_t gpt_bytes(const GptConfig& config, std::size_t scalar_size);

template <class Scalar>
HEED_EXPORT std::uint64_t gpt_trainer_bytes(const GptConfig& config, Index batch_size, Index seq_len,
                                            Index threads);
template <class Scalar>
HEED_EXPORT std::uint64_t gpt_decoder_bytes(const GptConfig& config, Index threads);

extern template std::uint64_t gpt_trainer_bytes<float>(const GptConfig&, Index, Index, Index);
extern template std::uint64_t gpt_trainer_bytes<double>(const GptConfig&, Index, Index, Index);
extern template std::uint64_t gpt_decoder_bytes<float>(const GptConfig&, Index);
extern template std::uint64_t gpt_decoder_bytes<double>(const GptConfig&, Index);

/// Throws ArgumentError, with the sizes and both numbers of bytes, if the machine has less memory than that.
HEED_EXPORT void require_gpt_memory(std::uint64_t bytes, const char* what, const GptConfig& config);

}  // namespace detail

/// Returns the bytes of a Gpt<Scalar>: its weights and its table of positions. Sums that no number holds end
/// at the largest one. Throws as check_config().
template <class Scalar>
std::uint64_t gpt_bytes(const GptConfig& config) {
  return detail::gpt_bytes(config, sizeof(Scalar));
}

/// Returns the bytes that a GptTrainer<Scalar> takes beside its model: gradients, the optimizer's moments,
/// what a batch leaves on its way through the blocks, and scratch memory of each thread. seq_len defaults to
/// the context. Sums that no number holds end at the largest one. Throws as check_config(), ShapeError for a
/// size below 1.
template <class Scalar>
std::uint64_t gpt_trainer_bytes(const GptConfig& config, Index batch_size,
                                std::optional<Index> seq_len = std::nullopt, Index threads = 1) {
  return detail::gpt_trainer_bytes<Scalar>(config, batch_size, seq_len.value_or(config.context), threads);
}

/// Returns the bytes that a GptDecoder<Scalar>, as generate() makes one, takes beside its model: the keys and
/// values of a whole context in all layers, and what lies between the layers. Sums that no number holds end
/// at the largest one. Throws as check_config(), ShapeError unless threads is positive.
template <class Scalar>
std::uint64_t gpt_decoder_bytes(const GptConfig& config, Index threads = 1) {
  return detail::gpt_decoder_bytes<Scalar>(config, threads);
}

}  // namespace heed
