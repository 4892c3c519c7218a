#pragma once

// The door to attention/: scaled dot-product attention on matrices that you already have.
//
//   Eigen::MatrixXf out = heed::scaled_dot_product_attention(query, key, value, {.mask = heed::causal()});
//
// It includes what this call needs:
//
//   scaled_dot_product_attention   the call, also with logsumexp or with the full matrix of weights
//   options                        AttentionOptions: mask, heads, batch, scale, softcap, sinks, rotary
//   mask, mask_matrix              masks that compose with &; masks that are Eigen matrices
//   rotary                         rotary positions
//   plan                           AttentionPlan: planned once, run many times, without an allocation
//   weights_observer               what an observer of weights is
//   reference                      the operation as plain loops, for every scalar
//
// The rest is one include away, as heed/attention/NAME.hpp, so that it costs only programs that use it:
//
//   kv_cache, cached_attention     keys and values kept while a text grows, and attention against them
//   cached_plan                    decoding that is planned once
//   flex_attention                 functions of scores and predicates of your own
//   observe_attention              weights without the full matrix: the largest, sums by column, chosen rows
//   merge_attention                results over several parts of the keys, made one
//   backward, backward_plan        gradients

#include "heed/core/config.hpp"

#include "heed/attention/mask.hpp"
#include "heed/attention/mask_matrix.hpp"
#include "heed/attention/options.hpp"
#include "heed/attention/plan.hpp"
#include "heed/attention/reference.hpp"
#include "heed/attention/rotary.hpp"
#include "heed/attention/scaled_dot_product_attention.hpp"
#include "heed/attention/weights_observer.hpp"
