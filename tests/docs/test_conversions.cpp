// What other libraries' attention is called in Heed, each row of docs/conversions.md on a case small enough
// to work out by hand. Every line of code of the page's tables stands here, to the letter.

#include "catch.hpp"
#include "equal_scores.hpp"

namespace {

using heed::Index;
using heed::Matrix;
using namespace heed::test;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

Matrix<bool> flags(Index rows, Index cols, const std::vector<int>& elements) {
  Matrix<bool> m(rows, cols);
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = elements[static_cast<std::size_t>(i)] != 0;
  return m;
}

/// A layer of torch.nn.MultiheadAttention: e = 2 columns, 2 heads, queries and keys of zero, and the numbers
/// of in_proj_weight and out_proj.weight as PyTorch prints them, out x in.
struct TorchLayer {
  Index e = 2;
  Index num_heads = 2;
  Matrix<double> in_proj = Matrix<double>::Zero(6, 2);
  Matrix<double> out_proj = Matrix<double>::Identity(2, 2);
  Matrix<double> x = column<double>({1, 2, 4, 8}).replicate(1, 2);
  Matrix<double> query, key, value, out;
  heed::AttentionOptions options;

  TorchLayer() {
    in_proj.row(4) << 1, 2;  // value 0 is x0 + 2 x1
    in_proj.row(5) << 0, 1;
    out_proj << 1, 0, 10, 1;  // out 1 is 10 head 0 + head 1
  }
};

}  // namespace

// torch.nn.functional.scaled_dot_product_attention

TEST_CASE_METHOD(EqualScores, "PyTorch: a bool attn_mask is true where a query attends") {
  Matrix<bool> attn_mask = flags(2, 3, {1, 0, 0, 0, 1, 1});
  options.mask = heed::keep_where(attn_mask);
  CHECK(holds(means(2, {1, 2, 4}), {1, 3}));
}

TEST_CASE_METHOD(EqualScores, "PyTorch: a float attn_mask is added") {
  Matrix<double> attn_mask(2, 3);
  attn_mask << 0, std::log(2.0), kHidden, 0, 0, 0;
  options.mask = heed::bias(attn_mask);
  CHECK(holds(means(2, {1, 4, 16}), {3, 7}));
}

TEST_CASE_METHOD(EqualScores, "PyTorch: attn_mask of more axes") {
  options.num_heads = 2;
  options.batch_size = 2;
  SECTION("(N, 1, 1, S): N rows") {
    const Matrix<bool> attn_mask = flags(2, 2, {1, 0, 1, 1});
    options.mask = heed::keep_where(attn_mask, heed::MaskRows::sequence);
    CHECK(holds(means(4, {1, 2, 4, 8}), {1, 1, 1, 1, 6, 6, 6, 6}));
  }
  SECTION("(N, 1, L, S): N * L rows") {
    const Matrix<bool> attn_mask = flags(4, 2, {1, 0, 1, 1, 0, 0, 0, 1});
    options.mask = heed::keep_where(attn_mask, heed::MaskRows::sequence);
    CHECK(holds(means(4, {1, 2, 4, 8}), {1, 1, 1.5, 1.5, 0, 0, 8, 8}));
  }
  SECTION("(H, L, S): H * L rows") {
    const Matrix<bool> attn_mask = flags(4, 2, {1, 0, 1, 1, 0, 1, 0, 1});
    options.mask = heed::keep_where(attn_mask, heed::MaskRows::head);
    CHECK(holds(means(4, {1, 2, 4, 8}), {1, 2, 1.5, 2, 4, 8, 6, 8}));
  }
  SECTION("(N, H, L, S): N * H * L rows") {
    const Matrix<bool> attn_mask = flags(8, 2, {1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0});
    options.mask = heed::keep_where(attn_mask, heed::MaskRows::head_of_sequence);
    CHECK(holds(means(4, {1, 2, 4, 8}), {1, 2, 1.5, 2, 6, 8, 0, 4}));
  }
}

TEST_CASE_METHOD(EqualScores, "PyTorch: is_causal is aligned to the first key") {
  options.mask = heed::causal() & heed::top_left();
  CHECK(holds(means(2, {1, 2, 4, 8}), {1, 1.5}));
}

TEST_CASE_METHOD(EqualScores, "PyTorch: causal_lower_right is aligned to the last key") {
  options.mask = heed::causal() & heed::bottom_right();
  CHECK(holds(means(2, {1, 2, 4, 8}), {7 / 3.0, 3.75}));
}

TEST_CASE("PyTorch: scale replaces 1 / sqrt(E)", "[conversions]") {
  heed::AttentionOptions options;
  options.scale = 0.125;
  CHECK(std::abs(score_of({2, 0, 0, 0}, {4, 0, 0, 0}, options) - 1) < 1e-12);
}

TEST_CASE("PyTorch: enable_gqa repeats each head of key and value for its group of query heads",
          "[conversions][heads]") {
  heed::AttentionOptions options;
  Matrix<double> value(1, 2);
  value << 10, 20;
  const Matrix<double> query = Matrix<double>::Ones(1, 4);
  const Matrix<double> key = Matrix<double>::Zero(1, 2);
  options.num_heads = 4;
  options.num_kv_heads = 2;
  CHECK(holds(heed::scaled_dot_product_attention(query, key, value, options), {10, 10, 20, 20}));
}

TEST_CASE("PyTorch: tensors of (N, H, L, E) are N * H sequences of one head", "[conversions][heads]") {
  const Index n = 2, h = 2, l = 2, e = 1;
  const std::vector<double> q(8, 1.0), k(8, 0.0);
  const std::vector<double> v = {1, 2, 4, 8, 16, 32, 64, 128};
  heed::AttentionOptions options;
  options.batch_size = n * h;
  const Eigen::Map<const heed::Matrix<double>> query(q.data(), n * h * l, e);
  const Eigen::Map<const heed::Matrix<double>> key(k.data(), n * h * l, e);
  const Eigen::Map<const heed::Matrix<double>> value(v.data(), n * h * l, e);
  const Matrix<double> out = heed::scaled_dot_product_attention(query, key, value, options);
  CHECK(holds(out, {1.5, 1.5, 6, 6, 24, 24, 96, 96}));  // (N, H, L, E) as well

  // The same heads side by side in the columns: what transpose(1, 2).reshape(N * L, H * E) gives.
  Matrix<double> rows(4, 2);
  rows << 1, 4, 2, 8, 16, 64, 32, 128;
  options.batch_size = n;
  options.num_heads = h;
  CHECK(holds(heed::scaled_dot_product_attention(Matrix<double>::Ones(4, 2).eval(),
                                                 Matrix<double>::Zero(4, 2).eval(), rows, options),
              {1.5, 6, 1.5, 6, 24, 96, 24, 96}));
}

// torch.nn.MultiheadAttention

TEST_CASE_METHOD(TorchLayer, "torch.nn.MultiheadAttention: weights are stored out x in") {
  // Values of the four rows are 3x and x, their means 11.25 and 3.75.
  out = heed::multi_head_attention(x, in_proj.topRows(e).transpose(), in_proj.middleRows(e, e).transpose(),
                                   in_proj.bottomRows(e).transpose(), out_proj.transpose(), num_heads);
  CHECK(holds(out.row(0), {11.25, 116.25}));
  const heed::MultiHeadAttention<double> layer(
      in_proj.topRows(e).transpose(), in_proj.middleRows(e, e).transpose(), in_proj.bottomRows(e).transpose(),
      out_proj.transpose(), num_heads);
  CHECK(holds(layer.forward(x, {.mask = heed::causal()}).row(0), {3, 31}));
}

TEST_CASE_METHOD(TorchLayer, "torch.nn.MultiheadAttention: biases are added to the projections") {
  Matrix<double> in_proj_bias(1, 6), out_proj_bias(1, 2);
  in_proj_bias << 0, 0, 0, 0, 100, 0;
  out_proj_bias << 0, 1000;
  options.num_heads = num_heads;
  query = heed::matrix_product(x, in_proj.topRows(e).transpose());
  key = heed::matrix_product(x, in_proj.middleRows(e, e).transpose());
  value = heed::matrix_product(x, in_proj.bottomRows(e).transpose());
  query.rowwise() += in_proj_bias.row(0).head(e);
  key.rowwise() += in_proj_bias.row(0).segment(e, e);
  value.rowwise() += in_proj_bias.row(0).tail(e);
  const Matrix<double> heads = heed::scaled_dot_product_attention(query, key, value, options);
  out = heed::matrix_product(heads, out_proj.transpose());
  out.rowwise() += out_proj_bias.row(0);
  CHECK(holds(out.row(3), {111.25, 2116.25}));
}

TEST_CASE_METHOD(EqualScores,
                 "torch.nn.MultiheadAttention: a bool attn_mask is true where a key is blocked") {
  Matrix<bool> attn_mask = flags(2, 3, {0, 1, 1, 1, 0, 0});
  options.mask = heed::drop_where(attn_mask);
  CHECK(holds(means(2, {1, 2, 4}), {1, 3}));

  // (N * num_heads, L, S)
  options.num_heads = 2;
  options.batch_size = 2;
  attn_mask = flags(4, 2, {0, 1, 1, 0, 0, 0, 1, 1});
  options.mask = heed::drop_where(attn_mask, heed::MaskRows::head_of_sequence);
  CHECK(holds(means(2, {1, 2, 4, 8}), {1, 2, 6, 0}));
}

TEST_CASE_METHOD(EqualScores,
                 "torch.nn.MultiheadAttention: key_padding_mask is true where a key is padding") {
  options.batch_size = 2;
  const Matrix<bool> key_padding_mask = flags(2, 3, {0, 1, 1, 0, 0, 0});
  options.mask = heed::drop_where(key_padding_mask, heed::MaskRows::sequence);
  CHECK(holds(means(4, {1, 2, 4, 8, 16, 32}), {1, 1, 56 / 3.0, 56 / 3.0}));

  const Matrix<bool> attn_mask = flags(2, 3, {0, 1, 0, 0, 0, 1});
  options.mask = heed::drop_where(attn_mask) & heed::drop_where(key_padding_mask, heed::MaskRows::sequence);
  CHECK(holds(means(4, {1, 2, 4, 8, 16, 32}), {1, 1, 20, 12}));
}

TEST_CASE_METHOD(EqualScores, "torch.nn.MultiheadAttention: add_zero_attn is a sink of score 0") {
  options.num_heads = 2;
  options.sinks = std::vector<double>(2, 0.0);
  CHECK(holds(means(1, {3, 6}), {3, 3}));
}

TEST_CASE_METHOD(EqualScores,
                 "torch.nn.MultiheadAttention: attn_output_weights, of each head or their mean") {
  options.num_heads = 2;
  const Matrix<bool> attn_mask = flags(2, 2, {0, 0, 0, 1});
  options.mask = heed::drop_where(attn_mask, heed::MaskRows::head);
  prepare(1, {1, 2});
  const auto result = heed::scaled_dot_product_attention_with_weights(query, key, value, options);
  const Matrix<double> first = result.weights.head(0);
  const heed::Matrix<double> average = (result.weights.head(0) + result.weights.head(1)) / 2;
  CHECK(holds(first, {0.5, 0.5}));
  CHECK(holds(average, {0.75, 0.25}));
}

TEST_CASE("torch.nn.MultiheadAttention: with batch_first=False a sequence takes every N-th row",
          "[conversions][cache]") {
  const Index n = 2, l = 2, e = 1, b = 1;
  const std::vector<double> x = {1, 4, 2, 8};
  const Eigen::Map<const heed::Matrix<double>, 0, Eigen::OuterStride<>> rows(x.data() + b * e, l, e,
                                                                             Eigen::OuterStride<>(n * e));
  CHECK(holds(heed::scaled_dot_product_attention(Matrix<double>::Ones(2, 1).eval(),
                                                 Matrix<double>::Zero(2, 1).eval(), rows),
              {6, 6}));
}

// ONNX Attention

TEST_CASE_METHOD(EqualScores, "ONNX: attn_mask is true where a query attends, or added") {
  Matrix<bool> attn_mask = flags(2, 3, {1, 0, 0, 0, 1, 1});
  options.mask = heed::keep_where(attn_mask);
  CHECK(holds(means(2, {1, 2, 4}), {1, 3}));
  Matrix<double> added(2, 3);
  added << 0, std::log(2.0), kHidden, 0, 0, 0;
  options.mask = heed::bias(added);
  CHECK(holds(means(2, {1, 4, 16}), {3, 7}));
}

TEST_CASE_METHOD(EqualScores, "ONNX: is_causal without a past is aligned to the first key") {
  options.mask = heed::causal() & heed::top_left();
  CHECK(holds(means(2, {1, 2, 4, 8}), {1, 1.5}));
}

TEST_CASE_METHOD(EqualScores, "ONNX: is_causal with past_key begins after the past") {
  const Index past_sequence_length = 2;
  options.mask = heed::causal() & heed::query_offset(past_sequence_length);
  CHECK(holds(means(2, {1, 2, 4, 8}), {7 / 3.0, 3.75}));

  heed::KvCache<double> cache({.head_dim = 2, .value_dim = 1, .capacity = 8});
  cache.append(Matrix<double>::Zero(2, 2).eval(), column<double>({1, 2}));  // the past
  const Matrix<double> K = Matrix<double>::Zero(2, 2);
  const Matrix<double> V = column<double>({4, 8});
  cache.append(K, V);
  options.mask = heed::causal();
  out = heed::scaled_dot_product_attention(query, cache, options);
  CHECK(holds(out, {7 / 3.0, 3.75}));
}

TEST_CASE_METHOD(EqualScores, "ONNX: nonpad_kv_seqlen says how many keys exist and where the queries stand") {
  options.batch_size = 2;
  const std::vector<Index> nonpad_kv_seqlen = {2, 3};
  options.mask = heed::kv_lengths(nonpad_kv_seqlen);
  CHECK(holds(means(4, {1, 2, 4, 8, 16, 32}), {1.5, 1.5, 56 / 3.0, 56 / 3.0}));
  options.mask = heed::causal() & heed::bottom_right() & heed::kv_lengths(nonpad_kv_seqlen);
  CHECK(holds(means(4, {1, 2, 4, 8, 16, 32}), {1, 1.5, 12, 56 / 3.0}));
}

TEST_CASE("ONNX: softcap comes after the scale and before the mask", "[conversions][mask][softcap]") {
  heed::AttentionOptions options;
  options.softcap = 2;
  CHECK(std::abs(score_of({3, 0}, {1, 0}, options) - 2 * std::tanh(1.5)) < 1e-12);
  Matrix<double> added(1, 1);
  added << 5;
  options.mask = heed::bias(added);
  CHECK(std::abs(score_of({3, 0}, {1, 0}, options) - (2 * std::tanh(1.5) + 5)) < 1e-12);
}

TEST_CASE("ONNX: q_num_heads and kv_num_heads", "[conversions]") {
  const Index q_num_heads = 4, kv_num_heads = 2;
  heed::AttentionOptions options;
  options.num_heads = q_num_heads;
  options.num_kv_heads = kv_num_heads;
  Matrix<double> value(1, 2);
  value << 10, 20;
  CHECK(holds(heed::scaled_dot_product_attention(Matrix<double>::Ones(1, 4).eval(),
                                                 Matrix<double>::Zero(1, 2).eval(), value, options),
              {10, 10, 20, 20}));
}

TEST_CASE("ONNX: qk_matmul_output_mode", "[conversions]") {
  const Matrix<double> query = column<double>({1, 2});
  const Matrix<double> key = column<double>({0, std::log(2.0)});
  const Matrix<double> value = column<double>({1, 2});
  heed::AttentionOptions options;
  options.softcap = 3;
  Matrix<double> added(2, 2);
  added << 0, 1, 0, 0;

  // The softmax.
  const auto result = heed::scaled_dot_product_attention_with_weights(query, key, value, options);
  const Matrix<double> weights = result.weights.stacked;
  CHECK(holds(weights.row(0).rowwise().sum(), {1}));
  CHECK(weights.rows() == 2);

  // What a score function sees depends on the options beside it.
  Matrix<double> scores(2, 2);
  const auto record = [&](double score, Index, Index, Index i, Index j) { return scores(i, j) = score; };
  Matrix<double> out;
  const double capped = 3 * std::tanh(std::log(2.0) / 3);
  const double capped_twice = 3 * std::tanh(std::log(4.0) / 3);
  out = heed::flex_attention(query, key, value, record);
  CHECK(holds(scores, {0, std::log(2.0), 0, std::log(4.0)}));
  out = heed::flex_attention(query, key, value, record, heed::SeesAll{}, options);
  CHECK(holds(scores, {0, capped, 0, capped_twice}));
  options.mask = heed::bias(added);
  out = heed::flex_attention(query, key, value, record, heed::SeesAll{}, options);
  CHECK(holds(scores, {0, capped + 1, 0, capped_twice}));
}

// FlashAttention

TEST_CASE_METHOD(EqualScores, "FlashAttention: causal is aligned to the last key") {
  options.mask = heed::causal() & heed::bottom_right();
  CHECK(holds(means(2, {1, 2, 4, 8, 16}), {3.75, 6.2}));  // 1 1 1 1 0 and 1 1 1 1 1
  CHECK(holds(means(5, {1, 2}), {0, 0, 0, 1, 1.5}));      // the last rows are 1 0 and 1 1
}

TEST_CASE_METHOD(EqualScores, "FlashAttention: window_size counts from there too, -1 is unlimited") {
  options.mask = heed::window(1, 0) & heed::bottom_right();
  CHECK(holds(means(2, {1, 2, 4, 8}), {3, 6}));
  options.mask = heed::window(heed::kUnlimited, 0) & heed::bottom_right();
  CHECK(holds(means(2, {1, 2, 4, 8}), {7 / 3.0, 3.75}));
  options.mask = heed::window(0, heed::kUnlimited) & heed::bottom_right();
  CHECK(holds(means(2, {1, 2, 4, 8}), {6, 8}));
}

TEST_CASE("FlashAttention: softmax_scale and softcap", "[conversions][ragged][softcap]") {
  heed::AttentionOptions options;
  options.scale = 0.5;
  options.softcap = 2;
  CHECK(std::abs(score_of({3, 0}, {1, 0}, options) - 2 * std::tanh(0.75)) < 1e-12);
}

TEST_CASE_METHOD(EqualScores, "FlashAttention: alibi_slopes") {
  const std::vector<double> slopes = {std::log(2.0)};
  options.mask = heed::causal() & heed::bottom_right() & heed::alibi(slopes);
  CHECK(holds(means(1, {1, 2, 4}), {3}));
  options.mask = heed::bottom_right() & heed::alibi(slopes);
  CHECK(holds(means(2, {1, 2, 4}), {(0.5 + 2 + 2) / 2, 3}));  // weights 1/2 1 1/2, then 1/4 1/2 1
}

TEST_CASE_METHOD(EqualScores, "FlashAttention: cu_seqlens are the starts of a ragged batch") {
  const std::vector<int> cu_seqlens_q = {0, 1, 3};
  const std::vector<int> cu_seqlens_k = {0, 2, 5};
  options.query_starts.assign(cu_seqlens_q.begin(), cu_seqlens_q.end());
  options.kv_starts.assign(cu_seqlens_k.begin(), cu_seqlens_k.end());
  options.mask = heed::causal() & heed::bottom_right();
  CHECK(holds(means(3, {1, 2, 4, 8, 16}), {1.5, 6, 28 / 3.0}));
}

TEST_CASE_METHOD(EqualScores, "FlashAttention: cache_seqlens are the keys that exist") {
  options.batch_size = 2;
  const std::vector<Index> cache_seqlens = {1, 3};
  options.mask = heed::causal() & heed::bottom_right() & heed::kv_lengths(cache_seqlens);
  CHECK(holds(means(2, {1, 2, 4, 8, 16, 32}), {1, 56 / 3.0}));
}

TEST_CASE("FlashAttention: rotary_interleaved", "[conversions][rotary]") {
  heed::AttentionOptions options;
  options.rotary = heed::Rotary(4, 128, {.layout = heed::RotaryLayout::interleaved});
  CHECK(std::abs(score_of({1, 0, 0, 0}, {0, 1, 0, 0}, options) - std::sin(1.0)) < 1e-12);
  options.rotary = heed::Rotary(4, 128, {.layout = heed::RotaryLayout::half_split});
  CHECK(std::abs(score_of({1, 0, 0, 0}, {0, 0, 1, 0}, options) - std::sin(1.0)) < 1e-12);
}

TEST_CASE_METHOD(EqualScores, "FlashAttention: softmax_lse") {
  prepare(1, {1, 2, 4});
  const Matrix<double> lse =
      heed::scaled_dot_product_attention_with_weights(query, key, value, options).logsumexp;
  CHECK(holds(lse, {std::log(3.0)}));
}
