#pragma once

// Problems with any combination of options, each from one seed or from a fuzzer's bytes: what tests draw, cut
// into parts and pour into every scalar type. All numbers are floats, which every scalar type holds exactly.

#include <Eigen/Core>
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention.hpp"
#include "heed/core/random.hpp"
#include "helpers.hpp"

namespace heed::test {

/// A matrix of a mask: biases, or 1 where a matrix of bool is true.
struct MaskMatrixCase {
  MaskMatrix::Kind kind = MaskMatrix::Kind::bias;
  MaskRows per = MaskRows::nothing;
  bool row_for_all = false;  // one row for all queries of a block
  Matrix<float> numbers;

  bool per_head() const { return per == MaskRows::head || per == MaskRows::head_of_sequence; }
  bool per_sequence() const { return per == MaskRows::sequence || per == MaskRows::head_of_sequence; }

  Index row_of(const AttentionShape& s, Index sequence, Index head, Index query) const {
    Index block = per_sequence() ? sequence : 0;
    if (per_head()) block = block * s.num_heads + head;
    return row_for_all ? block : block * s.query_len + query;
  }

  bool hides(const AttentionShape& s, Index sequence, Index head, Index query, Index key) const {
    const float entry = numbers(row_of(s, sequence, head, query), key);
    if (kind == MaskMatrix::Kind::bias) return entry == -kInf<float>;
    return (entry != 0) == (kind == MaskMatrix::Kind::drop);
  }
};

/// A function of scores and a predicate that depend on all that they are told, and what the predicate lets
/// through of a tile. Positions may be any numbers.
inline constexpr auto some_score = [](auto score, Index sequence, Index head, Index query, Index key) {
  const auto mixed =
      static_cast<std::uint64_t>(5 * sequence + 3 * head + key) + 7 * static_cast<std::uint64_t>(query);
  return score + static_cast<decltype(score)>(mixed % 4) / 4;
};
inline constexpr auto some_predicate = [](Index sequence, Index head, Index query, Index key) {
  const auto mixed =
      static_cast<std::uint64_t>(sequence + 3 * head + key) + 2 * static_cast<std::uint64_t>(query);
  return key / 64 % 3 != 1 && mixed % 7 != 0;
};
inline constexpr auto some_predicate_may_see = [](Index, Index, Index, Index, Index first_key,
                                                  Index last_key) {
  return first_key / 64 % 3 != 1 || last_key / 64 != first_key / 64;
};

/// Where the queries are said to stand.
enum class Stand { unsaid, top_left, bottom_right, offsets };

struct Problem {
  std::uint64_t seed = 0;
  AttentionShape shape;
  Inputs<float> in;
  bool causal = false;
  Mask::Window window;
  Stand stand = Stand::unsaid;
  std::vector<Index> offsets;  // for Stand::offsets: one for all sequences, or one for each
  std::vector<Index> lengths;  // kv_lengths, or empty
  std::vector<MaskMatrixCase> matrices;
  std::vector<double> slopes;
  std::optional<double> scale;
  double softcap = 0;
  std::vector<double> sinks;
  std::optional<Rotary> rotary;
  bool scored = false;      // by some_score
  bool restricted = false;  // by some_predicate

  bool positions_matter() const {
    return causal || window.left != kUnlimited || window.right != kUnlimited || !slopes.empty() || rotary ||
           scored || restricted;
  }
  /// Says where queries stand, if that matters, or is about to, and nothing says it.
  void stand_somewhere(bool will_matter = false) {
    bool unequal = false;
    for (Index b = 0; b < shape.batch_size; ++b) unequal |= shape.query_len_of(b) != shape.kv_len_of(b);
    if (stand == Stand::unsaid && unequal && (positions_matter() || will_matter)) stand = Stand::bottom_right;
  }
  Index keys_of(Index sequence) const {
    return lengths.empty() ? shape.kv_len_of(sequence) : lengths[static_cast<std::size_t>(sequence)];
  }
  /// Where a query stands, whatever the offset.
  __int128 place(Index sequence, Index query) const {
    __int128 place = query;
    if (stand == Stand::bottom_right) place += keys_of(sequence) - shape.query_len_of(sequence);
    if (stand == Stand::offsets)
      place += offsets[offsets.size() > 1 ? static_cast<std::size_t>(sequence) : 0];
    return place;
  }
  /// The same as slopes, rotaries and functions are told it: they have no offset that is farther away.
  Index position(Index sequence, Index query) const {
    const __int128 far = Mask::kMaxOffset + query;
    return static_cast<Index>(std::clamp(place(sequence, query), -far, far));
  }

  /// The contract's rule of visibility, from the problem's own data.
  bool sees(Index sequence, Index head, Index query, Index key) const {
    const __int128 p = place(sequence, query);
    if (key >= keys_of(sequence)) return false;
    if (causal && key > p) return false;
    if (window.left != kUnlimited && p - key > window.left) return false;
    if (window.right != kUnlimited && key - p > window.right) return false;
    if (restricted && !some_predicate(sequence, head, position(sequence, query), key)) return false;
    return std::none_of(matrices.begin(), matrices.end(),
                        [&](const MaskMatrixCase& m) { return m.hides(shape, sequence, head, query, key); });
  }

  /// Queries [first, first + rows) of one sequence, of all heads or of one, as a problem of its own.
  Problem part(Index sequence, std::optional<Index> head, Index first, Index rows) const;

  /// For messages: seed, sizes and options.
  std::string to_string() const;
};

inline Problem Problem::part(Index sequence, std::optional<Index> head, Index first, Index rows) const {
  const Index group = shape.num_heads / shape.num_kv_heads;
  const Index keys = shape.kv_len_of(sequence);
  const auto of_head = [&](const std::vector<double>& all) {
    if (all.empty() || !head) return all;
    return std::vector<double>{all[static_cast<std::size_t>(*head)]};
  };
  const auto columns = [&](const Matrix<float>& m, Index row, Index count, Index one, Index dim) {
    return Matrix<float>(m.block(row, head ? one * dim : 0, count, head ? dim : m.cols()));
  };
  Problem p = *this;
  p.shape = {1, shape.num_heads, shape.num_kv_heads, rows, keys, shape.head_dim, shape.value_dim, {}, {}};
  if (head) p.shape.num_heads = p.shape.num_kv_heads = 1;
  const Index one = head.value_or(0);
  const Index start = shape.kv_start(sequence);
  p.in.query = columns(in.query, shape.query_start(sequence) + first, rows, one, shape.head_dim);
  p.in.key = columns(in.key, start, keys, one / group, shape.head_dim);
  p.in.value = columns(in.value, start, keys, one / group, shape.value_dim);
  p.stand = Stand::offsets;
  p.offsets = {static_cast<Index>(place(sequence, first))};
  if (!lengths.empty()) p.lengths = {keys_of(sequence)};
  p.slopes = of_head(slopes);
  p.sinks = of_head(sinks);
  for (std::size_t n = 0; n < matrices.size(); ++n) {
    const MaskMatrixCase& from = matrices[n];
    MaskMatrixCase& to = p.matrices[n];
    const bool by_head = from.per_head() && !head;
    to.per = by_head ? MaskRows::head : MaskRows::nothing;
    const Index block_rows = from.row_for_all ? 1 : rows;
    const Index blocks = by_head ? shape.num_heads : 1;
    to.numbers.resize(blocks * block_rows, keys);
    for (Index block = 0; block < blocks; ++block) {
      for (Index i = 0; i < block_rows; ++i) {
        to.numbers.row(block * block_rows + i) =
            from.numbers.row(from.row_of(shape, sequence, head ? one : block, first + i)).leftCols(keys);
      }
    }
  }
  return p;
}

/// A problem's matrices in one scalar type and storage order, and the options that look at them.
template <class T, int Order = Eigen::RowMajor>
struct Poured {
  using M = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>;
  using Flags = Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic, Order>;

  M query;
  M key;
  M value;
  std::deque<M> biases;
  std::deque<Flags> flags;
  AttentionOptions options;

  explicit Poured(const Problem& p)
      : query(p.in.query.cast<T>()), key(p.in.key.cast<T>()), value(p.in.value.cast<T>()) {
    Mask mask;
    if (p.causal) mask = mask & causal();
    if (p.window.left != kUnlimited || p.window.right != kUnlimited)
      mask = mask & window(p.window.left, p.window.right);
    if (p.stand == Stand::top_left) mask = mask & top_left();
    if (p.stand == Stand::bottom_right) mask = mask & bottom_right();
    if (p.stand == Stand::offsets)
      mask = mask & (p.offsets.size() == 1 ? query_offset(p.offsets[0]) : query_offsets(p.offsets));
    if (!p.lengths.empty()) mask = mask & kv_lengths(p.lengths);
    for (const MaskMatrixCase& m : p.matrices) {
      if (m.kind == MaskMatrix::Kind::bias) {
        biases.push_back(m.numbers.cast<T>());
        mask = mask & bias(biases.back(), m.per);
      } else {
        flags.push_back((m.numbers.array() != 0).matrix());
        mask = mask & (m.kind == MaskMatrix::Kind::keep ? keep_where(flags.back(), m.per)
                                                        : drop_where(flags.back(), m.per));
      }
    }
    if (!p.slopes.empty()) mask = mask & alibi(p.slopes);
    options.mask = mask;
    options.scale = p.scale;
    options.softcap = p.softcap;
    options.sinks = p.sinks;
    options.rotary = p.rotary;
    options.num_heads = p.shape.num_heads;
    options.num_kv_heads = p.shape.num_kv_heads;
    options.batch_size = p.shape.batch_size;
    options.query_starts = p.shape.query_starts;
    options.kv_starts = p.shape.kv_starts;
  }
  Poured(const Poured&) = delete;  // the mask points into this object
  Poured& operator=(const Poured&) = delete;

  AttentionResult<T> run() const {
    return scaled_dot_product_attention_with_weights(query, key, value, options);
  }
  Matrix<T> run_alone() const { return scaled_dot_product_attention(query, key, value, options); }
};

inline std::string Problem::to_string() const {
  const Poured<float> poured(*this);
  const auto list = [](const std::vector<Index>& numbers) {
    std::string text;
    for (const Index n : numbers) text.append(1, ' ').append(std::to_string(n));
    return text;
  };
  std::string text = "seed " + std::to_string(seed) + ": batch " + std::to_string(shape.batch_size) +
                     ", heads " + std::to_string(shape.num_heads) + "/" + std::to_string(shape.num_kv_heads) +
                     ", queries " + std::to_string(shape.query_len) + ", keys " +
                     std::to_string(shape.kv_len) + ", dims " + std::to_string(shape.head_dim) + " and " +
                     std::to_string(shape.value_dim) + ", mask " + poured.options.mask.to_string();
  if (!shape.query_starts.empty()) text += ", query_starts" + list(shape.query_starts);
  if (!shape.kv_starts.empty()) text += ", kv_starts" + list(shape.kv_starts);
  if (scale) text += ", scale " + std::to_string(*scale);
  if (softcap > 0) text += ", softcap " + std::to_string(softcap);
  if (!sinks.empty()) text += ", sinks";
  if (rotary) text += ", " + rotary->to_string();
  return text;
}

/// Choices made by a generator, from one seed.
class RandomChoices {
 public:
  explicit RandomChoices(std::uint64_t seed) : seed_(seed), random_(seed) {}

  std::uint64_t seed() const { return seed_; }
  Index below(Index n) { return static_cast<Index>(random_.next_word()) % n; }
  /// What fills matrices.
  Random& random() { return random_; }

 private:
  std::uint64_t seed_;
  Random random_;
};

/// Draws problems. Two draws from the same choices are the same.
template <class Choices>
class DrawFrom {
 public:
  explicit DrawFrom(const Choices& choices) : choices_(choices) {}

  /// max_work bounds batch * heads * queries * keys * (head_dim + value_dim).
  Problem problem(Index max_work) {
    Problem p;
    p.seed = choices_.seed();
    sizes(p, max_work);
    const double bound = one_in(3) ? 2 : 1;
    p.in.query = numbers(p.shape.query_rows(), p.shape.num_heads * p.shape.head_dim, bound);
    p.in.key = numbers(p.shape.kv_rows(), p.shape.num_kv_heads * p.shape.head_dim, bound);
    p.in.value = numbers(p.shape.kv_rows(), p.shape.num_kv_heads * p.shape.value_dim, bound);
    p.causal = one_in(3);
    if (one_in(3)) p.window = {pick({0, 1, 3, 20, 130, kUnlimited}), pick({0, 0, 1, 5, 40, kUnlimited})};
    const bool padded = one_in(4);
    for (Index b = 0; padded && b < p.shape.batch_size; ++b)
      p.lengths.push_back(below(p.shape.kv_len_of(b) + 1));
    for (Index n = pick({0, 0, 0, 1, 1, 2, 3}); n > 0; --n) p.matrices.push_back(matrix(p.shape));
    const bool sloping = one_in(4);
    for (Index h = 0; sloping && h < p.shape.num_heads; ++h) p.slopes.push_back(number(0, 0.5));
    const bool sinking = one_in(4);
    for (Index h = 0; sinking && h < p.shape.num_heads; ++h) p.sinks.push_back(number(-2, 2));
    if (one_in(4)) p.softcap = one_in(2) ? 0.75 : 15;
    if (one_in(4)) {
      p.scale = static_cast<float>((static_cast<double>(below(6)) * 0.5 - 1) /
                                   std::sqrt(static_cast<double>(p.shape.head_dim)));
    }
    const bool turning = p.shape.head_dim > 1 && one_in(3);
    stand(p, turning);
    if (turning) rotary(p);
    return p;
  }

  Index below(Index n) { return choices_.below(n); }
  bool one_in(Index n) { return below(n) == 0; }
  double number(double low, double high) { return static_cast<float>(choices_.random().uniform(low, high)); }
  Index pick(const std::vector<Index>& of) {
    return of[static_cast<std::size_t>(below(static_cast<Index>(of.size())))];
  }
  Random& random() { return choices_.random(); }

 private:
  /// Around the edges of the tiles: 128 keys of double, 256 of float.
  Index length() {
    return one_in(2) ? below(40) : pick({0, 1, 1, 2, 64, 127, 128, 129, 255, 256, 257, 300, 520});
  }
  Index queries() { return one_in(2) ? below(20) : pick({0, 1, 1, 2, 4, 5, 6, 12, 13, 49, 100, 290}); }

  std::vector<Index> starts(Index batch, Index& longest, bool of_keys) {
    std::vector<Index> all = {0};
    longest = 0;
    for (Index b = 0; b < batch; ++b) {
      const Index n = of_keys ? length() : queries();
      longest = std::max(longest, n);
      all.push_back(all.back() + n);
    }
    return all;
  }

  void sizes(Problem& p, Index max_work) {
    AttentionShape& s = p.shape;
    for (;;) {
      s = {};
      s.batch_size = pick({1, 1, 1, 2, 3, 4});
      s.num_kv_heads = pick({1, 1, 2, 3});
      s.num_heads = s.num_kv_heads * pick({1, 1, 2, 4});
      s.head_dim = pick({1, 5, 8, 16, 20, 64});
      s.value_dim = pick({1, 3, 8, 16, 24, 33, 64});
      s.query_len = queries();
      s.kv_len = one_in(4) ? s.query_len : length();
      if (one_in(3)) s.query_starts = starts(s.batch_size, s.query_len, false);
      if (one_in(3)) s.kv_starts = starts(s.batch_size, s.kv_len, true);
      Index pairs = 0;
      for (Index b = 0; b < s.batch_size; ++b) pairs += s.query_len_of(b) * s.kv_len_of(b);
      if (pairs * s.num_heads * (s.head_dim + s.value_dim) <= max_work) return;
    }
  }

  Matrix<float> numbers(Index rows, Index cols, double bound) {
    Matrix<float> m(rows, cols);
    for (Index i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(random().uniform(-bound, bound));
    return m;
  }

  MaskMatrixCase matrix(const AttentionShape& s) {
    MaskMatrixCase m;
    m.kind = static_cast<MaskMatrix::Kind>(below(3));
    m.per = static_cast<MaskRows>(below(4));
    m.row_for_all = one_in(3);
    const Index blocks = (m.per_head() ? s.num_heads : 1) * (m.per_sequence() ? s.batch_size : 1);
    const bool is_bias = m.kind == MaskMatrix::Kind::bias;
    const float hidden = is_bias ? -kInf<float> : m.kind == MaskMatrix::Kind::drop ? 1.0f : 0.0f;
    const float visible = m.kind == MaskMatrix::Kind::keep ? 1.0f : 0.0f;
    m.numbers = numbers(blocks * (m.row_for_all ? 1 : s.query_len), s.kv_len, 2);
    // Some keys are hidden here and there, some rows altogether, and some keys from everybody, whole tiles of
    // them at times.
    const Index seldom = pick({2, 5, 50});
    for (Index i = 0; i < m.numbers.size(); ++i) {
      float& entry = m.numbers.data()[i];
      entry = random_one_in(seldom) ? hidden : is_bias ? entry : visible;
    }
    for (Index i = 0; i < m.numbers.rows(); ++i) {
      if (random_one_in(8)) m.numbers.row(i).setConstant(hidden);
    }
    if (one_in(4)) m.numbers.leftCols(below(s.kv_len + 1)).setConstant(hidden);
    if (one_in(4)) m.numbers.rightCols(below(s.kv_len + 1)).setConstant(hidden);
    return m;
  }

  void stand(Problem& p, bool turning) {
    const AttentionShape& s = p.shape;
    p.stand = static_cast<Stand>(below(4));
    p.stand_somewhere(turning);
    if (p.stand != Stand::offsets) return;
    const Index count = one_in(2) ? 1 : s.batch_size;
    for (Index b = 0; b < count; ++b) {
      p.offsets.push_back(one_in(4) ? -below(s.query_len_of(b) + 3)
                                    : below(std::max<Index>(3, s.kv_len_of(b) - s.query_len_of(b) / 2 + 3)));
    }
  }

  void rotary(Problem& p) {
    Index positions = 1;
    for (Index b = 0; b < p.shape.batch_size; ++b) {
      positions = std::max({positions, p.position(b, 0) + p.shape.query_len_of(b), 1 - p.position(b, 0),
                            p.shape.kv_len_of(b)});
    }
    RotaryOptions options;
    options.layout = one_in(2) ? RotaryLayout::half_split : RotaryLayout::interleaved;
    options.base = one_in(2) ? 10000 : 50;
    options.offset = pick({0, 0, 3});
    p.rotary.emplace(2 * (1 + below(p.shape.head_dim / 2)), positions, options);
  }

  /// For each of many elements, too many for a fuzzer to choose.
  bool random_one_in(Index n) { return static_cast<Index>(random().next_word()) % n == 0; }

  Choices choices_;
};

class Draw : public DrawFrom<RandomChoices> {
 public:
  explicit Draw(std::uint64_t seed) : DrawFrom(RandomChoices(seed)) {}
};

}  // namespace heed::test
