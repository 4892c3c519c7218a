// What Heed refuses to compile, each with a sentence: read by refusals.cmake, never built. A comment
// "refused: X" says what the compiler's output names for the line below it: the type or function, or the
// sentence itself.

#include <complex>

#include "heed/heed.hpp"

using namespace heed;

using Int = Eigen::Matrix<int, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Complex = Eigen::Matrix<std::complex<double>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Float = Matrix<float>;
using Double = Matrix<double>;
using LongDouble = Matrix<long double>;

extern Random random_numbers;
extern Int integers;
extern Complex complex_numbers;
extern Float floats;
extern Double doubles;
extern LongDouble long_doubles;
extern KvCache<float> cache;
extern AttentionOptions options;
extern std::vector<TokenId> targets;

// Integers and complex numbers, in layers. The compiler says a sentence once for each scalar type, so each
// has one of its own.
template <class Scalar>
using Rows = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
// refused: heed::Linear<int>
void linear_of_int() {
  Linear<int>(8, 8, random_numbers);
}
// refused: heed::Norm<long int>|heed::Norm<long>
void norm_of_long() {
  Norm<long>(8);
}
// refused: heed::FeedForward<std::complex<float> >|heed::FeedForward<std::complex<float>>
void feed_forward_of_complex() {
  FeedForward<std::complex<float>>(8, 8, random_numbers);
}
// refused: heed::TokenEmbedding<short int>|heed::TokenEmbedding<short>
void embedding_of_short() {
  TokenEmbedding<short>(8, 8, random_numbers);
}
// refused: heed::MultiHeadAttention<unsigned int>
void attention_of_unsigned() {
  MultiHeadAttention<unsigned>(8, 2, random_numbers);
}
// refused: heed::MultiHeadAttentionTape<char>
void pass_of_char(MultiHeadAttention<char>& layer) {
  MultiHeadAttentionTape<char>(layer, 8);
}
// refused: heed::SinusoidalPositions<long long int>|heed::SinusoidalPositions<long long>
void positions_of_long_long() {
  SinusoidalPositions<long long>(8, 8);
}

// ... and in functions
extern Rows<unsigned short> u16;
extern Rows<unsigned long> u64;
extern Rows<signed char> i8;
extern Rows<unsigned char> u8;
extern Rows<unsigned long long> u128;
extern Rows<std::complex<long double>> wide_complex;
extern Rows<char16_t> c16;
extern Rows<char32_t> c32;
extern Rows<wchar_t> wide;
// refused: scaled_dot_product_attention
void scores_of_unsigned() {
  scaled_dot_product_attention(u16, u16, u16);
}
// refused: multi_head_attention
void layer_of_unsigned() {
  multi_head_attention(u64, u64, u64, u64, u64, 2);
}
// refused: std::complex is not one
void product_of_complex() {
  matrix_product(complex_numbers, complex_numbers);
}
// refused: activate(|activate<
void activation_of_char() {
  activate(Activation::relu, i8);
}
// refused: activate_backward
void slope_of_char() {
  activate_backward(Activation::relu, u8, u8);
}
// refused: gated(|gated<
void gate_of_complex() {
  gated(Activation::relu, wide_complex, wide_complex);
}
// refused: gated_backward
void gate_gradient_of_unsigned() {
  gated_backward(Activation::relu, u128, u128, u128);
}
// refused: causal_mask
void mask_of_char() {
  causal_mask<char16_t>(3);
}
// refused: clear_padding
void padding_of_char() {
  clear_padding(c32, std::vector<Index>{1});
}
// refused: merge_attention
void merge_of_char() {
  merge_attention(wide, wide, wide, wide);
}
// refused: a matrix of bool or int is not one
void additive_mask_of_int() {
  additive_mask(integers);
}
// refused: a bias is added to scores; a matrix of bool or int is not one
void bias_of_int() {
  bias(integers);
}

// What needs kernels
// refused: this part of Heed runs on compiled kernels, for float and double
void adam_of_long_double() {
  AdamW<long double>({});
}
// refused: heed::Sgd<int>
void sgd_of_int() {
  Sgd<int>({});
}
// refused: gradient_norm
void norm_of_short() {
  gradient_norm(std::vector<Parameter<short>>());
}
// refused: clip_gradients
void clipping_of_char() {
  clip_gradients(std::vector<Parameter<char>>(), 1);
}
// refused: heed::KvCache<long>|heed::KvCache<long int>
void cache_of_long() {
  KvCache<long>({});
}
// refused: heed::MultiHeadAttentionPlan<unsigned int>
void plan_of_unsigned() {
  MultiHeadAttentionPlan<unsigned>({}, {}, {});
}
// refused: plans run on kernels, for float and double; scaled_dot_product_attention takes other scalars
void attention_plan_of_long_double() {
  AttentionPlan<long double>({}, {}, {});
}
// refused: plans run on kernels, for float and double; scaled_dot_product_attention_backward takes other
// scalars
void backward_plan_of_long_double() {
  AttentionBackwardPlan<long double>({}, {}, {});
}
// refused: Gpt is for float and double
void gpt_of_long_double() {
  Gpt<long double>({}, random_numbers);
}
// refused: dropout is for float and double
void dropout_of_long_double() {
  dropout(long_doubles, {});
}
// refused: sample_token
void sampling_of_wide_char() {
  sample_token(std::span<const wchar_t>(), {}, random_numbers);
}

// What is in double
// refused: cross_entropy is for float, double and long double: the loss is a double
struct Other {
  double value = 0;
  Other(double x = 0) : value(x) {}
};
namespace Eigen {
template <>
struct NumTraits<Other> : NumTraits<double> {};
}  // namespace Eigen
extern Matrix<Other> others;
void loss_of_other() {
  cross_entropy(others, targets);
}
// refused: verify_causal takes float, double or long double: its report is in double
void probe_of_other() {
  verify_causal([](const auto& x) { return x; }, others);
}
// refused: rows_sum_to_one takes float, double or long double: its report is in double
void sums_of_other() {
  rows_sum_to_one(others);
}
// refused: pca() takes float, double or long double; use .cast<double>()
void pca_of_int() {
  pca(integers, 2);
}

// Two scalar types in one call
// refused: query, key and value need the same scalar type: cast them
void mixed_attention() {
  scaled_dot_product_attention(floats, doubles, floats);
}
// refused: query, key, value and out need the same scalar type: cast them
void mixed_out() {
  scaled_dot_product_attention_into(floats, floats, floats, doubles, options);
}
// refused: all matrices need the same scalar type: cast them
void mixed_backward() {
  scaled_dot_product_attention_backward(floats, floats, floats, AttentionResult<float>(), doubles, options);
}
// refused: x and the weights need the same scalar type: cast them
void mixed_weights() {
  multi_head_attention(floats, floats, doubles, floats, floats, 2);
}
// refused: x needs the scalar type of the layer: cast it
void mixed_layer() {
  MultiHeadAttention<float>(8, 2, random_numbers).forward(doubles);
}
// refused: the matrix needs the layer's scalar type: cast it
void mixed_linear() {
  Linear<float>(8, 8, random_numbers).forward(doubles);
}
// refused: both matrices need the same scalar type: cast one of them
void mixed_product() {
  matrix_product(floats, doubles);
}
// refused: both parts need the same scalar type: cast them
void mixed_merge() {
  merge_attention(floats, floats, doubles, doubles);
}
// refused: query, cache and out need the same scalar type: cast them
void mixed_cache() {
  scaled_dot_product_attention_into(doubles, cache, doubles, options);
}
// refused: query and cache need the same scalar type: cast them
void mixed_flex() {
  flex_attention(
      doubles, cache, [](double s, Index, Index, Index, Index) { return s; }, SeesAll(), options);
}

// Arguments of the wrong kind
// refused: score is called as score(score, batch, head, query position, key position)
void score_of_one_argument() {
  flex_attention(floats, floats, floats, [](float s) { return s; });
}
// refused: this Eigen expression has no memory of its own: call .eval() on it and keep the result
void expression() {
  view(floats * floats);
}
// refused: this Eigen expression cannot be written to
void written_expression() {
  const auto& constant = floats;
  auto block = constant.block(0, 0, 1, 1);
  mutable_view(block);
}
// refused: this matrix dies before attention runs: keep it in a variable
void dying_bias() {
  bias(Float(floats));
}
// refused: keep_where takes a matrix of bool: compare the numbers first
void keep_where_of_numbers() {
  keep_where(floats);
}
// refused: drop_where takes a matrix of bool: compare the numbers first
void drop_where_of_numbers() {
  drop_where(floats);
}
