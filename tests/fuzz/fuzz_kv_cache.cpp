// A libFuzzer target: attention against caches of every kind has the bits of one full pass, however the
// tokens came in, were taken back, forked and copied.

#include "byte_choices.hpp"
#include "exact_memory.hpp"
#include "heed/attention/cached_attention.hpp"
#include "heed/attention/cached_plan.hpp"
#include "option_cases.hpp"

namespace {

using namespace heed;
using namespace heed::test;
using FuzzedDraw = DrawFrom<ByteChoices>;

/// The numbers as a cache with 16-bit storage holds them, by Eigen's own conversions.
void round_to(Matrix<float>& x, KvStorage storage) {
  if (storage == KvStorage::bfloat16) x = x.cast<Eigen::bfloat16>().cast<float>();
  if (storage == KvStorage::float16) x = x.cast<Eigen::half>().cast<float>();
}

/// Tokens [first, first + count) of a sequence are appended.
template <class T>
void append(KvCache<T>& cache, const Poured<T>& in, const Problem& p, Index b, Index first, Index count) {
  const Index row = p.shape.kv_start(b) + first;
  cache.append_to(b, in.key.middleRows(row, count), in.value.middleRows(row, count), p.rotary);
}

/// All tokens of a sequence in pieces, with tokens between them that are taken back where that is possible.
template <class T>
void append_all(FuzzedDraw& draw, KvCache<T>& cache, const Poured<T>& in, const Problem& p, Index b) {
  const Index keys = p.shape.kv_len_of(b);
  Index first = cache.kv_len(b);
  Index forks = 0;  // each copies the whole capacity
  while (first < keys) {
    const Index count = std::min(keys - first, 1 + draw.pick({0, 1, 2, 7, 50, 127, 128, 300}));
    append(cache, in, p, b, first, count);
    first += count;
    if (forks < 3 && draw.one_in(8)) {
      cache = cache.fork();
      ++forks;
    }
    if (!draw.one_in(6)) continue;
    const Index back = draw.below(std::min<Index>(first, 200) + 1);
    try {
      cache.truncate(b, first - back);
      first -= back;
    } catch (const RangeError&) {
      require_law(cache.shape().ring && cache.kv_len(b) == first,
                  "only a ring forgets, and a refusal changes nothing", p.to_string());
    }
  }
}

/// All tokens of a sequence; at times there were more, which are taken back. A ring that has lost what they
/// stood on says so, and is filled anew.
template <class T>
void fill(FuzzedDraw& draw, KvCache<T>& cache, const Poured<T>& in, const Problem& p, Index b) {
  append_all(draw, cache, in, p, b);
  const Index keys = p.shape.kv_len_of(b);
  const bool ring = cache.shape().ring;
  Index more = keys == 0 ? 0 : draw.pick({0, 0, 1, 7, 130, 300, 600});
  if (!ring) more = std::min(more, cache.shape().capacity - keys);
  if (more == 0) return;
  for (Index count = 0; more > 0; more -= count) {
    count = std::min(more, keys);
    const Index row = p.shape.kv_start(b);
    cache.append_to(b, in.key.middleRows(row, count), in.value.middleRows(row, count));
  }
  try {
    cache.truncate(b, keys);
  } catch (const RangeError&) {
    require_law(ring, "only a ring forgets", p.to_string());
    cache.truncate(b, 0);
    append_all(draw, cache, in, p, b);
  }
}

/// Whether a ring of this capacity lacks a key that a query may see by its position.
bool lacks_keys(const Problem& p, Index capacity) {
  for (Index b = 0; b < p.shape.batch_size; ++b) {
    const Index gone = p.shape.kv_len_of(b) - capacity;
    if (gone <= 0) continue;
    if (p.window.left == kUnlimited || p.position(b, 0) - p.window.left < gone) return true;
  }
  return false;
}

/// A plan over the cache has the same bits, or refuses what it must.
template <class T>
void check_plan(FuzzedDraw& draw, const Problem& p, const KvCache<T>& cache, const Poured<T>& in,
                const Matrix<T>& expected) {
  Mask mask;
  if (p.causal) mask = mask & causal();
  if (p.window.left != kUnlimited || p.window.right != kUnlimited)
    mask = mask & window(p.window.left, p.window.right);
  if (!p.slopes.empty()) mask = mask & alibi(p.slopes);
  const Index tokens = p.shape.query_len + draw.below(3);
  Matrix<T> out(in.query.rows(), expected.cols());
  try {
    const CachedAttentionPlan<T> plan(cache.shape(), p.shape.num_heads, tokens, mask,
                                      detail::score_options(in.options), 1 + draw.below(3));
    plan.check_tensors(view(in.query), cache, mutable_view(out));
    const ExactMemory workspace(plan.workspace_bytes());
    plan.run(view(in.query), cache, mutable_view(out), workspace.data());
  } catch (const ShapeError& error) {
    const std::vector<Index>& lengths = cache.lengths();
    const KvCacheOptions& shape = cache.shape();
    const bool too_few =
        std::any_of(lengths.begin(), lengths.end(), [&](Index n) { return n < p.shape.query_len; });
    const bool lacks = shape.ring && (p.window.left == kUnlimited || p.window.left > shape.capacity - tokens);
    require_law(too_few || lacks || tokens < 1 || tokens > shape.capacity || p.rotary, error.what(),
                p.to_string());
    return;
  }
  require_law(same_bits(expected, out), "a plan over the cache has its bits", p.to_string());
}

template <class T>
void check_cache(FuzzedDraw& draw) {
  static ThreadPool pool(2);
  Problem p = draw.problem(draw.pick({1000, 10000, 60000}));
  KvCacheOptions shape;
  shape.batch_size = p.shape.batch_size;
  shape.num_kv_heads = p.shape.num_kv_heads;
  shape.head_dim = p.shape.head_dim;
  shape.value_dim = p.shape.value_dim;
  shape.capacity = p.shape.kv_len + draw.below(4);
  shape.ring = draw.one_in(2);
  if (shape.ring) {
    shape.capacity = 1 + draw.below(p.shape.kv_len + 3);
    // Without a window a ring is of no use.
    if (!draw.one_in(8)) p.window.left = draw.below(shape.capacity);
    if (draw.one_in(2)) p.causal = true;
  }
  if (std::is_same_v<T, float> && draw.one_in(2)) {
    shape.storage = draw.one_in(2) ? KvStorage::bfloat16 : KvStorage::float16;
    p.rotary.reset();  // keys are rounded when they are turned
    round_to(p.in.key, shape.storage);
    round_to(p.in.value, shape.storage);
  }
  // What a cache takes for granted. A rotary wants positions from 0.
  if (p.stand == Stand::unsaid) p.stand = Stand::bottom_right;
  for (Index b = 0; b < p.shape.batch_size; ++b) {
    if (p.rotary && p.shape.query_len_of(b) > 0 && p.position(b, 0) < 0) p.rotary.reset();
  }
  Poured<T> in(p);
  const Matrix<T> expected = in.run_alone();

  KvCache<T> cache(shape);
  for (Index b = 0; b < shape.batch_size; ++b) fill(draw, cache, in, p, b);
  if (shape.batch_size > 1 && draw.one_in(3)) {  // a sequence is lost, and comes back
    const Index lost = draw.below(shape.batch_size);
    cache.copy_sequence(draw.below(shape.batch_size), lost);
    cache.truncate(lost, 0);
    fill(draw, cache, in, p, lost);
  }
  AttentionOptions options = in.options;
  options.kv_starts.clear();
  if (draw.one_in(2)) options.executor = &pool;
  Matrix<T> out;
  try {
    out = scaled_dot_product_attention(in.query, cache, options);
  } catch (const ShapeError& error) {
    require_law(shape.ring && lacks_keys(p, shape.capacity), error.what(), p.to_string());
    return;
  }
  const std::string kind = " cache of " + std::to_string(shape.capacity) +
                           (shape.ring ? ", a ring, " : ", ") +
                           std::to_string(static_cast<int>(shape.storage));
  require_law(same_bits(expected, out), "a cache has the bits of the full pass", p.to_string() + kind);
  if (p.stand == Stand::bottom_right && p.matrices.empty() && p.lengths.empty() &&
      p.shape.query_starts.empty() && draw.one_in(2))
    check_plan(draw, p, cache, in, expected);
  if (draw.one_in(2)) {
    ColumnSums<T> sums;
    require_law(same_bits(expected, observe_attention(in.query, cache, options, {&sums})),
                "observers of a cache change no bit", p.to_string() + kind);
  }
  if (draw.one_in(2)) {
    const auto same = [](T score, Index, Index, Index, Index) { return score; };
    const auto all = visible_where([](Index, Index, Index, Index) { return true; });
    require_law(same_bits(expected, flex_attention(in.query, cache, same, all, options)),
                "functions that change nothing change no bit", p.to_string() + kind);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDraw draw(ByteChoices(data, size));
  if (draw.one_in(2)) {
    check_cache<double>(draw);
  } else {
    check_cache<float>(draw);
  }
  return 0;
}
