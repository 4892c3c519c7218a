// A cache of keys and values: the bits of one full pass, however the tokens came in, and errors before
// anything is written.

#include <algorithm>

#include "catch.hpp"
#include "heed/attention/cached_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// 300 tokens end in the second tile of float and the third of double; heads share keys; odd sizes.
const AttentionShape kShape{1, 4, 2, 300, 300, 20, 13};

KvCacheOptions cache_shape(const AttentionShape& s, KvStorage storage = KvStorage::same) {
  return {s.batch_size, s.num_kv_heads, s.head_dim, s.value_dim, s.kv_len, storage, false};
}

AttentionOptions heads_of(const AttentionShape& s, const Mask& mask = causal()) {
  AttentionOptions options;
  options.mask = mask;
  options.num_heads = s.num_heads;
  return options;
}

/// Appends the tokens [first, first + count) and attends with their queries.
template <class T>
Matrix<T> step(KvCache<T>& cache, const Inputs<T>& in, Index first, Index count,
               const AttentionOptions& options) {
  cache.append(in.key.middleRows(first, count), in.value.middleRows(first, count), options.rotary);
  return scaled_dot_product_attention(in.query.middleRows(first, count), cache, options);
}

/// All tokens in pieces: the first piece as long as the first number says, then the second; then the last
/// again and again.
template <class T>
Matrix<T> in_pieces(KvCache<T>& cache, const Inputs<T>& in, const std::vector<Index>& pieces,
                    const AttentionOptions& options) {
  Matrix<T> out(in.query.rows(), options.num_heads * cache.shape().value_dim);
  std::size_t n = 0;
  for (Index first = 0; first < in.query.rows(); ++n) {
    const Index count = std::min(in.query.rows() - first, pieces[std::min(n, pieces.size() - 1)]);
    out.middleRows(first, count) = step(cache, in, first, count, options);
    first += count;
  }
  return out;
}

const std::vector<std::vector<Index>> kPieces = {
    {300}, {1}, {5, 250, 1}, {128, 128, 44}, {127, 2, 1}, {255, 2, 3, 4}, {256, 1, 1, 5, 30}, {4}};

/// The numbers as a cache with 16-bit storage holds them, by Eigen's own conversions.
Matrix<float> rounded(const Matrix<float>& x, KvStorage storage) {
  if (storage == KvStorage::bfloat16) return x.cast<Eigen::bfloat16>().cast<float>();
  if (storage == KvStorage::float16) return x.cast<Eigen::half>().cast<float>();
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("a prompt, chunks and single tokens against a cache have the bits of one causal pass",
                   "[cache][mask][bits]", float, double) {
  for (const AttentionShape& s :
       {kShape, AttentionShape{1, 1, 1, 270, 270, 64, 64}, AttentionShape{1, 7, 1, 140, 140, 1, 1},
        AttentionShape{1, 1, 1, 1, 1, 3, 5}}) {
    const auto in = random_inputs<TestType>(s, 1);
    AttentionOptions plain = heads_of(s);
    AttentionOptions more = heads_of(s, causal() & window(150, 0) & alibi(alibi_slopes(s.num_heads)));
    more.softcap = 5;
    more.sinks.assign(static_cast<std::size_t>(s.num_heads), 0.25);
    for (const AttentionOptions& options : {plain, more}) {
      AttentionOptions full_options = options;
      full_options.num_kv_heads = s.num_kv_heads;
      const auto full = scaled_dot_product_attention(in.query, in.key, in.value, full_options);
      for (const std::vector<Index>& pieces : kPieces) {
        KvCache<TestType> cache(cache_shape(s));
        CAPTURE(s.kv_len, options.softcap, pieces);
        REQUIRE(same_bits(full, in_pieces(cache, in, pieces, options)));
        REQUIRE(cache.kv_len() == s.kv_len);
      }
    }
  }
}

TEMPLATE_TEST_CASE("keys that are turned as they are appended give the bits of a full pass with rotary",
                   "[cache][rotary][bits]", float, double) {
  const auto in = random_inputs<TestType>(kShape, 2);
  for (const RotaryLayout layout : {RotaryLayout::half_split, RotaryLayout::interleaved}) {
    AttentionOptions options = heads_of(kShape);
    options.rotary.emplace(12, kShape.kv_len, RotaryOptions{.layout = layout});
    AttentionOptions full_options = options;
    full_options.num_kv_heads = kShape.num_kv_heads;
    const auto full = scaled_dot_product_attention(in.query, in.key, in.value, full_options);
    for (const std::vector<Index>& pieces : kPieces) {
      KvCache<TestType> cache(cache_shape(kShape));
      CAPTURE(pieces);
      REQUIRE(same_bits(full, in_pieces(cache, in, pieces, options)));
    }
    full_options.rotary.reset();
    CHECK_FALSE(same_bits(full, scaled_dot_product_attention(in.query, in.key, in.value, full_options)));
  }
}

TEST_CASE("a cache in 16 bits gives the bits of a full pass over the rounded keys and values",
          "[cache][bits]") {
  for (const KvStorage storage : {KvStorage::bfloat16, KvStorage::float16}) {
    for (const AttentionShape& s :
         {kShape, AttentionShape{1, 2, 2, 270, 270, 64, 64}, AttentionShape{1, 8, 1, 40, 40, 3, 40},
          AttentionShape{1, 1, 1, 1, 1, 1, 1}}) {
      const auto in = random_inputs<float>(s, 3, 4.0);
      const Inputs<float> narrow = {in.query, rounded(in.key, storage), rounded(in.value, storage)};
      REQUIRE((narrow.key - in.key).cwiseAbs().maxCoeff() > 0);
      AttentionOptions options = heads_of(s);
      options.num_kv_heads = s.num_kv_heads;
      const auto full = scaled_dot_product_attention(narrow.query, narrow.key, narrow.value, options);
      for (const std::vector<Index>& pieces : kPieces) {
        KvCache<float> cache(cache_shape(s, storage));
        CAPTURE(static_cast<int>(storage), s.kv_len, pieces);
        REQUIRE(same_bits(full, in_pieces(cache, in, pieces, options)));
      }
    }
  }
}

TEST_CASE("16 bits hold what Eigen's conversions hold, from subnormal numbers to infinity and NaN",
          "[cache][nan]") {
  // One key of zero sees one value: out is the value.
  const auto through = [](const Matrix<float>& value, KvStorage storage) {
    KvCache<float> cache({1, 1, 1, value.cols(), 1, storage, false});
    cache.append(Matrix<float>::Zero(1, 1).eval(), value);
    return scaled_dot_product_attention(Matrix<float>::Zero(1, 1).eval(), cache);
  };
  Random random(4);
  Matrix<float> value(1, 4000);
  for (Index i = 0; i < value.size(); ++i)
    value(0, i) =
        std::ldexp(static_cast<float>(random.uniform(-2, 2)), static_cast<int>(random.next_word() % 60) - 40);
  const float edges[] = {65504.0f,     65519.99f,     65520.0f,    -65520.0f,  70000.0f, 5.9604645e-8f,
                         2.98e-8f,     2.9802322e-8f, 6.1e-5f,     0.0f,       3.38e38f, kInf<float>,
                         -kInf<float>, kNaN<float>,   1.00390625f, 1.01171875f};
  for (std::size_t i = 0; i < std::size(edges); ++i) value(0, static_cast<Index>(i)) = edges[i];
  for (const KvStorage storage : {KvStorage::bfloat16, KvStorage::float16}) {
    const Matrix<float> got = through(value, storage);
    const Matrix<float> expected = rounded(value, storage);
    for (Index i = 0; i < value.size(); ++i) {
      CAPTURE(value(0, i), static_cast<int>(storage));
      if (std::isnan(expected(0, i))) {
        REQUIRE(std::isnan(got(0, i)));
      } else {
        REQUIRE(got(0, i) == expected(0, i));
      }
    }
  }
}

TEMPLATE_TEST_CASE("sequences of unequal lengths in a cache have the bits that each has alone",
                   "[cache][threads][ragged][bits]", float, double) {
  AttentionShape s = kShape;
  s.batch_size = 3;
  const std::vector<Index> lengths = {7, 0, 290};
  const auto in = random_inputs<TestType>(s, 5);
  KvCache<TestType> cache(cache_shape(s));
  for (Index b = 0; b < s.batch_size; ++b) {
    const Index length = lengths[static_cast<std::size_t>(b)];
    cache.append_to(b, in.key.middleRows(b * s.kv_len, length), in.value.middleRows(b * s.kv_len, length));
  }
  CHECK(cache.lengths() == lengths);
  // Three more tokens for each, in the rows one sequence after another.
  constexpr Index more = 3;
  const auto rows = [&](const Matrix<TestType>& x, Index b, Index first, Index count) {
    return x.middleRows(b * s.kv_len + first, count);
  };
  Matrix<TestType> query(3 * more, in.query.cols());
  Matrix<TestType> key(3 * more, in.key.cols());
  Matrix<TestType> value(3 * more, in.value.cols());
  for (Index b = 0; b < 3; ++b) {
    const Index length = lengths[static_cast<std::size_t>(b)];
    query.middleRows(b * more, more) = rows(in.query, b, length, more);
    key.middleRows(b * more, more) = rows(in.key, b, length, more);
    value.middleRows(b * more, more) = rows(in.value, b, length, more);
  }
  cache.append(key, value);
  CHECK(cache.kv_len(2) == 293);
  AttentionOptions options = heads_of(s);
  const auto together = scaled_dot_product_attention(query, cache, options);
  AttentionOptions one = heads_of(s);
  one.num_kv_heads = s.num_kv_heads;
  for (Index b = 0; b < 3; ++b) {
    const Index length = lengths[static_cast<std::size_t>(b)] + more;
    const auto alone = scaled_dot_product_attention(rows(in.query, b, 0, length), rows(in.key, b, 0, length),
                                                    rows(in.value, b, 0, length), one);
    CHECK(same_bits(alone.bottomRows(more), together.middleRows(b * more, more)));
  }
  for (Index threads = 2; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    options.executor = &pool;
    CHECK(same_bits(together, scaled_dot_product_attention(query, cache, options)));
  }

  options.executor = nullptr;

  // Queries for some sequences only: one of the first, none of the second, two of the third.
  Matrix<TestType> some(3, query.cols());
  some << query.row(2), query.middleRows(7, 2);
  options.query_starts = {0, 1, 1, 3};
  const auto of_some = scaled_dot_product_attention(some, cache, options);
  CHECK(same_bits(of_some.row(0), together.row(2)));
  CHECK(same_bits(of_some.bottomRows(2), together.middleRows(7, 2)));
}

TEMPLATE_TEST_CASE("truncated and cleared tokens leave no trace, whatever they held", "[cache]", float,
                   double) {
  const auto in = random_inputs<TestType>(kShape, 6);
  auto garbage = in;
  garbage.key.setConstant(kNaN<TestType>);
  garbage.value.setConstant(kInf<TestType>);
  const AttentionOptions options = heads_of(kShape);
  KvCache<TestType> fresh(cache_shape(kShape));
  const auto expected = in_pieces(fresh, in, {300}, options);
  for (const Index kept : {Index{0}, Index{1}, Index{100}, Index{128}, Index{256}, Index{299}}) {
    KvCache<TestType> cache(cache_shape(kShape));
    cache.append(in.key.topRows(kept), in.value.topRows(kept));
    cache.append(garbage.key.bottomRows(300 - kept), garbage.value.bottomRows(300 - kept));
    cache.truncate(0, kept);
    CHECK(cache.kv_len() == kept);
    CHECK(same_bits(expected.middleRows(kept, 1), step(cache, in, kept, 1, options)));
    cache.truncate(0, kept);
    CHECK(same_bits(expected.bottomRows(300 - kept), step(cache, in, kept, 300 - kept, options)));
    cache.clear();
    CHECK(cache.kv_len() == 0);
    CHECK(same_bits(expected, in_pieces(cache, in, {33}, options)));
  }
  CHECK(message_of<RangeError>([&] { fresh.truncate(0, 301); }) ==
        "sequence 0 has 300 tokens, it cannot be truncated to 301");
  CHECK(contains(message_of<RangeError>([&] { fresh.truncate(0, -1); }), "truncated to -1"));
  CHECK(contains(message_of<RangeError>([&] { fresh.truncate(1, 0); }), "sequence 1 is wanted"));
  CHECK(fresh.kv_len() == 300);
}

TEMPLATE_TEST_CASE("a fork has the same tokens and then goes its own way", "[cache]", float, double) {
  const auto in = random_inputs<TestType>(kShape, 7);
  const auto other = random_inputs<TestType>(kShape, 8);
  const AttentionOptions options = heads_of(kShape);
  KvCache<TestType> trunk(cache_shape(kShape));
  trunk.append(in.key.topRows(260), in.value.topRows(260));
  KvCache<TestType> branch = trunk.fork();
  Inputs<TestType> forked = other;
  forked.key.topRows(260) = in.key.topRows(260);
  forked.value.topRows(260) = in.value.topRows(260);
  const auto of_branch = step(branch, other, 260, 40, options);
  const auto of_trunk = step(trunk, in, 260, 40, options);
  KvCache<TestType> fresh(cache_shape(kShape));
  CHECK(same_bits(of_trunk, in_pieces(fresh, in, {300}, options).bottomRows(40)));
  fresh.clear();
  CHECK(same_bits(of_branch, in_pieces(fresh, forked, {300}, options).bottomRows(40)));

  fresh = trunk;  // and so does a copy
  trunk.clear();
  CHECK(same_bits(of_trunk, scaled_dot_product_attention(in.query.bottomRows(40), fresh, options)));
  const KvCache<TestType> moved = std::move(fresh);
  CHECK(same_bits(of_trunk, scaled_dot_product_attention(in.query.bottomRows(40), moved, options)));
}

TEMPLATE_TEST_CASE("a copied sequence is the other one, and the rest of the batch is as it was", "[cache]",
                   float, double) {
  AttentionShape s = kShape;
  s.batch_size = 3;
  const auto in = random_inputs<TestType>(s, 9);
  KvCache<TestType> cache(cache_shape(s));
  for (Index b = 0; b < 3; ++b)
    cache.append_to(b, in.key.middleRows(b * 300, 270 - 100 * b),
                    in.value.middleRows(b * 300, 270 - 100 * b));
  const Matrix<TestType> query = random_matrix<TestType>(3, in.query.cols(), 10).row(0).replicate(3, 1);
  const auto before = scaled_dot_product_attention(query, cache, heads_of(s));
  for (const auto& [from, to] : {std::pair<Index, Index>{0, 2}, {2, 2}, {1, 0}}) {
    KvCache<TestType> beams = cache.fork();
    beams.copy_sequence(from, to);
    CHECK(beams.kv_len(to) == cache.kv_len(from));
    const auto after = scaled_dot_product_attention(query, beams, heads_of(s));
    for (Index b = 0; b < 3; ++b) CHECK(same_bits(after.row(b), before.row(b == to ? from : b)));
    // The copy goes its own way.
    beams.append_to(to, in.key.row(0), in.value.row(0));
    CHECK(same_bits(scaled_dot_product_attention(query, beams, heads_of(s)).row(to == 0 ? 1 : 0),
                    before.row(to == 0 ? 1 : 0)));
  }
  CHECK(contains(message_of<RangeError>([&] { cache.copy_sequence(0, 3); }), "sequence 3 is wanted"));
  CHECK(contains(message_of<RangeError>([&] { cache.copy_sequence(-1, 0); }), "sequence -1 is wanted"));
}

TEMPLATE_TEST_CASE("a ring with a window has the bits of the full windowed pass", "[cache][bits]", float,
                   double) {
  const AttentionShape s{1, 4, 2, 1400, 1400, 8, 9};
  auto in = random_inputs<TestType>(s, 11);
  // What the ring has let go of reaches nobody.
  in.value(3, 2) = kNaN<TestType>;
  // A chunk of which some rows still see this one, while others begin the tile that takes its place; of the
  // other key/value head than the key below, which would cover it.
  in.value(262, 9 + 4) = kNaN<TestType>;
  in.key(700, 1) = kNaN<TestType>;
  for (const Index capacity : {Index{1}, Index{40}, Index{128}, Index{300}, Index{512}}) {
    for (const Index count : {Index{1}, Index{7}, capacity / 2, capacity}) {
      if (count < 1 || count > capacity) continue;
      const Index left = capacity - count;
      AttentionOptions options = heads_of(s, causal() & window(left, 0));
      options.num_kv_heads = s.num_kv_heads;
      const auto full = scaled_dot_product_attention(in.query, in.key, in.value, options);
      KvCacheOptions ring = cache_shape(s);
      ring.capacity = capacity;
      ring.ring = true;
      KvCache<TestType> cache(ring);
      CAPTURE(capacity, count);
      REQUIRE(same_bits(full, in_pieces(cache, in, {count}, options)));
      REQUIRE(cache.kv_len() == 1400);
      // A fork of a ring, and a ring that is given everything at once.
      KvCache<TestType> at_once(ring);
      at_once.append(in.key, in.value);
      const KvCache<TestType> fork = at_once.fork();
      for (const KvCache<TestType>* one : {static_cast<const KvCache<TestType>*>(&at_once), &fork}) {
        REQUIRE(same_bits(full.bottomRows(count),
                          scaled_dot_product_attention(in.query.bottomRows(count), *one, options)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("a ring refuses queries that would see what it has let go of", "[cache][ragged][errors]",
                   float, double) {
  const Matrix<TestType> tokens = random_matrix<TestType>(50, 4, 12);
  KvCache<TestType> cache({1, 1, 4, 4, 10, KvStorage::same, true});
  cache.append(tokens.topRows(10), tokens.topRows(10));
  // Nothing is gone yet.
  CHECK(scaled_dot_product_attention(tokens.topRows(10), cache, {.mask = causal()}).rows() == 10);
  cache.append(tokens.bottomRows(40), tokens.bottomRows(40));
  const auto refused = [&](const Mask& mask, Index queries) {
    return message_of<ShapeError>(
        [&] { (void)scaled_dot_product_attention(tokens.topRows(queries), cache, {.mask = mask}); });
  };
  CHECK(refused(causal() & window(9, 0), 1) == "nothing");
  CHECK(refused(causal() & window(5, 0), 5) == "nothing");
  for (const auto& [mask, queries] : {std::pair<Mask, Index>{causal() & window(10, 0), 1},
                                      {causal() & window(5, 0), 6},
                                      {causal(), 1},
                                      {causal() & window(5, 0) & query_offset(40), 1}}) {
    CAPTURE(mask.to_string(), queries);
    CHECK(contains(refused(mask, queries), "the ring keeps the last 10 of 50 tokens of sequence 0"));
  }
  CHECK(contains(refused(causal(), 1), "add window(n, 0), where n + number of queries must not be above"));
  // What does not fit is named, also where the ring's own check would look at it.
  KvCache<TestType> two({2, 1, 4, 4, 1, KvStorage::same, true});
  for (int i = 0; i < 2; ++i) two.append(tokens.topRows(2), tokens.topRows(2));
  AttentionOptions few;
  few.mask = window(0, 0);
  few.query_starts = {0, 1};
  CHECK(contains(
      message_of<ShapeError>([&] { (void)scaled_dot_product_attention(tokens.topRows(1), two, few); }),
      "query_starts has 2 numbers"));
  few.query_starts.clear();
  few.mask = window(0, 0) & query_offsets({1});
  CHECK(contains(
      message_of<ShapeError>([&] { (void)scaled_dot_product_attention(tokens.topRows(2), two, few); }),
      "query_offsets has 1 number"));
  CHECK(contains(message_of<ShapeError>([] {
                   KvCache<TestType>({1, 1, 4, 4, 0, KvStorage::same, true});
                 }),
                 "capacity is 0"));
}

TEMPLATE_TEST_CASE("a ring can be truncated as far as its tokens are there, and no further", "[cache]", float,
                   double) {
  const AttentionShape s{1, 1, 1, 1400, 1400, 4, 4};
  const auto in = random_inputs<TestType>(s, 13);
  for (const Index capacity : {Index{100}, Index{256}, Index{300}}) {
    AttentionOptions options = heads_of(s, causal() & window(capacity - 1, 0));
    const auto full = scaled_dot_product_attention(in.query, in.key, in.value, options);
    KvCacheOptions shape = cache_shape(s);
    shape.capacity = capacity;
    shape.ring = true;
    for (const Index length : {Index{90}, Index{257}, Index{513}, Index{769}, Index{1025}, Index{1390}}) {
      KvCache<TestType> cache(shape);
      cache.append(in.key.topRows(length), in.value.topRows(length));
      // Token after token is taken back, until the ring refuses; all the while what is there is right.
      Index now = length;
      for (; now > 1; --now) {
        CAPTURE(capacity, length, now);
        const auto out = scaled_dot_product_attention(in.query.row(now - 1), cache, options);
        REQUIRE(same_bits(full.row(now - 1), out));
        if (message_of<RangeError>([&] { cache.truncate(0, now - 1); }) != "nothing") break;
        REQUIRE(cache.kv_len() == now - 1);
      }
      if (length <= capacity) CHECK(now == 1);
      // And again forward.
      if (now < length) {
        cache.append(in.key.middleRows(now, 1), in.value.middleRows(now, 1));
        CHECK(same_bits(full.row(now), scaled_dot_product_attention(in.query.row(now), cache, options)));
      }
      cache.truncate(0, 0);
      CHECK(same_bits(full.row(0), step(cache, in, 0, 1, options)));
    }
  }
}

TEMPLATE_TEST_CASE("a token too many is a ShapeError before anything is written", "[cache]", float, double) {
  AttentionShape s = kShape;
  s.batch_size = 2;
  const auto in = random_inputs<TestType>(s, 14);
  KvCache<TestType> cache(cache_shape(s));
  cache.append_to(1, in.key.topRows(299), in.value.topRows(299));
  const Matrix<TestType> query = in.query.topRows(2);
  const auto before = scaled_dot_product_attention(query, cache, heads_of(s));
  CHECK(message_of<ShapeError>([&] { cache.append(in.key.topRows(4), in.value.topRows(4)); }) ==
        "the cache is full: sequence 1 has 299 tokens, 2 more do not fit into its capacity of 300");
  CHECK(contains(message_of<ShapeError>([&] { cache.append_to(1, in.key.topRows(2), in.value.topRows(2)); }),
                 "sequence 1 has 299 tokens, 2 more"));
  CHECK(cache.lengths() == std::vector<Index>{0, 299});
  CHECK(same_bits(before, scaled_dot_product_attention(query, cache, heads_of(s))));
  cache.append(in.key.topRows(2), in.value.topRows(2));
  CHECK(cache.lengths() == std::vector<Index>{1, 300});
}

TEMPLATE_TEST_CASE("NaN in a value or key of the cache reaches exactly the rows that see it", "[cache][nan]",
                   float, double) {
  const auto clean_in = random_inputs<TestType>(kShape, 15);
  const AttentionOptions options = heads_of(kShape);
  KvCache<TestType> clean_cache(cache_shape(kShape));
  const auto clean = in_pieces(clean_cache, clean_in, {300}, options);
  for (const std::vector<Index>& pieces : {std::vector<Index>{300}, {1}, {3, 200, 4}}) {
    for (const Index at : {Index{0}, Index{127}, Index{128}, Index{256}, Index{299}}) {
      auto in = clean_in;
      in.value(at, 13 + 5) = kNaN<TestType>;  // of the second key/value head: heads 2 and 3 read it
      KvCache<TestType> cache(cache_shape(kShape));
      auto expected = clean;
      for (const Index h : {2, 3}) expected.block(at, h * 13 + 5, 300 - at, 1).setConstant(kNaN<TestType>);
      CAPTURE(at, pieces);
      REQUIRE(same_bits(expected, in_pieces(cache, in, pieces, options)));

      in = clean_in;
      in.key(at, 2) = kNaN<TestType>;  // of the first one: heads 0 and 1
      cache.clear();
      expected = clean;
      expected.block(at, 0, 300 - at, 2 * 13).setConstant(kNaN<TestType>);
      REQUIRE(same_bits(expected, in_pieces(cache, in, pieces, options)));
    }
  }
}

TEST_CASE("a value that overflows in 16 bits is infinite for the rows that see it, and for no others",
          "[cache][nan]") {
  const AttentionShape s{1, 1, 1, 40, 40, 4, 16};
  for (const KvStorage storage : {KvStorage::bfloat16, KvStorage::float16}) {
    auto in = random_inputs<float>(s, 16);
    KvCache<float> clean_cache(cache_shape(s, storage));
    const AttentionOptions options = heads_of(s);
    const auto clean = in_pieces(clean_cache, in, {40}, options);
    // Finite as float, and rounded up to infinity.
    in.value(20, 3) = storage == KvStorage::float16 ? 65520.0f : std::numeric_limits<float>::max();
    KvCache<float> cache(cache_shape(s, storage));
    const auto out = in_pieces(cache, in, {40}, options);
    CAPTURE(static_cast<int>(storage));
    CHECK(same_bits(clean.topRows(20), out.topRows(20)));
    CHECK((out.block(20, 3, 20, 1).array() == kInf<float>).all());
  }
}

TEMPLATE_TEST_CASE("tokens may come in any storage order and stride", "[cache]", float, double) {
  const auto in = random_inputs<TestType>(kShape, 17);
  const AttentionOptions options = heads_of(kShape);
  KvCache<TestType> cache(cache_shape(kShape));
  cache.append(in.key, in.value);
  const auto expected = scaled_dot_product_attention(in.query, cache, options);
  const Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic> key = in.key;
  const Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic> value = in.value;
  AwkwardMatrix<TestType> far_key(in.key, 3);
  AwkwardMatrix<TestType> far_value(in.value, 2);
  for (const Index first : {Index{1}, Index{260}, Index{300}}) {
    cache.clear();
    cache.append(key.topRows(first), value.topRows(first));
    const auto last_key = far_key.map();
    const auto last_value = far_value.map();
    cache.append(last_key.bottomRows(300 - first), last_value.bottomRows(300 - first));
    CHECK(same_bits(expected, scaled_dot_product_attention(in.query, cache, options)));
  }
}

TEMPLATE_TEST_CASE("empty caches, sequences, appends and queries are valid", "[cache]", float, double) {
  const Matrix<TestType> none(0, 4);
  for (const Index capacity : {Index{0}, Index{1}}) {
    KvCache<TestType> cache({2, 1, 4, 3, capacity, KvStorage::same, false});
    cache.append(none, Matrix<TestType>(0, 3));
    CHECK(cache.lengths() == std::vector<Index>{0, 0});
    // A row that sees no key is zero.
    const Matrix<TestType> query = random_matrix<TestType>(2, 4, 18);
    const auto out = scaled_dot_product_attention(query, cache, {.mask = causal()});
    CHECK(out.rows() == 2);
    CHECK(out.isZero(0));
    CHECK(scaled_dot_product_attention(none, cache).rows() == 0);
  }
  KvCache<TestType> nobody({0, 1, 4, 3, 5, KvStorage::same, false});
  nobody.append(none, Matrix<TestType>(0, 3));
  CHECK(scaled_dot_product_attention(none, nobody).rows() == 0);
  KvCache<TestType> one({1, 1, 4, 3, 1, KvStorage::same, false});
  const Matrix<TestType> value = random_matrix<TestType>(1, 3, 19);
  one.append(random_matrix<TestType>(1, 4, 20), value);
  CHECK((scaled_dot_product_attention(random_matrix<TestType>(1, 4, 21), one, {.mask = causal()}) - value)
            .cwiseAbs()
            .maxCoeff() <= std::numeric_limits<TestType>::epsilon());
}

TEST_CASE("what does not fit a cache is an error that names the sizes, before anything is written",
          "[cache][rotary][ragged][errors]") {
  KvCache<float> cache({2, 3, 8, 5, 10, KvStorage::same, false});
  const auto refused = [&](Index key_rows, Index key_cols, Index value_rows, Index value_cols) {
    const Matrix<float> key = Matrix<float>::Zero(key_rows, key_cols);
    const Matrix<float> value = Matrix<float>::Zero(value_rows, value_cols);
    return message_of<ShapeError>([&] { cache.append(key, value); });
  };
  CHECK(refused(4, 24, 2, 15) == "key has 4 rows, value has 2");
  CHECK(contains(refused(3, 24, 3, 15), "key has 3 rows, they cannot be split into 2 sequences"));
  CHECK(contains(refused(4, 23, 4, 15), "key is 4 x 23, a cache of 3 key/value heads of 8 need 4 x 24"));
  CHECK(contains(refused(4, 24, 4, 16), "value is 4 x 16, a cache of 3 key/value heads of 5 need 4 x 15"));
  const Matrix<float> key = Matrix<float>::Zero(4, 24);
  const Matrix<float> value = Matrix<float>::Zero(4, 15);
  CHECK(contains(message_of<ShapeError>([&] { cache.append(key, value, Rotary(10, 100)); }),
                 "rotary_dim is 10, head_dim is 8"));
  CHECK(contains(message_of<ShapeError>([&] { cache.append(key, value, Rotary(8, 1)); }),
                 "positions 0 to 0, a key of sequence 0 would stand at 1"));
  CHECK(contains(message_of<RangeError>([&] { cache.append_to(2, key, value); }), "sequence 2 is wanted"));
  CHECK(contains(message_of<RangeError>([&] { (void)cache.kv_len(-1); }), "the cache has 2 sequences"));
  CHECK(cache.lengths() == std::vector<Index>{0, 0});

  const Matrix<float> query = Matrix<float>::Zero(4, 48);
  const auto attend = [&](AttentionOptions options, const Matrix<float>& with) {
    return message_of<ShapeError>([&] { (void)scaled_dot_product_attention(with, cache, options); });
  };
  AttentionOptions options;
  options.num_heads = 6;
  CHECK(attend(options, query) == "nothing");
  CHECK(contains(attend(options, Matrix<float>::Zero(3, 48)), "query has 3 rows"));
  CHECK(contains(attend(options, Matrix<float>::Zero(4, 42)),
                 "query has heads of 7 columns, the cache has heads of 8"));
  options.num_kv_heads = 2;
  CHECK(contains(attend(options, query), "num_kv_heads is 2, the cache has 3"));
  options.num_kv_heads.reset();
  options.batch_size = 3;
  CHECK(contains(attend(options, query), "batch_size is 3, the cache has 2 sequences"));
  options.batch_size = 1;
  options.num_heads = 4;
  CHECK(contains(attend(options, Matrix<float>::Zero(4, 32)), "not a multiple of num_kv_heads, which is 3"));
  CHECK(contains(message_of<ArgumentError>([&] {
                   (void)scaled_dot_product_attention(query, cache, {.num_heads = 6, .kv_starts = {0, 1, 2}});
                 }),
                 "kv_starts is given"));

  const auto impossible = [](const KvCacheOptions& shape) {
    return message_of<ShapeError>([&] { KvCache<float> none(shape); });
  };
  CHECK(contains(impossible({-1, 1, 1, 1, 1}), "batch_size is -1"));
  CHECK(contains(impossible({1, 0, 1, 1, 1}), "num_kv_heads is 0"));
  CHECK(contains(impossible({1, 1, 0, 1, 1}), "head_dim is 0"));
  CHECK(contains(impossible({1, 1, 1, 0, 1}), "value_dim is 0"));
  CHECK(contains(impossible({1, 1, 1, 1, -1}), "capacity is -1"));
  CHECK(impossible({Index{1} << 30, Index{1} << 30, 1, 1, Index{1} << 30}) != "nothing");
  CHECK(contains(message_of<ArgumentError>([] {
                   KvCache<double> none({1, 1, 1, 1, 1, KvStorage::float16});
                 }),
                 "a cache of double stores double"));
}

TEMPLATE_TEST_CASE("a sequence takes turned keys as long as it has positions, however long the others are",
                   "[cache][rotary]", float, double) {
  const Rotary rotary(4, 10);
  const Matrix<TestType> tokens = random_matrix<TestType>(10, 4, 22);
  KvCache<TestType> cache({2, 1, 4, 4, 20, KvStorage::same, false});
  cache.append_to(0, tokens, tokens, rotary);
  cache.append_to(1, tokens, tokens, rotary);
  CHECK(cache.lengths() == std::vector<Index>{10, 10});
  CHECK(contains(message_of<ShapeError>([&] { cache.append_to(1, tokens, tokens, rotary); }),
                 "positions 0 to 9, a key of sequence 1 would stand at 19"));
}
