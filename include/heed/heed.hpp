#pragma once

// Everything, in the order in which data flows: text, tokens, vectors, attention, properties, pictures.

// clang-format off
#include "heed/core/config.hpp"

#include "heed/core/version.hpp"
#include "heed/core/error.hpp"

#include "heed/core/token.hpp"
#include "heed/text/bpe.hpp"
#include "heed/text/char_tokenizer.hpp"

#include "heed/core/random.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/positions.hpp"

#include "heed/core/isa.hpp"
#include "heed/core/executor.hpp"
#include "heed/attention/mask.hpp"
#include "heed/attention/rotary.hpp"
#include "heed/attention/plan.hpp"
#include "heed/attention/scaled_dot_product_attention.hpp"
#include "heed/attention/backward.hpp"
#include "heed/attention/flex_attention.hpp"
#include "heed/attention/observe_attention.hpp"
#include "heed/attention/merge_attention.hpp"
#include "heed/attention/kv_cache.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/attention/cached_plan.hpp"
#include "heed/attention/reference.hpp"
#include "heed/layers/matrix_product.hpp"
#include "heed/layers/multi_head_attention_plan.hpp"
#include "heed/layers/multi_head_attention_decode_plan.hpp"
#include "heed/layers/multi_head_attention.hpp"

#include "heed/layers/parameters.hpp"
#include "heed/layers/multi_head_attention_pass.hpp"
#include "heed/layers/linear.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/activation.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/dropout.hpp"
#include "heed/layers/padding.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/optimizer.hpp"
#include "heed/models/gpt.hpp"
#include "heed/models/gpt_memory.hpp"
#include "heed/models/token_windows.hpp"
#include "heed/models/gpt_trainer.hpp"
#include "heed/models/sampling.hpp"
#include "heed/models/generate.hpp"
#include "heed/models/checkpoint.hpp"

#include "heed/inspect/verify.hpp"

#include "heed/plot/heat_map.hpp"
#include "heed/inspect/attention_heat_map.hpp"
#include "heed/plot/curves.hpp"
#include "heed/inspect/pca.hpp"
#include "heed/io/safetensors.hpp"
// clang-format on
