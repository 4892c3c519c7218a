// A caller's functions inside the kernel do what the masks of the library do, and their exceptions come out.

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "catch.hpp"
#include "heed/attention/flex_attention.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

// Tiles, blocks of queries, heads that share keys, several sequences.
const AttentionShape kShapes[] = {
    {1, 1, 1, 1, 1, 1, 1},   {2, 4, 2, 37, 37, 8, 5}, {1, 2, 1, 300, 300, 16, 16}, {1, 6, 2, 1, 270, 20, 24},
    {3, 2, 2, 5, 140, 8, 3}, {1, 1, 1, 0, 4, 2, 2},   {1, 1, 1, 3, 0, 2, 2}};

constexpr auto sees_past = [](Index, Index, Index query, Index key) { return key <= query; };

template <class T, class Score, class Visible>
Matrix<T> flex(const Inputs<T>& in, const AttentionOptions& options, const Score& score,
               const Visible& visible) {
  return flex_attention(in.query, in.key, in.value, score, visible, options);
}

template <class T>
Matrix<T> built_in(const Inputs<T>& in, const AttentionOptions& options) {
  return scaled_dot_product_attention(in.query, in.key, in.value, options);
}

template <class A, class B>
double distance(const Eigen::MatrixBase<A>& a, const Eigen::MatrixBase<B>& b) {
  if (a.size() == 0) return 0;
  return static_cast<double>(
      (a.template cast<long double>() - b.template cast<long double>()).cwiseAbs().maxCoeff());
}

}  // namespace

TEMPLATE_TEST_CASE("a predicate gives the bits of causal, a window and lengths, with the coarse one or not",
                   "[function][threads][mask][bits]", float, double) {
  ThreadPool pool(3);
  const auto near = [](Index, Index, Index query, Index key) {
    return key >= query - 20 && key <= query + 3;
  };
  const auto may_be_near = [](Index, Index, Index first_query, Index last_query, Index first_key,
                              Index last_key) {
    return last_key >= first_query - 20 && first_key <= last_query + 3;
  };
  const std::vector<Index> lengths = {3, 20, 1};
  const auto exists = [&](Index batch, Index, Index, Index key) {
    return key < lengths[static_cast<std::size_t>(batch)];
  };
  for (const AttentionShape& s : kShapes) {
    const auto in = random_inputs<TestType>(s, 1);
    for (const Mask& place : {bottom_right(), top_left(), query_offset(-2)}) {
      for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
        AttentionOptions options = options_for(s, place);
        options.executor = executor;
        const auto with = [&](const Mask& part) {
          AttentionOptions more = options;
          more.mask = place & part;
          return built_in(in, more);
        };
        CAPTURE(s.num_heads, s.query_len, s.kv_len, place.to_string());
        CHECK(same_bits(with(causal()), flex(in, options, KeepScore{}, visible_where(sees_past))));
        CHECK(same_bits(with(window(20, 3)), flex(in, options, KeepScore{}, visible_where(near))));
        CHECK(
            same_bits(with(window(20, 3)), flex(in, options, KeepScore{}, visible_where(near, may_be_near))));
        // Beside the mask, not instead of it.
        AttentionOptions masked = options;
        masked.mask = place & causal();
        CHECK(same_bits(with(causal() & window(20, 3)), flex(in, masked, KeepScore{}, visible_where(near))));
        CHECK(same_bits(with(Mask()), flex(in, options, KeepScore{}, SeesAll{})));
        if (s.kv_len >= 20 && s.batch_size <= 3) {
          const std::vector<Index> own(lengths.begin(), lengths.begin() + s.batch_size);
          AttentionOptions standing = options;
          standing.mask = query_offset(0);
          AttentionOptions padded = options;
          padded.mask = query_offset(0) & kv_lengths(own);
          CHECK(same_bits(built_in(in, padded), flex(in, standing, KeepScore{}, visible_where(exists))));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("a key that only the coarse predicate hides is hidden", "[function][mask]", float,
                   double) {
  const AttentionShape s{1, 1, 1, 3, 600, 4, 4};
  const auto in = random_inputs<TestType>(s, 2);
  const auto nothing_late = [](Index, Index, Index, Index, Index first_key, Index) {
    return first_key < 256;
  };
  const auto all = [](Index, Index, Index, Index) { return true; };
  CHECK(same_bits(built_in(in, options_for(s, kv_lengths({256}))),
                  flex(in, options_for(s, top_left()), KeepScore{}, visible_where(all, nothing_late))));
  const auto nowhere = [](Index, Index, Index, Index, Index, Index) { return false; };
  CHECK(flex(in, options_for(s, top_left()), KeepScore{}, visible_where(all, nowhere)).isZero(0));
}

TEMPLATE_TEST_CASE("a function of scores gives the bits of a bias and of slopes, for every head and sequence",
                   "[function][threads][bias][heads][bits]", float, double) {
  ThreadPool pool(4);
  for (const AttentionShape& s : kShapes) {
    const auto in = random_inputs<TestType>(s, 3);
    const Matrix<TestType> added =
        random_matrix<TestType>(s.batch_size * s.num_heads * s.query_len, s.kv_len, 4, 2.0);
    const auto slopes = alibi_slopes(s.num_heads);  // powers of two here: products are exact
    const auto add = [&](TestType score, Index batch, Index head, Index query, Index key) {
      return score + added((batch * s.num_heads + head) * s.query_len + query, key);
    };
    const auto slope = [&](TestType score, Index, Index head, Index query, Index key) {
      return score - static_cast<TestType>(slopes[static_cast<std::size_t>(head)]) *
                         static_cast<TestType>(std::abs(query - key));
    };
    for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
      AttentionOptions options = options_for(s, top_left());
      options.executor = executor;
      AttentionOptions biased = options;
      biased.mask = top_left() & bias(added, MaskRows::head_of_sequence);
      AttentionOptions sloping = options;
      sloping.mask = top_left() & alibi(slopes);
      CAPTURE(s.num_heads, s.query_len, s.kv_len);
      CHECK(same_bits(built_in(in, biased), flex(in, options, add, SeesAll{})));
      // The library's slopes of six heads are no powers of two throughout, and a compiler may fuse the
      // lambda.
      CHECK(distance(built_in(in, sloping), flex(in, options, slope, SeesAll{})) <=
            8 * std::numeric_limits<TestType>::epsilon());
      // With a mask, a softcap and sinks around it.
      for (AttentionOptions* o : {&options, &biased}) {
        o->mask = o->mask & causal();
        o->softcap = 2;
        o->sinks.assign(static_cast<std::size_t>(s.num_heads), 0.5);
      }
      CHECK(same_bits(built_in(in, biased), flex(in, options, add, SeesAll{})));
    }
  }
}

TEMPLATE_TEST_CASE("a function that looks at batch, head, query and key is told the right ones",
                   "[function][heads]", float, double, long double) {
  // Keys are zero, so the score is the function's alone, and the largest decides: who is looked at says what
  // the function was told.
  const AttentionShape s{2, 4, 2, 5, 150, 3, 1};
  Inputs<TestType> in = random_inputs<TestType>(s, 5);
  in.key.setZero();
  for (Index row = 0; row < in.value.rows(); ++row)
    in.value.row(row).setConstant(static_cast<TestType>(row % 150));
  const auto target = [](Index batch, Index head, Index position) {
    return 70 * batch + 11 * head + position % 8;
  };
  const auto one_only = [&](TestType, Index batch, Index head, Index query, Index key) {
    return static_cast<TestType>(key == target(batch, head, query) ? 0 : -20000);
  };
  constexpr Index offset = 33;
  const auto out = flex(in, options_for(s, query_offset(offset)), one_only, SeesAll{});
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 4; ++h) {
      for (Index i = 0; i < 5; ++i)
        CHECK(out(b * 5 + i, h) == static_cast<TestType>(target(b, h, i + offset)));
    }
  }
}

TEMPLATE_TEST_CASE("a function may be applied to hidden keys, and hidden they stay", "[function][mask]",
                   float, double) {
  const AttentionShape s{1, 2, 1, 9, 140, 4, 4};
  auto in = random_inputs<TestType>(s, 6);
  const AttentionOptions options = options_for(s, causal() & query_offset(100));
  const auto clean = built_in(in, options);
  in.key.bottomRows(30).setConstant(kNaN<TestType>);
  in.value.bottomRows(30).setConstant(kInf<TestType>);
  const auto loud = [](TestType score, Index, Index, Index query, Index key) {
    return key > query ? TestType(1e6) : score;
  };
  CHECK(same_bits(clean, flex(in, options, loud, SeesAll{})));
}

TEMPLATE_TEST_CASE("what a function or predicate throws is thrown on", "[function][threads][mask][errors]",
                   float, double, long double) {
  ThreadPool pool(3);
  const AttentionShape s{2, 2, 2, 60, 60, 4, 4};
  const auto in = random_inputs<TestType>(s, 7);
  AttentionOptions options = options_for(s);
  const auto bad_score = [](TestType score, Index batch, Index, Index query, Index) {
    if (batch == 1 && query == 50) throw std::runtime_error("score of query 50");
    return score;
  };
  const auto bad_predicate = [](Index, Index head, Index, Index key) {
    if (head == 1 && key == 7) throw std::out_of_range("key 7");
    return true;
  };
  const auto bad_coarse = [](Index, Index, Index, Index, Index, Index) -> bool {
    throw std::logic_error("coarse");
  };
  for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
    options.executor = executor;
    CHECK(message_of<std::runtime_error>([&] { (void)flex(in, options, bad_score, SeesAll{}); }) ==
          "score of query 50");
    CHECK(message_of<std::out_of_range>(
              [&] { (void)flex(in, options, KeepScore{}, visible_where(bad_predicate)); }) == "key 7");
    CHECK(message_of<std::logic_error>([&] {
            (void)flex(in, options, KeepScore{}, visible_where(bad_predicate, bad_coarse));
          }) == "coarse");
  }
}

TEST_CASE("long double and the kernels agree on functions and predicates", "[function][mask]") {
  for (const AttentionShape& s : kShapes) {
    const auto in = random_inputs<double>(s, 8);
    const auto wide = in.cast<long double>();
    const AttentionOptions options = options_for(s, bottom_right());
    const auto bend = [](auto score, Index batch, Index head, Index query, Index key) {
      using Score = decltype(score);
      return score * Score(0.5) + static_cast<Score>((batch + 2 * head + 3 * query + 5 * key) % 7) / Score(4);
    };
    const auto sees_odd = [](Index batch, Index head, Index query, Index key) {
      return (batch + head + query + key) % 3 != 0;
    };
    CHECK(distance(flex(in, options, bend, visible_where(sees_odd)),
                   flex(wide, options, bend, visible_where(sees_odd))) <= 1e-14);
  }
}

TEMPLATE_TEST_CASE("a score of -inf hides a key, and a row of nothing else gives zeros", "[function][mask]",
                   float, double) {
  const AttentionShape s{1, 2, 1, 5, 300, 8, 8};
  const auto in = random_inputs<TestType>(s, 77);
  AttentionOptions options = options_for(s, top_left());
  const auto out = flex_attention(
      in.query, in.key, in.value,
      [](TestType score, Index, Index, Index query, Index key) {
        return query == 3 || key % 3 == 1 ? -kInf<TestType> : score;
      },
      SeesAll{}, options);
  Matrix<TestType> hidden = Matrix<TestType>::Zero(5, 300);
  for (Index j = 1; j < 300; j += 3) hidden.col(j).setConstant(-kInf<TestType>);
  hidden.row(3).setConstant(-kInf<TestType>);
  options.mask = bias(hidden);
  CHECK(same_bits(out, scaled_dot_product_attention(in.query, in.key, in.value, options)));
  CHECK(out.row(3).isZero(0));
}
