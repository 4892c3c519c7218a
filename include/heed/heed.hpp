#pragma once

// All of Heed: its doors, in the order in which data flows. Each door says what is behind it.

// clang-format off
#include "heed/core/config.hpp"

#include "heed/core.hpp"       // errors, views, threads, random numbers
#include "heed/text.hpp"       // text to tokens
#include "heed/attention.hpp"  // the operation, and below what its door names in words only
#include "heed/attention/backward.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/attention/cached_plan.hpp"
#include "heed/attention/flex_attention.hpp"
#include "heed/attention/merge_attention.hpp"
#include "heed/attention/observe_attention.hpp"
#include "heed/layers.hpp"     // tokens to vectors, and on through the layers
#include "heed/models.hpp"     // layers to a model that learns and writes
#include "heed/io.hpp"         // files
#include "heed/plot.hpp"       // pictures
#include "heed/inspect.hpp"    // properties of a model
// clang-format on
