// The picture of a head's weights as they pass is that of the whole matrix.

#include "catch.hpp"
#include "heed/inspect/attention_heat_map.hpp"
#include "helpers.hpp"

using namespace heed;
using namespace heed::test;

TEMPLATE_TEST_CASE("a heat map of streamed weights is the heat map of the matrix", "[heat_map][threads]",
                   float, double) {
  ThreadPool pool(3);
  for (const Index length : {Index{1}, Index{7}, Index{300}, Index{700}}) {
    const AttentionShape s{2, 4, 2, length, length, 8, 8};
    const auto in = random_inputs<TestType>(s, 21, 3.0);
    AttentionOptions options = options_for(s, causal());
    options.executor = &pool;
    const auto whole = scaled_dot_product_attention_with_weights(in.query, in.key, in.value, options);
    for (const Reduction reduction : {Reduction::largest, Reduction::mean}) {
      HeatMapOptions picture;
      picture.reduction = reduction;
      picture.form = HeatMapForm::ascii;
      HeatMapObserver<TestType> map(3, picture, 1);
      const auto out = observe_attention(in.query, in.key, in.value, options, {&map});
      CHECK(map.text() == heat_map(whole.weights.head(3, 1), picture));
      CHECK(same_bits(out, whole.out));
    }
  }
}

TEST_CASE("a heat map of a head that does not exist is refused", "[heat_map]") {
  const AttentionShape s{1, 2, 2, 3, 3, 4, 4};
  const auto in = random_inputs<float>(s, 22);
  HeatMapObserver<float> map(2);
  CHECK(contains(message_of<RangeError>(
                     [&] { (void)observe_attention(in.query, in.key, in.value, options_for(s), {&map}); }),
                 "head 2 of sequence 0 is wanted, there are 2 heads and 1 sequences"));
}
