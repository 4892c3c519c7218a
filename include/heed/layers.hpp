#pragma once

// The door to layers/: what a network is made of, each layer with its gradients. Link
// heed::attention. Layers know nothing of tokenizers, files and models.
//
//   embedding, positions           token embedding, sinusoidal positions
//   linear, norm, activation       products with a bias; LayerNorm and RMSNorm; ReLU, GELU, SiLU and gates
//   feed_forward, dropout          two products with an activation or gate between them; dropout
//   multi_head_attention           attention with its projections, as a layer and as a function
//   multi_head_attention_tape      the layer's forward and backward pass, for training
//   multi_head_attention_plan      the layer planned once, on views
//   multi_head_attention_decode_plan   decoding with a KvCache, planned once
//   loss, padding                  cross-entropy; rows of a batch that stand for nothing
//   parameters, optimizer          weights by name; AdamW, SGD, clipping, a cosine schedule
//   matrix_product                 the product of the projections: same bits for a row alone or among many
//   rows, reference                the layers on views, compiled; and as plain loops, for every scalar
//
// Beneath these:
//
//   options                        the choices of layers, as plain values
//   multi_head_attention_forward   the options of the layer of attention, and how it runs
//   parameter, weights             one matrix of weights with its gradient; how layers make and check them
//   product                        products of views, under matrix_product

#include "heed/core/config.hpp"

#include "heed/layers/activation.hpp"
#include "heed/layers/dropout.hpp"
#include "heed/layers/embedding.hpp"
#include "heed/layers/feed_forward.hpp"
#include "heed/layers/linear.hpp"
#include "heed/layers/loss.hpp"
#include "heed/layers/matrix_product.hpp"
#include "heed/layers/multi_head_attention.hpp"
#include "heed/layers/multi_head_attention_decode_plan.hpp"
#include "heed/layers/multi_head_attention_plan.hpp"
#include "heed/layers/multi_head_attention_tape.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/optimizer.hpp"
#include "heed/layers/padding.hpp"
#include "heed/layers/parameters.hpp"
#include "heed/layers/positions.hpp"
#include "heed/layers/reference.hpp"
#include "heed/layers/rows.hpp"
