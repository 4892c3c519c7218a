// The least and the largest numbers for every option that is an integer: an exception of the library's or the
// right result, never an overflow. Built with a sanitizer, this program says where there is one.

#include <algorithm>
#include <functional>
#include <new>

#include "catch.hpp"
#include "heed/heed.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

constexpr Index kLeast = std::numeric_limits<Index>::min();
constexpr Index kMost = std::numeric_limits<Index>::max();
// Around the ends of the type, of what no memory holds (2^40), of 32 bits, and of 0.
const std::vector<Index> kExtremes = {kLeast,
                                      kLeast + 1,
                                      -(Index{1} << 41) - 1,
                                      -(Index{1} << 31),
                                      -1,
                                      0,
                                      1,
                                      Index{1} << 31,
                                      (Index{1} << 40) + 1,
                                      Index{1} << 62,
                                      kMost - 1,
                                      kMost,
                                      Mask::kMaxOffset,
                                      -Mask::kMaxOffset,
                                      Mask::kMaxOffset + 2,
                                      Mask::kMaxOffset - 2};
// Of these, what may not be asked for in bytes.
const std::vector<Index> kImpossible = {kLeast, kLeast + 1, -1, Index{1} << 62, kMost - 1, kMost};

/// True if f() ends well, false if it throws as it may. Anything else fails the test.
bool ends_well(const std::function<void()>& f) {
  try {
    f();
    return true;
  } catch (const Error& e) {
    CHECK(std::string(e.what()) != "");
  } catch (const std::bad_alloc&) {
  }
  return false;
}

using Wide = __int128;

/// The contract's rule of visibility, in numbers that cannot overflow.
bool sees(Index left, Index right, Index offset, Index query, Index key) {
  const Wide p = Wide{query} + offset;
  return (left == kUnlimited || p - left <= key) && (right == kUnlimited || key <= p + right);
}

template <class T>
void check_window(Index left, Index right, Index offset) {
  const Matrix<T> query = Matrix<T>::Zero(3, 2);
  const Matrix<T> key = Matrix<T>::Zero(5, 2);
  const Matrix<T> value = Matrix<T>::Identity(5, 5);
  const Mask mask = window(left, right) & query_offset(offset);
  const Matrix<T> out = scaled_dot_product_attention(query, key, value, {.mask = mask});
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 5; ++j) REQUIRE((out(i, j) > T(0)) == sees(left, right, offset, i, j));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("windows and query offsets of any size hide what they say", "[options]", float, double,
                   long double) {
  for (const Index left : kExtremes) {
    for (const Index right : kExtremes) {
      if (left < 0 || right < 0) {
        CHECK(contains(message_of<ArgumentError>([&] { (void)window(left, right); }),
                       "a side is a number of keys"));
        continue;
      }
      for (const Index offset : kExtremes) {
        CAPTURE(left, right, offset);
        check_window<TestType>(left, right, offset);
      }
    }
  }
}

TEMPLATE_TEST_CASE("a ring gives the bits of all keys or refuses, whatever the window and the offset",
                   "[options][cache][bits][errors]", float, double) {
  using T = TestType;
  const Index length = 300;
  const Index capacity = 40;
  const Matrix<T> key = random_matrix<T>(length, 4, 1);
  const Matrix<T> value = random_matrix<T>(length, 4, 2);
  const Matrix<T> query = random_matrix<T>(2, 4, 3);
  KvCache<T> ring({1, 1, 4, 4, capacity, KvStorage::same, true});
  ring.append(key, value);
  std::vector<Index> lefts = kExtremes;
  lefts.insert(lefts.end(), {38, 39, 40, 41, 260, 300});
  std::vector<Index> offsets = kExtremes;
  offsets.insert(offsets.end(), {-5, -2, 100, 259, 260, 261, 298, 299, 300, 400});
  int accepted = 0;
  for (const Index left : lefts) {
    for (const Index right : {Index{0}, Index{30}, kMost - 1, kMost}) {
      if (left < 0) continue;
      for (const Index offset : offsets) {
        CAPTURE(left, right, offset);
        const AttentionOptions options{.mask = window(left, right) & query_offset(offset)};
        Matrix<T> out;
        // Refused iff the first query, taken alone, might see a key that the ring has let go of.
        const bool lost = Wide{offset} - left < length - capacity;
        REQUIRE(ends_well([&] { out = scaled_dot_product_attention(query, ring, options); }) == !lost);
        if (lost) continue;
        ++accepted;
        REQUIRE(same_bits(out, scaled_dot_product_attention(query, key, value, options)));
      }
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("starts of any size are those of the rows, or an exception", "[options][ragged][errors]") {
  const Matrix<double> x = random_matrix<double>(3, 4, 1);
  Random random(1);
  const MultiHeadAttention<double> layer(4, 2, random);
  for (const Index a : kExtremes) {
    for (const Index b : kExtremes) {
      for (const std::vector<Index>& starts :
           {std::vector<Index>{a, b}, {0, a, b}, {a, b, 3}, {0, a, 3}, {0, a, b, 3}}) {
        CAPTURE(a, b, starts.size());
        const bool right =
            starts.front() == 0 && starts.back() == 3 && std::is_sorted(starts.begin(), starts.end());
        AttentionOptions options;
        options.query_starts = options.kv_starts = starts;
        CHECK(ends_well([&] { (void)scaled_dot_product_attention(x, x, x, options); }) == right);
        options.kv_starts.clear();
        options.batch_size = static_cast<Index>(starts.size()) - 1;
        ends_well([&] { (void)scaled_dot_product_attention(x, x, x, options); });
        LayerOptions own;
        own.query_starts = starts;
        CHECK(ends_well([&] { (void)layer.forward(x, own); }) == right);
        ends_well([&] { MultiHeadAttentionTape<double>(layer, 3, own); });
      }
    }
  }
}

TEST_CASE("sizes of any size are planned or refused", "[options][errors][plan]") {
  Index AttentionShape::*const sizes[] = {&AttentionShape::batch_size,   &AttentionShape::num_heads,
                                          &AttentionShape::num_kv_heads, &AttentionShape::query_len,
                                          &AttentionShape::kv_len,       &AttentionShape::head_dim,
                                          &AttentionShape::value_dim};
  Index MultiHeadAttentionShape::*const layer_sizes[] = {
      &MultiHeadAttentionShape::batch_size, &MultiHeadAttentionShape::seq_len,
      &MultiHeadAttentionShape::d_in,       &MultiHeadAttentionShape::d_out,
      &MultiHeadAttentionShape::num_heads,  &MultiHeadAttentionShape::head_dim,
      &MultiHeadAttentionShape::value_dim};
  const Mask masks[] = {Mask(), causal() & bottom_right(),
                        window(kMost - 1, kMost - 1) & query_offset(kLeast)};
  int planned = 0;
  for (const Index a : kExtremes) {
    for (const Index b : kExtremes) {
      for (std::size_t first = 0; first < std::size(sizes); ++first) {
        for (std::size_t second = first; second < std::size(sizes); ++second) {
          AttentionShape shape{1, 2, 2, 3, 3, 4, 4};
          shape.*sizes[first] = a;
          shape.*sizes[second] = b;
          CAPTURE(a, b, first, second);
          for (const Mask& mask : masks) {
            for (const Index threads : {Index{1}, kMost}) {
              planned += ends_well([&] {
                const std::size_t bytes = AttentionPlan<float>(shape, mask, {}, threads).workspace_bytes();
                CHECK(bytes > 0);
              });
              planned += ends_well(
                  [&] { AttentionBackwardPlan<float>(shape, mask, {}, threads).workspace_bytes(); });
            }
          }
          MultiHeadAttentionShape layer{1, 3, 8, 8, 2, 4, 4};
          layer.*layer_sizes[first] = a;
          layer.*layer_sizes[second] = b;
          planned += ends_well([&] {
            const std::size_t bytes = MultiHeadAttentionPlan<float>(layer, {}, {}, kMost).workspace_bytes();
            CHECK(bytes > 0);
          });
          layer.kv_len = a;
          layer.d_key = layer.d_value = b;
          planned += ends_well([&] { MultiHeadAttentionPlan<float>(layer, top_left()).workspace_bytes(); });
        }
      }
    }
  }
  CHECK(planned > 1000);
}

TEST_CASE("every other integer of attention may be anything", "[options][rotary][cache]") {
  const Matrix<double> x = random_matrix<double>(6, 4, 1);
  Random random(1);
  const MultiHeadAttention<double> layer(4, 2, random);
  KvCache<double> cache({2, 1, 4, 4, 8});
  cache.append(x, x);
  for (const Index a : kExtremes) {
    CAPTURE(a);
    ends_well([&] { (void)scaled_dot_product_attention(x, x, x, {.num_heads = a}); });
    ends_well([&] { (void)scaled_dot_product_attention(x, x, x, {.num_kv_heads = a}); });
    ends_well([&] { (void)scaled_dot_product_attention(x, x, x, {.batch_size = a}); });
    ends_well([&] { (void)layer.forward(x, LayerOptions{.batch_size = a}); });
    ends_well([&] { (void)layer.forward(x, LayerOptions{.num_kv_heads = a}); });
    ends_well([&] { MultiHeadAttentionTape<double>(layer, a, {}, a); });
    ends_well([&] { (void)cache.kv_len(a); });
    ends_well([&] { cache.fork().append_to(a, x, x); });
    ends_well([&] { cache.fork().copy_sequence(a, 0); });
    ends_well([&] { cache.fork().copy_sequence(0, a); });
    for (const Index b : kExtremes) {
      ends_well([&] { cache.fork().truncate(a, b); });
      ends_well([&] {
        (void)scaled_dot_product_attention(x, x, x, {.mask = kv_lengths({a, b}), .batch_size = 2});
      });
      const Mask offsets = query_offsets({a, b});
      const auto near = [](Index offset) {
        return offset >= -Mask::kMaxOffset && offset <= Mask::kMaxOffset;
      };
      const bool told = near(a) && near(b);
      for (const Mask& asking : {causal(), window(3, 2), alibi({0.5})}) {
        const bool good = told || asking.alibi_slopes().empty();
        CHECK(good == ends_well([&] {
                (void)scaled_dot_product_attention(x, x, x, {.mask = offsets & asking, .batch_size = 2});
              }));
        CHECK(good ==
              ends_well([&] { (void)scaled_dot_product_attention(x, cache, {.mask = offsets & asking}); }));
        CHECK(told == ends_well([&] {
                (void)flex_attention(x, x, x, [](double s, Index, Index, Index, Index) { return s; },
                                     visible_where([](Index, Index, Index i, Index j) { return i > j; }),
                                     {.mask = offsets & asking, .batch_size = 2});
              }));
        ends_well([&] {
          (void)scaled_dot_product_attention(
              x, x, x, {.mask = offsets & asking, .rotary = Rotary(4, 9), .batch_size = 2});
        });
      }
      const Rotary far(4, 9, {.offset = a});
      CHECK(ends_well([&] {
        const Matrix<double> out =
            scaled_dot_product_attention(x, x, x, {.mask = query_offset(2), .rotary = far});
        CHECK(out.allFinite());
      }));
      SelectedWeights<double> selected({a}, {b});
      ends_well([&] { (void)observe_attention(x, x, x, {}, {&selected}); });
    }
  }
  for (const Index a : kImpossible) {
    CAPTURE(a);
    CHECK_FALSE(ends_well([&] { (void)alibi_slopes(a); }));
    CHECK_FALSE(ends_well([&] { (void)causal_mask(a); }));
    CHECK_FALSE(ends_well([&] { Rotary(a, 4); }));
    CHECK_FALSE(ends_well([&] { Rotary(4, a); }));
    CHECK_FALSE(ends_well([&] {
      TopWeights<double> top(a);
      (void)observe_attention(x, x, x, {}, {&top});
    }));
    Index KvCacheOptions::*const sizes[] = {&KvCacheOptions::batch_size, &KvCacheOptions::num_kv_heads,
                                            &KvCacheOptions::head_dim, &KvCacheOptions::value_dim,
                                            &KvCacheOptions::capacity};
    for (Index KvCacheOptions::*const size : sizes) {
      for (const bool ring : {false, true}) {
        KvCacheOptions shape{1, 1, 4, 4, 8, KvStorage::same, ring};
        shape.*size = a;
        CHECK_FALSE(ends_well([&] { KvCache<double> too_large(shape); }));
      }
    }
  }
}

TEST_CASE("integers of the other parts may be anything", "[options]") {
  const Matrix<double> x = random_matrix<double>(6, 4, 1);
  const std::vector<double> curve = {1, 2, 3};
  for (const Index a : kExtremes) {
    for (const Index b : kExtremes) {
      const CosineSchedule schedule{.warm_up = a, .steps = b};
      for (const Index step : kExtremes) {
        const double rate = schedule.at(step);
        CAPTURE(a, b, step, rate);
        CHECK(rate <= schedule.peak);
      }
      const SinusoidalPositions<double> positions(6, 4);
      ends_well([&] { (void)positions.rows(a, b); });
      ends_well([&] { (void)add_positions(x, positions, a, b); });
      HeatMapOptions map;
      map.max_rows = a;
      map.max_cols = b;
      ends_well([&] { (void)heat_map(x, map); });
      map = {};
      map.max_width = std::min<Index>(a, 4000);  // a line has as many columns
      map.max_label_width = b;
      ends_well([&] { (void)heat_map(x, map); });
      PlotOptions plot;
      plot.width = a;
      plot.height = b;
      ends_well([&] { (void)plot_curve(curve, plot); });
      ends_well([&] { (void)plan_heat_map(a, b, HeatMapOptions{.index_labels = false}); });
    }
    PlotOptions plot;
    plot.max_label_width = a;
    ends_well([&] { (void)plot_curve(curve, plot); });
    ends_well([&] { TokenWindows({1, 2, 3}, a); });
    const TokenWindows windows({1, 2, 3, 4}, 2);
    ends_well([&] { (void)windows.window(a); });
    if (a < 1 || a > 1'000'000) ends_well([&] { (void)windows.in_order(a); });
    Random random(1);
    ends_well(
        [&] { (void)sample_token(std::span<const double>(curve), SamplingOptions{.top_k = a}, random); });
    ends_well([&] { ThreadPool(std::min<Index>(a, 2)); });
    ends_well([&] { (void)pca(x, a); });
    ends_well([&] { (void)truncated("a text", a); });
  }
}

TEST_CASE("sequences of nothing cost nothing, however many they are and whoever looks on",
          "[options][rotary]") {
  const Index many = Index{1} << 31;
  const Matrix<float> none(0, 6);
  const Matrix<float> no_bias(0, 0);
  for (const Index batch_size : {many, Index{1} << 38}) {
    AttentionOptions options;
    options.batch_size = batch_size;
    options.num_heads = 3;
    options.sinks = {0, 1, 2};
    options.rotary = Rotary(2, 8);
    options.mask = causal() & bias(no_bias);
    TopWeights<float> top(2);
    ColumnSums<float> sums;
    auto callback = weights_callback<float>([](const WeightsTile<float>&) {});
    CHECK(observe_attention(none, none, none, options, {&top, &callback}).rows() == 0);
    if (batch_size == many) CHECK(observe_attention(none, none, none, options, {&sums}).rows() == 0);
    const auto forward = scaled_dot_product_attention_with_weights(none, none, none, options);
    const auto grads = scaled_dot_product_attention_backward(none, none, none, forward, none, options);
    CHECK(grads.query.rows() == 0);
    CHECK(grads.sinks.isZero(0));
    const Matrix<long double> wide = none.cast<long double>();
    const Matrix<long double> no_wide_bias(0, 0);
    options.mask = causal() & bias(no_wide_bias);
    const auto on_loops = scaled_dot_product_attention_with_weights(wide, wide, wide, options);
    CHECK(scaled_dot_product_attention_backward(wide, wide, wide, on_loops, wide, options).sinks.isZero(0));
    Random random(1);
    const MultiHeadAttention<float> layer(6, 3, random);
    CHECK(layer.forward(none, LayerOptions{.batch_size = batch_size}).rows() == 0);
  }
}
