#pragma once

// Everything, in the order in which data flows: text, tokens, vectors, attention, properties, pictures.

// clang-format off
#include "heed/config.hpp"

#include "heed/version.hpp"
#include "heed/error.hpp"

#include "heed/token.hpp"
#include "heed/bpe.hpp"
#include "heed/char_tokenizer.hpp"

#include "heed/random.hpp"
#include "heed/embedding.hpp"
#include "heed/positions.hpp"

#include "heed/isa.hpp"
#include "heed/executor.hpp"
#include "heed/mask.hpp"
#include "heed/rotary.hpp"
#include "heed/attention_plan.hpp"
#include "heed/attention.hpp"
#include "heed/attention_backward.hpp"
#include "heed/score_functor.hpp"
#include "heed/observers.hpp"
#include "heed/merge.hpp"
#include "heed/kv_cache.hpp"
#include "heed/cached_attention.hpp"
#include "heed/cached_attention_plan.hpp"
#include "heed/reference.hpp"
#include "heed/matrix_product.hpp"
#include "heed/multi_head_attention_plan.hpp"
#include "heed/multi_head_attention_decode_plan.hpp"
#include "heed/multi_head_attention.hpp"

#include "heed/parameters.hpp"
#include "heed/multi_head_attention_backward.hpp"
#include "heed/linear.hpp"
#include "heed/norm.hpp"
#include "heed/activation.hpp"
#include "heed/feed_forward.hpp"
#include "heed/dropout.hpp"
#include "heed/padding.hpp"
#include "heed/loss.hpp"
#include "heed/optimizer.hpp"
#include "heed/gpt.hpp"
#include "heed/gpt_memory.hpp"
#include "heed/token_windows.hpp"
#include "heed/gpt_trainer.hpp"
#include "heed/sampling.hpp"
#include "heed/generate.hpp"
#include "heed/checkpoint.hpp"

#include "heed/probe.hpp"

#include "heed/heat_map.hpp"
#include "heed/heat_map_observer.hpp"
#include "heed/plot.hpp"
#include "heed/pca.hpp"
#include "heed/safetensors.hpp"
// clang-format on
