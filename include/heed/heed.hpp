#pragma once

// Everything, in the order in which data flows: text, tokens, vectors, attention, pictures.

#include "heed/attention.hpp"
#include "heed/attention_plan.hpp"
#include "heed/bpe.hpp"
#include "heed/embedding.hpp"
#include "heed/executor.hpp"
#include "heed/heat_map.hpp"
#include "heed/isa.hpp"
#include "heed/mask.hpp"
#include "heed/matrix_product.hpp"
#include "heed/multi_head_attention.hpp"
#include "heed/pca.hpp"
#include "heed/plot.hpp"
#include "heed/positions.hpp"
#include "heed/probe.hpp"
#include "heed/random.hpp"
#include "heed/reference.hpp"
#include "heed/safetensors.hpp"
#include "heed/version.hpp"
