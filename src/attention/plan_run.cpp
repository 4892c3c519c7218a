// AttentionPlan::run: blocks of rows, each handed to the kernel with everything that it reads.

#include <algorithm>
#include <cmath>

#include "attention/block_mask.hpp"
#include "attention/blocks.hpp"
#include "attention/observed_block.hpp"
#include "heed/attention/plan.hpp"
#include "heed/core/share_work.hpp"
#include "kernels/kernels.hpp"
#include "kernels/strided_view.hpp"

namespace heed {

namespace {

/// The rows of a group of heads from one row of the matrix on; each head has `dim` columns.
template <class T>
kernels::HeadRows<T> head_rows(const MatrixView<T>& matrix, Index row, Index head, Index dim) {
  if (matrix.empty()) return {matrix.data, 0, 0, matrix.col_stride};
  return {matrix.data + row * matrix.row_stride + head * dim * matrix.col_stride, matrix.row_stride,
          dim * matrix.col_stride, matrix.col_stride};
}

/// Where one block of rows lies.
struct BlockPlace {
  Index sequence;
  Index head;  ///< The first of the group.
  Index kv_head;
  Index heads;       ///< Heads of the group.
  Index query;       ///< The query of the first row, within the sequence.
  Index first_head;  ///< The head of the first row, within the group.
  Index rows;
};

}  // namespace

template <class T>
struct AttentionPlan<T>::Run {
  const AttentionPlan& plan;
  const AttentionTensors<T>& tensors;
  const kernels::Kernels<T>& kernels;
  std::byte* workspace;
  std::size_t stride;          ///< From one thread's part of the workspace to the next.
  const Index* cache_lengths;  ///< Tokens of each sequence, or nullptr: the plan's shape says them.
  Index query_len;             ///< Queries of each sequence, if the batch is not ragged.
  detail::Groups groups;
  detail::Blocks blocks;
  Index items;
  bool in_order;  ///< An item is all blocks of a group.

  Run(const AttentionPlan& p, const AttentionTensors<T>& t, void* memory)
      : plan(p),
        tensors(t),
        kernels(kernels::kernels_of<T>(kernels::table())),
        workspace(static_cast<std::byte*>(memory)),
        stride(p.thread_bytes_),
        cache_lengths(t.cache != nullptr ? t.cache->lengths : nullptr),
        query_len(p.shape_.query_len),
        groups{p.groups_, p.group_heads_},
        blocks{p.block_rows_, p.blocks_per_group_},
        in_order(std::any_of(t.observers, t.observers + t.num_observers,
                             [](const WeightsObserver<T>* observer) { return observer->in_order(); })) {
    if (cache_lengths != nullptr) cut_new_queries();
    items = in_order                 ? p.shape_.batch_size * groups.count
            : p.first_items_.empty() ? p.shape_.batch_size * groups.count * blocks.per_group
                                     : p.num_items();
    if (t.query.rows == 0) items = 0;  // sequences of nothing, however many
  }

  /// The plan is for any number of queries up to its own: the queries of this run are cut as if it were
  /// planned for them.
  void cut_new_queries() {
    AttentionShape shape;  // without starts, so that nothing is allocated
    shape.batch_size = plan.shape_.batch_size;
    shape.num_heads = plan.shape_.num_heads;
    shape.num_kv_heads = plan.shape_.num_kv_heads;
    shape.query_len = query_len = shape.batch_size == 0 ? 0 : tensors.query.rows / shape.batch_size;
    groups = detail::groups_of(shape);
    blocks = detail::equal_blocks(shape, plan.threads_, kernels);
  }

  Index query_len_of(Index sequence) const {
    return plan.shape_.query_starts.empty() ? query_len : plan.shape_.query_len_of(sequence);
  }
  Index query_start(Index sequence) const {
    return plan.shape_.query_starts.empty() ? sequence * query_len : plan.shape_.query_start(sequence);
  }
  Index kv_len_of(Index sequence) const {
    return cache_lengths != nullptr ? cache_lengths[sequence] : plan.shape_.kv_len_of(sequence);
  }
  /// Of a cache that grows, queries are the last tokens.
  Index query_offset(Index sequence) const {
    return cache_lengths != nullptr ? cache_lengths[sequence] - query_len
                                    : plan.numbers_.query_offset(sequence);
  }

  /// The place of block `block` of a group, counted over all groups of the sequence.
  BlockPlace place(Index sequence, Index group, Index block) const {
    const AttentionShape& shape = plan.shape_;
    const Index heads = groups.heads;
    const Index rows_in_all = query_len_of(sequence) * heads;
    const Index first_row = block * blocks.rows;
    BlockPlace place{};
    place.sequence = sequence;
    place.head = group * heads;
    place.kv_head = heads > 1 || shape.num_heads == shape.num_kv_heads
                        ? group
                        : group / (shape.num_heads / shape.num_kv_heads);
    place.heads = heads;
    place.query = heads == 1 ? first_row : first_row / heads;
    place.first_head = heads == 1 ? 0 : first_row % heads;
    place.rows = std::min(blocks.rows, rows_in_all - first_row);
    return place;
  }

  Index blocks_of(Index sequence) const {
    if (plan.first_items_.empty()) return blocks.per_group;
    const Index rows = plan.shape_.query_len_of(sequence) * groups.heads;
    return blocks.rows == 0 ? 0 : (rows + blocks.rows - 1) / blocks.rows;
  }

  void run_item(Index item, std::byte* own) const {
    const Index count = groups.count;
    if (in_order) {
      const Index in_group = blocks_of(item / count);
      for (Index block = 0; block < in_group; ++block)
        run_block(place(item / count, item % count, block), own);
      return;
    }
    Index sequence = 0;
    Index in_group = blocks.per_group;
    // A single query would pay for every division below, so it skips them. In a ragged batch the only block
    // need not be the first sequence's.
    if (items == 1 && plan.first_items_.empty()) {
      run_block(place(0, 0, 0), own);
      return;
    }
    if (plan.first_items_.empty()) {
      sequence = item / (count * in_group);
      item -= sequence * count * in_group;
    } else {
      const auto& first = plan.first_items_;
      sequence = std::upper_bound(first.begin(), first.end(), item) - first.begin() - 1;
      item -= first[static_cast<std::size_t>(sequence)];
      in_group = blocks_of(sequence);
    }
    // The last block first: under a causal mask it is the longest, and the short ones even out the end.
    run_block(place(sequence, item / in_group, in_group - 1 - item % in_group), own);
  }

  void set_keys(kernels::AttentionBlock<T>& block, const BlockPlace& place) const {
    const AttentionShape& shape = plan.shape_;
    if (tensors.cache != nullptr) {
      const detail::CacheView& cache = *tensors.cache;
      const auto first_tile = static_cast<std::size_t>((place.sequence * shape.num_kv_heads + place.kv_head) *
                                                       cache.tiles_per_head);
      block.cached = {cache.keys + first_tile * cache.key_tile_bytes,
                      cache.values + first_tile * cache.value_tile_bytes,
                      cache.finite + first_tile,
                      cache.key_tile_bytes,
                      cache.value_tile_bytes,
                      cache.tiles_per_head,
                      static_cast<kernels::Storage>(cache.storage)};
      return;
    }
    const Index row = shape.kv_start(place.sequence);
    const Index kv_len = block.kv_len;
    block.key = strided(tensors.key.block(row, place.kv_head * shape.head_dim, kv_len, shape.head_dim));
    block.value = strided(tensors.value.block(row, place.kv_head * shape.value_dim, kv_len, shape.value_dim));
  }

  void run_block(const BlockPlace& place, std::byte* own) const {
    const AttentionShape& shape = plan.shape_;
    const Index query_row = query_start(place.sequence) + place.query;
    kernels::AttentionBlock<T> block{};
    block.query = head_rows(tensors.query, query_row, place.head, shape.head_dim);
    block.out = head_rows(tensors.out, query_row, place.head, shape.value_dim);
    block.kv_len = kv_len_of(place.sequence);
    set_keys(block, place);
    kernels::MaskPart<T> parts[Mask::kMaxMatrices];
    detail::set_scores(plan.numbers_, plan.mask_, shape, place.sequence, query_offset(place.sequence),
                       place.head, place.query, parts, block);
    block.num_rows = place.rows;
    block.heads = place.heads;
    block.first_head = place.first_head;
    block.head_dim = shape.head_dim;
    block.value_dim = shape.value_dim;
    block.row_max = reinterpret_cast<T*>(own);
    block.row_sum = block.row_max + kernels.query_block;
    block.row_sees = reinterpret_cast<bool*>(block.row_sum + kernels.query_block);
    block.workspace = own + detail::statistics_bytes(kernels);
    const detail::CallerFunctions<T> functions(plan.functions_, place.sequence, place.head);
    if (functions.any()) block.hook = functions.hook();

    kernels.attention(block);
    if (!tensors.logsumexp.empty()) write_logsumexp(block, place, query_row);
    detail::BlockObservation<T>(block, tensors, shape, place.sequence, place.head, place.query).run(kernels);
  }

  void write_logsumexp(const kernels::AttentionBlock<T>& block, const BlockPlace& place,
                       Index query_row) const {
    for (Index row = 0; row < place.rows; ++row) {
      const Index at = place.first_head + row;
      // A row that sees nothing has row_max -inf and row_sum 0: the -inf that the contract asks for.
      tensors.logsumexp(query_row + at / place.heads, place.head + at % place.heads) =
          block.row_max[row] + std::log(block.row_sum[row]);
    }
  }
};

template <class T>
void AttentionPlan<T>::run(const AttentionTensors<T>& tensors, void* workspace,
                           Executor* executor) const noexcept {
  const Run run(*this, tensors, workspace);
  if (executor == nullptr || threads_ == 1) {
    for (Index item = 0; item < run.items; ++item) run.run_item(item, run.workspace);
    return;
  }
  // One task for each part of the workspace. Where heads are few, threads share them from the first block on,
  // which is the longest.
  const Index tasks = std::min(threads_, std::max<Index>(1, run.items));
  const Index ranges = shape_.batch_size * run.groups.count >= tasks ? tasks : 1;
  detail::run_shared(*executor, tasks, run.items, ranges, [&run](Index thread, Index item) {
    run.run_item(item, run.workspace + static_cast<std::size_t>(thread) * run.stride);
  });
}

template void AttentionPlan<float>::run(const AttentionTensors<float>&, void*, Executor*) const noexcept;
template void AttentionPlan<double>::run(const AttentionTensors<double>&, void*, Executor*) const noexcept;

}  // namespace heed
