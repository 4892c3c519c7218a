#pragma once

// The door to models/: a GPT that learns, writes and is stored. Link heed::heed.
//
//   gpt_config, gpt     the shape of a model; the model, whose forward() gives scores for the next token
//   gpt_memory          the memory that a model and its training take, known before either is made
//   token_windows       what a language model learns from: windows over a stream of tokens
//   gpt_trainer         losses, gradients and steps of AdamW
//   sampling, generate  from scores to a token; a model that writes, with a cache
//   checkpoint          a folder that a training goes on from, bit for bit

#include "heed/core/config.hpp"

#include "heed/models/checkpoint.hpp"
#include "heed/models/generate.hpp"
#include "heed/models/gpt.hpp"
#include "heed/models/gpt_config.hpp"
#include "heed/models/gpt_memory.hpp"
#include "heed/models/gpt_trainer.hpp"
#include "heed/models/sampling.hpp"
#include "heed/models/token_windows.hpp"
