// AttentionBackwardPlan: cuts the gradients of an attention into items of work, hands each to the kernel, and
// adds up what items share in a fixed order.

#include "heed/attention/backward_plan.hpp"

#include <algorithm>
#include <string>

#include "attention/block_mask.hpp"
#include "core/ceil_div.hpp"
#include "core/require.hpp"
#include "heed/core/error.hpp"
#include "heed/core/share_work.hpp"
#include "heed/core/workspace.hpp"
#include "kernels/kernels.hpp"
#include "kernels/strided_view.hpp"

namespace heed {

namespace {

constexpr Index round_up(Index n, Index step) {
  return ceil_div(n, step) * step;
}

/// Sums of a backward pass, and where they lie in a thread's part of the workspace, in elements.
template <class T>
struct Sums {
  Index head_cols;
  Index value_cols;
  Index query;
  Index key;
  Index value;
  Index size;

  Sums(const AttentionShape& shape, Index rows, Index keys) {
    const auto lanes = kernels::kernels_of<T>(kernels::table()).lanes;
    constexpr Index line = static_cast<Index>(Workspace::alignment / sizeof(T));
    head_cols = round_up(shape.head_dim, lanes);
    value_cols = round_up(shape.value_dim, lanes);
    query = 0;
    key = query + round_up(rows * head_cols, line);
    value = key + round_up(keys * head_cols, line);
    size = value + round_up(keys * value_cols, line);
  }
};

/// A bias is cut into parts that different threads may sum up: rows, or where all queries share a row, keys.
template <class T>
struct BiasParts {
  Index block_rows;
  Index step;    ///< Rows or keys of a part.
  Index chunks;  ///< Parts of a block.
  Index count;

  BiasParts(const AttentionShape& shape, const MaskMatrix& bias) {
    const auto& kernels = kernels::kernels_of<T>(kernels::table());
    const MaskSizes sizes = shape.mask_sizes();
    block_rows = bias.block_rows(sizes);
    step = a_row_each() ? kernels.backward_rows : kernels.key_tile;
    chunks = ceil_div(a_row_each() ? block_rows : shape.kv_len, step);
    count = bias.entries.cols == 0 ? 0 : bias.blocks(sizes) * chunks;
  }

  bool a_row_each() const { return block_rows > 1; }
};

/// Throws if the sums of `rows` rows of dim columns, padded, are more than there can be.
void require_sums(Index rows, Index dim, const char* what) {
  detail::require_product(rows, dim + Index{64}, what);
  detail::require_possible(rows * (dim + Index{64}), what);
}

}  // namespace

template <class T>
AttentionBackwardPlan<T>::AttentionBackwardPlan(const AttentionShape& shape, const Mask& mask,
                                                const ScoreOptions& options, Index threads)
    : shape_(shape), mask_(mask), options_(options), numbers_(shape, mask, options) {
  if (threads < 1) throw_argument_error("threads is " + std::to_string(threads) + ", it must be at least 1");
  require_sums(shape.query_len, shape.head_dim, "query_len * head_dim");
  require_sums(shape.kv_len, shape.head_dim, "kv_len * head_dim");
  require_sums(shape.kv_len, shape.value_dim, "kv_len * value_dim");
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  const Index groups = shape.batch_size * shape.num_kv_heads;
  chunk_keys_ = 0;
  chunk_rows_ = 0;
  Index items = groups;
  // Fewer groups of heads than threads: the rows and the keys of a head are worked on apart, which takes
  // seven products instead of five, but leaves no thread without work.
  if (groups > 0 && groups < threads) {
    const Index chunks = ceil_div(detail::kItemsPerThread * std::min(threads, detail::kMaxThreads), groups);
    const auto chunk_of = [&](Index length, Index step) {
      return std::max<Index>(1, ceil_div(ceil_div(length, step), chunks)) * step;
    };
    const Index keys = chunk_of(shape.kv_len, kernels.key_tile);
    const Index rows = chunk_of(shape.query_len, kernels.backward_rows);
    if (keys < shape.kv_len || rows < shape.query_len) {
      chunk_keys_ = keys;
      chunk_rows_ = rows;
      items = groups * ceil_div(shape.kv_len, keys) +
              shape.batch_size * shape.num_heads * ceil_div(shape.query_len, rows);
    }
  }
  for (const MaskMatrix& matrix : mask.matrices()) {
    if (matrix.kind == MaskMatrix::Kind::bias) items += BiasParts<T>(shape, matrix).count;
  }
  threads_ = std::clamp<Index>(std::min(threads, detail::kMaxThreads), 1, std::max<Index>(1, items));
  kernel_bytes_ = kernels.backward_bytes({shape.query_len, shape.kv_len, shape.head_dim, shape.value_dim,
                                          !mask.matrices().empty(), numbers_.rotary_table != nullptr,
                                          numbers_.softcap > T(0)});
  const Index sums = chunk_keys_ == 0
                         ? Sums<T>(shape, shape.query_len, shape.kv_len).size
                         : std::max(Sums<T>(shape, std::min(shape.query_len, chunk_rows_), 0).size,
                                    Sums<T>(shape, 0, std::min(shape.kv_len, chunk_keys_)).size);
  thread_bytes_ = kernel_bytes_ + static_cast<std::size_t>(sums) * sizeof(T);
}

template <class T>
std::size_t AttentionBackwardPlan<T>::workspace_bytes() const noexcept {
  const std::size_t sink_terms =
      numbers_.sinks.empty() ? 0
                             : static_cast<std::size_t>(shape_.query_rows() * shape_.num_heads) * sizeof(T);
  return static_cast<std::size_t>(threads_) * thread_bytes_ + sink_terms;
}

template <class T>
struct AttentionBackwardPlan<T>::Run {
  const AttentionBackwardPlan& plan;
  const AttentionBackwardTensors<T>& tensors;
  const AttentionShape& shape;
  const kernels::Kernels<T>& kernels;
  std::byte* workspace;
  T* sink_terms;
  Index group_heads;   ///< Query heads that share a key/value head.
  Index key_chunks;    ///< Chunks of keys of a group, at most; 0: the group is one item.
  Index query_chunks;  ///< Chunks of queries of a head.
  Index group_items;
  Index items;       ///< Items for the gradients of queries, keys and values.
  Index bias_items;  ///< Items for the biases, behind the others.
  bool keys_wanted;

  Run(const AttentionBackwardPlan& p, const AttentionBackwardTensors<T>& t, void* memory)
      : plan(p),
        tensors(t),
        shape(p.shape_),
        kernels(kernels::kernels_of<T>(kernels::table())),
        workspace(static_cast<std::byte*>(memory)),
        sink_terms(
            t.grad_sinks.empty()
                ? nullptr
                : reinterpret_cast<T*>(workspace + static_cast<std::size_t>(p.threads_) * p.thread_bytes_)),
        group_heads(shape.num_heads / shape.num_kv_heads),
        key_chunks(p.chunk_keys_ == 0 ? 0 : ceil_div(shape.kv_len, p.chunk_keys_)),
        query_chunks(p.chunk_keys_ == 0 ? 0 : ceil_div(shape.query_len, p.chunk_rows_)),
        group_items(p.chunk_keys_ == 0 ? 1 : key_chunks + group_heads * query_chunks),
        items(shape.query_rows() == 0 && shape.kv_rows() == 0
                  ? 0  // sequences of nothing, however many
                  : shape.batch_size * shape.num_kv_heads * group_items),
        bias_items(0),
        keys_wanted(!t.grad_key.empty() || !t.grad_value.empty()) {
    for (Index i = 0; i < t.num_grad_biases; ++i) bias_items += bias_parts(i);
  }

  /// The i-th bias of the mask.
  const MaskMatrix& bias(Index i) const {
    for (const MaskMatrix& matrix : plan.mask_.matrices()) {
      if (matrix.kind == MaskMatrix::Kind::bias && i-- == 0) return matrix;
    }
    return plan.mask_.matrices().front();  // check_tensors() has counted them
  }

  Index bias_parts(Index i) const {
    return tensors.grad_biases[i].empty() ? 0 : BiasParts<T>(shape, bias(i)).count;
  }

  T* sink_terms_of(Index sequence, Index head) const {
    return sink_terms == nullptr ? nullptr : sink_terms + shape.stacked_row(sequence, head, 0);
  }

  /// One head, all rows and keys of it; no gradients asked for yet.
  kernels::BackwardBlock<T> head_block(Index sequence, Index head, std::byte* own,
                                       kernels::MaskPart<T>* parts) const {
    const Index query_row = shape.query_start(sequence);
    const Index query_len = shape.query_len_of(sequence);
    const Index kv_row = shape.kv_start(sequence);
    const Index kv_head = head / group_heads;
    kernels::BackwardBlock<T> block{};
    kernels::AttentionBlock<T>& forward = block.forward;
    forward.num_rows = query_len;
    forward.heads = 1;
    forward.kv_len = shape.kv_len_of(sequence);
    forward.head_dim = shape.head_dim;
    forward.value_dim = shape.value_dim;
    const auto query = tensors.query.block(query_row, head * shape.head_dim, query_len, shape.head_dim);
    const auto out = tensors.out.block(query_row, head * shape.value_dim, query_len, shape.value_dim);
    forward.query = {query.data, query.row_stride, 0, query.col_stride};
    block.out = strided(out);
    forward.key =
        strided(tensors.key.block(kv_row, kv_head * shape.head_dim, forward.kv_len, shape.head_dim));
    forward.value =
        strided(tensors.value.block(kv_row, kv_head * shape.value_dim, forward.kv_len, shape.value_dim));
    detail::set_scores(plan.numbers_, plan.mask_, shape, sequence, plan.numbers_.query_offset(sequence), head,
                       0, parts, forward);
    forward.workspace = own;
    block.grad_out =
        strided(tensors.grad_out.block(query_row, head * shape.value_dim, query_len, shape.value_dim));
    block.logsumexp = strided(tensors.logsumexp.block(query_row, head, query_len, 1));
    block.last_row = query_len;
    block.last_key = forward.kv_len;
    return block;
  }

  void finish(T* sums, const MatrixView<T>& grad, Index first_row, Index rows, Index col, Index cols,
              T factor, const kernels::Rotation<T>& rotation = {}, Index position = 0) const {
    if (grad.empty() || rows == 0) return;
    kernels.finish_gradient(
        {sums, strided(grad.block(first_row, col, rows, cols)), rows, cols, factor, rotation, position});
  }

  /// Keys [first_key, last_key) from all queries that share their head; and the queries too, if they are all
  /// of a head's keys.
  void run_keys(Index sequence, Index kv_head, Index first_key, Index last_key, bool with_queries,
                std::byte* own) const {
    const bool queries_wanted = with_queries && (!tensors.grad_query.empty() || sink_terms != nullptr);
    if (!keys_wanted && !queries_wanted) return;
    const Sums<T> at(shape, with_queries ? shape.query_len : 0, last_key - first_key);
    T* const sums = reinterpret_cast<T*>(own + plan.kernel_bytes_);
    std::fill(sums + at.key, sums + at.size, T(0));
    const Index query_len = shape.query_len_of(sequence);
    kernels::Rotation<T> key_rotation;
    for (Index h = 0; h < group_heads && query_len > 0; ++h) {
      const Index head = kv_head * group_heads + h;
      kernels::MaskPart<T> parts[Mask::kMaxMatrices];
      kernels::BackwardBlock<T> block = head_block(sequence, head, own, parts);
      block.first_key = first_key;
      block.last_key = last_key;
      if (keys_wanted) {
        block.grad_key = sums + at.key;
        block.grad_value = sums + at.value;
      }
      if (with_queries) {
        std::fill(sums + at.query, sums + at.key, T(0));
        if (!tensors.grad_query.empty()) block.grad_query = sums + at.query;
        block.sink_terms = sink_terms_of(sequence, head);
      }
      kernels.backward(block);
      key_rotation = block.forward.key_rotation;
      if (with_queries) finish_queries(block, sequence, head);
    }
    const Index first_row = shape.kv_start(sequence) + first_key;
    const Index keys = last_key - first_key;
    finish(sums + at.key, tensors.grad_key, first_row, keys, kv_head * shape.head_dim, shape.head_dim,
           plan.numbers_.scale, key_rotation, first_key);
    finish(sums + at.value, tensors.grad_value, first_row, keys, kv_head * shape.value_dim, shape.value_dim,
           T(1));
  }

  void finish_queries(const kernels::BackwardBlock<T>& block, Index sequence, Index head) const {
    finish(block.grad_query, tensors.grad_query, shape.query_start(sequence) + block.first_row,
           block.last_row - block.first_row, head * shape.head_dim, shape.head_dim, plan.numbers_.scale,
           block.forward.query_rotation, block.first_row);
  }

  /// Rows [first_row, last_row) of one head.
  void run_queries(Index sequence, Index head, Index first_row, Index last_row, std::byte* own) const {
    if ((tensors.grad_query.empty() && sink_terms == nullptr) || first_row >= last_row) return;
    const Sums<T> at(shape, last_row - first_row, 0);
    T* const sums = reinterpret_cast<T*>(own + plan.kernel_bytes_);
    std::fill(sums, sums + at.size, T(0));
    kernels::MaskPart<T> parts[Mask::kMaxMatrices];
    kernels::BackwardBlock<T> block = head_block(sequence, head, own, parts);
    block.first_row = first_row;
    block.last_row = last_row;
    if (!tensors.grad_query.empty()) block.grad_query = sums;
    block.sink_terms = sink_terms_of(sequence, head);
    kernels.backward(block);
    finish_queries(block, sequence, head);
  }

  void run_item(Index item, std::byte* own) const {
    if (item >= items) {
      run_bias_item(item - items, own);
      return;
    }
    const Index group = item / group_items;
    const Index sequence = group / shape.num_kv_heads;
    const Index kv_head = group % shape.num_kv_heads;
    const Index kv_len = shape.kv_len_of(sequence);
    if (plan.chunk_keys_ == 0) {
      run_keys(sequence, kv_head, 0, kv_len, true, own);
      return;
    }
    Index part = item % group_items;
    if (part < key_chunks) {
      const Index first = part * plan.chunk_keys_;
      const Index last = std::min(kv_len, first + plan.chunk_keys_);
      if (keys_wanted && first < last) run_keys(sequence, kv_head, first, last, false, own);
      return;
    }
    part -= key_chunks;
    const Index first = part % query_chunks * plan.chunk_rows_;
    const Index head = kv_head * group_heads + part / query_chunks;
    run_queries(sequence, head, first, std::min(shape.query_len_of(sequence), first + plan.chunk_rows_), own);
  }

  /// One part of the gradient of one bias: the sum over all heads and sequences that share it, in their
  /// order.
  void run_bias_item(Index item, std::byte* own) const {
    Index i = 0;
    while (item >= bias_parts(i)) item -= bias_parts(i++);
    const MaskMatrix& matrix = bias(i);
    const BiasParts<T> parts_of(shape, matrix);
    const bool a_row_each = parts_of.a_row_each();
    const Index first = item % parts_of.chunks * parts_of.step;
    const Index matrix_block = item / parts_of.chunks;
    const Index rows = a_row_each ? std::min(parts_of.step, parts_of.block_rows - first) : 1;
    const Index cols = a_row_each ? shape.kv_len : std::min(parts_of.step, shape.kv_len - first);
    const Index first_row = matrix_block * parts_of.block_rows + (a_row_each ? first : 0);
    const MatrixView<T> grad = tensors.grad_biases[i].block(first_row, a_row_each ? 0 : first, rows, cols);
    const MaskSizes sizes = shape.mask_sizes();
    for (Index row = 0; row < rows; ++row) {
      for (Index col = 0; col < cols; ++col) grad(row, col) = T(0);
    }
    BiasSum sum{grad, a_row_each ? first : 0, a_row_each ? 0 : first, a_row_each};
    const kernels::ScoreGradientHook<T> hook{&BiasSum::take, &sum};
    const Index sequences = shape.query_rows() == 0 ? 0 : shape.batch_size;
    for (Index sequence = 0; sequence < sequences; ++sequence) {
      for (Index head = 0; head < shape.num_heads; ++head) {
        if (matrix.block_of(sizes, sequence, head) != matrix_block) continue;
        kernels::MaskPart<T> parts[Mask::kMaxMatrices];
        kernels::BackwardBlock<T> block = head_block(sequence, head, own, parts);
        block.hook = &hook;
        if (a_row_each) {
          block.first_row = first;
          block.last_row = std::min(block.last_row, first + parts_of.step);
        } else {
          block.first_key = first;
          block.last_key = std::min(block.last_key, first + parts_of.step);
        }
        if (block.first_row < block.last_row && block.first_key < block.last_key) kernels.backward(block);
      }
    }
  }

  /// Where the gradients of scores are added to the gradient of a bias.
  struct BiasSum {
    MatrixView<T> grad;
    Index first_row;
    Index first_key;
    bool a_row_each;

    static void take(void* context, Index first_row, Index rows, Index first_key, Index keys, const T* grads,
                     Index row_step) noexcept {
      const auto& sum = *static_cast<const BiasSum*>(context);
      for (Index r = 0; r < rows; ++r) {
        const Index row = sum.a_row_each ? first_row + r - sum.first_row : 0;
        for (Index j = 0; j < keys; ++j)
          sum.grad(row, first_key + j - sum.first_key) += grads[r * row_step + j];
      }
    }
  };

  /// The gradient of a sink is a sum over all rows of its head, on whichever threads they were computed.
  void sum_sinks() const {
    const Index sequences = shape.query_rows() == 0 ? 0 : shape.batch_size;
    for (Index head = 0; head < shape.num_heads; ++head) {
      double sum = 0;
      for (Index sequence = 0; sequence < sequences; ++sequence) {
        const T* const terms = sink_terms_of(sequence, head);
        for (Index i = 0; i < shape.query_len_of(sequence); ++i) sum += static_cast<double>(terms[i]);
      }
      tensors.grad_sinks(0, head) = static_cast<T>(sum);
    }
  }
};

template <class T>
void AttentionBackwardPlan<T>::run(const AttentionBackwardTensors<T>& tensors, void* workspace,
                                   Executor* executor) const noexcept {
  const Run run(*this, tensors, workspace);
  const Index items = run.items + run.bias_items;
  if (executor == nullptr || threads_ == 1) {
    for (Index item = 0; item < items; ++item) run.run_item(item, run.workspace);
  } else {
    const Index tasks = std::min(threads_, std::max<Index>(1, items));
    detail::run_shared(*executor, tasks, items, chunk_keys_ == 0 ? tasks : 1, [&](Index thread, Index item) {
      run.run_item(item, run.workspace + static_cast<std::size_t>(thread) * thread_bytes_);
    });
  }
  if (run.sink_terms != nullptr) run.sum_sinks();
}

template class AttentionBackwardPlan<float>;
template class AttentionBackwardPlan<double>;

}  // namespace heed
