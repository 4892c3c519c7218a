// A libFuzzer target: attention and its gradients with any combination of options, against the naive loops
// and against itself on other ways to the same result.

#include "byte_choices.hpp"
#include "exact_memory.hpp"
#include "heed/attention/observe_attention.hpp"
#include "option_accuracy.hpp"
#include "option_gradients.hpp"

namespace {

using namespace heed;
using namespace heed::test;
using FuzzedDraw = DrawFrom<ByteChoices>;

/// Positions and windows at the ends of their type.
void make_extreme(FuzzedDraw& draw, Problem& p) {
  constexpr Index most = std::numeric_limits<Index>::max();
  const std::vector<Index> far = {most,           most - 1,       Index{1} << 62, Mask::kMaxOffset,
                                  Index{1} << 41, Index{1} << 32, 1000,           0};
  if (draw.one_in(2)) p.window.left = draw.pick(far);
  if (draw.one_in(2)) p.window.right = draw.pick(far);
  if (p.rotary || !p.slopes.empty()) {
    if (p.stand == Stand::unsaid) p.stand = Stand::top_left;
    return;
  }
  p.stand = Stand::offsets;
  p.offsets.resize(draw.one_in(2) ? 1 : static_cast<std::size_t>(p.shape.batch_size));
  // The last query's position is still an Index, and so is that of a part's first one.
  const Index farthest = p.scored || p.restricted ? Mask::kMaxOffset : most - 1000;
  for (Index& offset : p.offsets) {
    offset = std::min(draw.pick(far), farthest) - draw.below(2);
    if (draw.one_in(2)) offset = -offset;
  }
}

template <class T, int Order = Eigen::RowMajor>
AttentionResult<T> run(const Problem& p, Executor* executor = nullptr) {
  Poured<T, Order> in(p);
  in.options.executor = executor;
  AttentionResult<T> result;
  result.out.resize(p.shape.query_rows(), p.shape.num_heads * p.shape.value_dim);
  result.weights.resize(p.shape);
  result.logsumexp.resize(p.shape.query_rows(), p.shape.num_heads);
  AttentionTensors<T> tensors = detail::input_tensors(in.query, in.key, in.value);
  tensors.out = mutable_view(result.out);
  tensors.weights = mutable_view(result.weights.stacked);
  tensors.logsumexp = mutable_view(result.logsumexp);
  with_functions<T>(p, [&](const ScoreFunctions<T>& functions) {
    detail::run_attention(p.shape, in.options, tensors, functions);
  });
  return result;
}

/// A plan's run in memory of exactly its workspace's size, on matrices with awkward strides, the biases' too.
template <class T>
void check_plan(FuzzedDraw& draw, const Problem& p, const AttentionResult<T>& expected) {
  const Index step = 1 + draw.below(3);
  Poured<T> in(p);
  Mask mask;
  {
    // The problem's mask without its matrices, to which those with strides are added.
    Problem bare = p;
    bare.matrices.clear();
    mask = Poured<T>(bare).options.mask;
  }
  std::deque<AwkwardMatrix<T>> biases;
  std::deque<AwkwardMatrix<unsigned char>> bytes;
  for (const MaskMatrixCase& m : p.matrices) {
    if (m.kind == MaskMatrix::Kind::bias) {
      auto map = biases.emplace_back(m.numbers.template cast<T>(), step).map();
      mask = mask & bias(view(map), m.per);
      continue;
    }
    const auto map = bytes.emplace_back((m.numbers.array() != 0).template cast<unsigned char>(), step).map();
    const MatrixView<const bool> flags = {reinterpret_cast<const bool*>(map.data()), map.rows(), map.cols(),
                                          map.rowStride(), map.colStride()};
    mask = mask & (m.kind == MaskMatrix::Kind::keep ? keep_where(flags, m.per) : drop_where(flags, m.per));
  }
  AwkwardMatrix<T> query(in.query, step);
  AwkwardMatrix<T> key(in.key, step);
  AwkwardMatrix<T> value(in.value, step);
  AwkwardMatrix<T> sheet(Matrix<T>::Zero(expected.out.rows(), expected.out.cols()), step);
  auto query_map = query.map();
  auto key_map = key.map();
  auto value_map = value.map();
  auto out = sheet.map();
  AttentionTensors<T> tensors = detail::input_tensors(query_map, key_map, value_map);
  tensors.out = mutable_view(out);
  with_functions<T>(p, [&](const ScoreFunctions<T>& functions) {
    const AttentionPlan<T> plan(p.shape, mask, detail::score_options(in.options), 1 + draw.below(3),
                                functions);
    plan.check_tensors(tensors);
    const ExactMemory workspace(plan.workspace_bytes());
    plan.run(tensors, workspace.data());
  });
  require_law(same_bits(expected.out, out), "strides and exact memory change no bit", p.to_string());
}

/// Observers see the weights that a result has.
template <class T>
void check_observers(const Problem& p, const AttentionResult<T>& expected) {
  const Poured<T> in(p);
  ColumnSums<T> sums;
  TopWeights<T> top(3);
  const Matrix<T> out = observe_attention(in.query, in.key, in.value, in.options, {&sums, &top});
  require_law(same_bits(expected.out, out), "observers change no bit", p.to_string());
  Matrix<T> expected_sums = Matrix<T>::Zero(sums.sums.rows(), sums.sums.cols());
  const AttentionShape& s = p.shape;
  bool tops_are_largest = true;  // said once: to write a problem down takes time
  for (Index b = 0; b < s.batch_size; ++b) {
    for (Index h = 0; h < s.num_heads; ++h) {
      for (Index i = 0; i < s.query_len_of(b); ++i) {
        const auto weights = expected.weights.head(h, b).row(i);
        expected_sums.row(b * s.num_heads + h).head(weights.size()) += weights;
        const Index row = s.stacked_row(b, h, i);
        const T largest = weights.size() == 0 ? T(0) : weights.maxCoeff();
        tops_are_largest = tops_are_largest && top.weights(row, 0) == largest;
      }
    }
  }
  require_law(tops_are_largest, "the first of the top weights is the largest", p.to_string());
  require_law(same_bits(expected_sums, sums.sums), "sums of columns are those of the weights", p.to_string());
}

template <class T>
void check_forward(FuzzedDraw& draw) {
  static ThreadPool pool(3);
  Problem p = draw.problem(draw.pick({1000, 4000, 20000}));
  if (draw.one_in(4)) p.scored = true;
  if (draw.one_in(4)) p.restricted = true;
  if (draw.one_in(4)) make_extreme(draw, p);
  p.stand_somewhere();
  const AttentionResult<T> result = run<T>(p);
  const Excess excess = excess_of(p, result);
  require_law(excess.out <= 1 && excess.weights <= 1 && excess.logsumexp <= 1,
              "an element is as exact as the contract says",
              p.to_string() + "\nout " + std::to_string(excess.out) + ", weights " +
                  std::to_string(excess.weights) + ", logsumexp " + std::to_string(excess.logsumexp) +
                  " times what is allowed");
  require_law(same_results(result, run<T, Eigen::ColMajor>(p, &pool)),
              "storage order and threads change no bit", p.to_string());
  if (draw.one_in(2)) check_plan(draw, p, result);
  if (draw.one_in(2)) {
    Problem poisoned = p;
    poison_hidden(poisoned);
    require_law(same_results(result, run<T>(poisoned)), "what is hidden changes no bit", p.to_string());
  }
  if (p.scored || p.restricted) return;
  if (draw.one_in(2)) check_observers(p, result);
  if (p.shape.batch_size == 0) return;
  const Index b = draw.below(p.shape.batch_size);
  const Index rows = p.shape.query_len_of(b);
  if (rows == 0) return;
  const Index first = draw.below(rows);
  const Index count = 1 + draw.below(rows - first);
  std::optional<Index> head;
  if (draw.one_in(2)) head = draw.below(p.shape.num_heads);
  require_law(part_has_same_bits(p, result, b, head, first, count),
              "a part alone has the bits that it has in the whole", p.to_string());
}

template <class T>
void check_backward(FuzzedDraw& draw) {
  static ThreadPool pool(3);
  Problem p = draw.problem(draw.pick({1000, 4000, 20000}));
  if (draw.one_in(4)) make_extreme(draw, p);
  Loss<T> loss(p);
  const AttentionGradients<T> grads = loss.backward();
  const double excess = gradient_excess(p, grads);
  // Of sums over many rows it is luck whether the loops or the engine err more. What is wrong is wrong by far
  // more.
  require_law(excess <= 4, "gradients are as exact as those of the loops",
              p.to_string() + "\n" + std::to_string(excess) + " times what is allowed");
  Loss<T, Eigen::ColMajor> other(p);
  other.in.options.executor = &pool;
  require_law(same_gradients(grads, other.backward()),
              "storage order and threads change no bit of a gradient", p.to_string());
  if (draw.one_in(2)) {
    Problem poisoned = p;
    poison_hidden(poisoned);
    require_law(same_gradients(grads, Loss<T>(poisoned).backward()),
                "what is hidden changes no bit of a gradient", p.to_string());
  }
  if (draw.one_in(2)) {
    AttentionBackwardTensors<T> tensors = loss.tensors();
    const detail::GradientRoom<T> room(loss.in.options, tensors);
    const AttentionBackwardPlan<T> plan(p.shape, loss.in.options.mask, detail::score_options(loss.in.options),
                                        1 + draw.below(4));
    const ExactMemory workspace(plan.workspace_bytes());
    plan.run(tensors, workspace.data());
    require_law(same_gradients(grads, room.grads), "scratch memory may hold anything", p.to_string());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDraw draw(ByteChoices(data, size));
  switch (draw.below(4)) {
    case 0:
      check_forward<float>(draw);
      break;
    case 1:
      check_forward<double>(draw);
      break;
    case 2:
      check_backward<float>(draw);
      break;
    default:
      check_backward<double>(draw);
  }
  return 0;
}
