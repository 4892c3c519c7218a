// A libFuzzer target: options, sizes and matrices of which some make no sense. Attention, gradients, plans
// and caches refuse them with Heed's exceptions, before anything is written, or give what the naive loops
// give.

#include "byte_choices.hpp"
#include "heed/attention/cached_attention.hpp"
#include "option_accuracy.hpp"
#include "option_gradients.hpp"

namespace {

using namespace heed;
using namespace heed::test;
using FuzzedDraw = DrawFrom<ByteChoices>;

Index any_size(FuzzedDraw& draw) {
  constexpr Index most = std::numeric_limits<Index>::max();
  return draw.pick({0,
                    1,
                    2,
                    3,
                    4,
                    5,
                    7,
                    8,
                    -1,
                    -2,
                    255,
                    256,
                    Index{1} << 16,
                    Index{1} << 31,
                    (Index{1} << 31) + 1,
                    Index{1} << 32,
                    Index{1} << 41,
                    Index{1} << 61,
                    Index{1} << 62,
                    most,
                    most - 1,
                    -most,
                    -most - 1});
}

double any_number(FuzzedDraw& draw) {
  constexpr double numbers[] = {0,
                                -0.0,
                                1,
                                -1,
                                0.5,
                                30,
                                1e-30,
                                1e-45,
                                1e-50,
                                1e-320,
                                3e38,
                                3.5e38,
                                1e300,
                                -1e300,
                                HUGE_VAL,
                                -HUGE_VAL,
                                std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::max()};
  return numbers[draw.below(std::size(numbers))];
}

template <class V, class F>
void change_list(FuzzedDraw& draw, std::vector<V>& list, const F& any) {
  switch (draw.below(4)) {
    case 0:
      list.resize(static_cast<std::size_t>(draw.below(6)));
      break;
    case 1:
      list.push_back(any(draw));
      break;
    default:
      if (!list.empty()) list[static_cast<std::size_t>(draw.below(std::ssize(list)))] = any(draw);
  }
}

/// One thing about the problem is changed to anything.
void change(FuzzedDraw& draw, Problem& p) {
  AttentionShape& s = p.shape;
  const auto other_size = [&](Index size) {
    return std::max<Index>(0, size + draw.pick({-1, 1, 2, -size, size}));
  };
  const auto resize = [&](Matrix<float>& m) {
    const bool rows = draw.one_in(2);
    m = Matrix<float>::Constant(rows ? other_size(m.rows()) : m.rows(),
                                rows ? m.cols() : other_size(m.cols()), 0.5F);
  };
  switch (draw.below(18)) {
    case 0:
      s.num_heads = any_size(draw);
      break;
    case 1:
      s.num_kv_heads = any_size(draw);
      break;
    case 2:
      s.batch_size = any_size(draw);
      break;
    case 3:
      change_list(draw, s.query_starts, any_size);
      break;
    case 4:
      change_list(draw, s.kv_starts, any_size);
      break;
    case 5:
      change_list(draw, p.lengths, any_size);
      break;
    case 6:
      p.window.left = any_size(draw);
      break;
    case 7:
      p.window.right = any_size(draw);
      break;
    case 8:
      p.stand = Stand::offsets;
      change_list(draw, p.offsets, any_size);
      break;
    case 9:
      p.stand = static_cast<Stand>(draw.below(3));
      break;
    case 10:
      change_list(draw, p.slopes, any_number);
      break;
    case 11:
      change_list(draw, p.sinks, any_number);
      break;
    case 12:
      p.scale = any_number(draw);
      break;
    case 13:
      p.softcap = any_number(draw);
      break;
    case 14:
      if (!p.matrices.empty()) {
        resize(p.matrices.back().numbers);
      } else {
        p.causal = true;
      }
      break;
    case 15:
      resize(p.in.query);
      break;
    case 16:
      resize(p.in.key);
      break;
    default:
      resize(p.in.value);
  }
}

/// Options may be of use and yet so large or small that no naive loop is a measure.
bool measurable(const Problem& p) {
  const auto moderate = [](double x) { return x == 0 || (std::abs(x) >= 0.01 && std::abs(x) <= 40); };
  const auto all = [&](const std::vector<double>& list) {
    return std::all_of(list.begin(), list.end(), moderate);
  };
  return moderate(p.softcap) && moderate(p.scale.value_or(1)) && all(p.slopes) && all(p.sinks);
}

/// Sizes as the engine takes them from matrices and options that it has accepted.
template <class T>
AttentionShape shape_of(const Poured<T>& in) {
  return detail::checked_shape(detail::input_tensors(in.query, in.key, in.value), in.options);
}

template <class T>
void check_changed(FuzzedDraw& draw) {
  Problem p = draw.problem(2000);
  for (Index n = 1 + draw.below(3); n > 0; --n) change(draw, p);
  // Positions that draws take care of themselves.
  const Index rows = p.in.query.rows();
  const Index cols =
      draw.one_in(4) ? draw.below(100) : p.shape.value_dim * std::clamp<Index>(p.shape.num_heads, 1, 12);
  Matrix<T> out = Matrix<T>::Constant(rows, cols, T(7));
  std::optional<Poured<T>> in;
  try {
    in.emplace(p);
    scaled_dot_product_attention_into(in->query, in->key, in->value, out, in->options);
  } catch (const Error&) {
    require_law((out.array() == T(7)).all(), "nothing is written before an error");
    return;
  }
  p.shape = shape_of(*in);
  for (MaskMatrixCase& m : p.matrices) {
    const Index blocks = (m.per_head() ? p.shape.num_heads : 1) * (m.per_sequence() ? p.shape.batch_size : 1);
    m.row_for_all = m.numbers.rows() == blocks;
  }
  const AttentionResult<T> result = in->run();
  require_law(same_bits(out, result.out), "weights change no bit", p.to_string());
  const Loss<T> loss(p);
  const AttentionGradients<T> grads = loss.backward();
  if (!measurable(p)) return;
  const Excess excess = excess_of(p, result);
  require_law(excess.out <= 1 && excess.weights <= 1 && excess.logsumexp <= 1,
              "what is accepted is computed as the contract says",
              p.to_string() + "\nout " + std::to_string(excess.out) + ", weights " +
                  std::to_string(excess.weights) + ", logsumexp " + std::to_string(excess.logsumexp));
  require_law(gradient_excess(p, grads) <= 4, "and so are its gradients", p.to_string());
}

/// Plans of sizes for which there are no matrices: refused, or made without much memory.
template <class T>
void check_plan(FuzzedDraw& draw) {
  AttentionShape s;
  for (Index* size :
       {&s.batch_size, &s.num_heads, &s.num_kv_heads, &s.query_len, &s.kv_len, &s.head_dim, &s.value_dim})
    *size = draw.one_in(2) ? any_size(draw) : 1 + draw.below(8);
  const Index threads = draw.one_in(4) ? any_size(draw) : 1;
  if (s.batch_size > 1000 || threads > 1000) s.batch_size = any_size(draw);
  try {
    const Mask mask =
        draw.one_in(2) ? causal() & bottom_right() : window(draw.below(5), 0) & query_offset(any_size(draw));
    const AttentionPlan<T> plan(s, mask, {}, threads);
    require_law(!plan.to_string().empty(), "a plan says what it is");
    const AttentionBackwardPlan<T> backward(s, mask, {}, threads);
    require_law(backward.shape().batch_size == s.batch_size, "a plan keeps its sizes");
  } catch (const Error&) {
    // a refusal is a good answer
  }
}

/// Caches and rotary tables of any sizes and options, and what does not fit them.
template <class T>
void check_cache(FuzzedDraw& draw) {
  const auto small = [&] { return draw.one_in(6) ? any_size(draw) : 1 + draw.below(4); };
  try {
    RotaryOptions rotary_options;
    if (draw.one_in(3)) rotary_options.base = any_number(draw);
    if (draw.one_in(3)) rotary_options.offset = any_size(draw);
    if (draw.one_in(3)) rotary_options.linear_factor = any_number(draw);
    if (draw.one_in(3)) {
      rotary_options.llama3 =
          Llama3Scaling{any_number(draw), any_number(draw), any_number(draw), any_size(draw)};
    }
    // A table of that many is a fair wish, and one of more than any memory holds is not.
    const auto table_size = [&] {
      const Index size = small();
      return size > 100'000 && size < Index{1} << 60 ? Index{7} : size;
    };
    const Index pairs = table_size();
    const Rotary rotary(std::clamp<Index>(pairs, -9, std::numeric_limits<Index>::max() / 2) * 2, table_size(),
                        rotary_options);
    KvCacheOptions shape;
    shape.batch_size = small();
    shape.num_kv_heads = small();
    shape.head_dim = small();
    shape.value_dim = small();
    shape.capacity = small();
    shape.storage = static_cast<KvStorage>(draw.below(3));
    shape.ring = draw.one_in(2);
    // Tiles have at least 64 keys: what takes more than a few MB is a fair wish.
    double bytes = 8;
    for (const Index size : {shape.batch_size, shape.num_kv_heads, std::max(shape.head_dim, shape.value_dim),
                             std::max<Index>(shape.capacity, 300)})
      bytes *= std::max(1.0, static_cast<double>(size));
    if (bytes > 1e7 && bytes < 1e17) return;
    KvCache<T> cache(shape);
    const Matrix<T> key = Matrix<T>::Constant(draw.below(5), small() > 64 ? 3 : 1 + draw.below(8), T(0.5));
    const Matrix<T> value = Matrix<T>::Constant(draw.below(5), 1 + draw.below(8), T(0.5));
    std::vector<Index> lengths = cache.lengths();
    try {
      switch (draw.below(5)) {
        case 0:
          cache.append(key, value, rotary);
          break;
        case 1:
          cache.append_to(any_size(draw), key, value);
          break;
        case 2:
          cache.truncate(any_size(draw), any_size(draw));
          break;
        case 3:
          cache.copy_sequence(any_size(draw), any_size(draw));
          break;
        default: {
          AttentionOptions options;
          options.num_heads = small();
          options.mask = causal();
          if (draw.one_in(2)) options.mask = options.mask & window(any_size(draw), any_size(draw));
          if (draw.one_in(2)) options.mask = options.mask & query_offset(any_size(draw));
          if (draw.one_in(3)) change_list(draw, options.query_starts, any_size);
          if (draw.one_in(3)) options.rotary = rotary;
          (void)scaled_dot_product_attention(key, cache, options);
        }
      }
    } catch (const Error&) {
      require_law(cache.lengths() == lengths, "an error leaves the cache as it was");
    }
  } catch (const Error&) {
    // a refusal is a good answer
  }
}

template <class T>
void check(FuzzedDraw& draw) {
  switch (draw.below(4)) {
    case 0:
      check_plan<T>(draw);
      break;
    case 1:
      check_cache<T>(draw);
      break;
    default:
      check_changed<T>(draw);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDraw draw(ByteChoices(data, size));
  if (draw.one_in(2)) {
    check<double>(draw);
  } else {
    check<float>(draw);
  }
  return 0;
}
