// Matrix products on views, cut into blocks of rows and ranges of columns for the threads.

#include "heed/layers/product.hpp"

#include <algorithm>

#include "core/ceil_div.hpp"
#include "heed/core/share_work.hpp"
#include "heed/core/workspace.hpp"
#include "kernels/kernels.hpp"
#include "kernels/strided_view.hpp"

namespace heed {

namespace {

/// How a product is cut into tasks: blocks of rows by ranges of columns. An element's bits do not depend on
/// it.
struct Split {
  Index block_rows = 1;
  Index row_blocks = 0;
  Index range_cols = 1;
  Index col_ranges = 0;

  Index num_items() const { return row_blocks * col_ranges; }
};

// Packing a takes 1 / columns of a task's time, packing b 1 / rows: with fewer the cost of packing would
// show.
constexpr Index kMinCols = 256;
constexpr Index kMinRows = 48;
// Under this many multiplications a second thread would not earn its call:
// docs/measurements.md#worth-sharing.
constexpr double kWorthSharing = 1e6;

template <class T>
Split split_of(Index rows, Index depth, Index cols, Index threads) {
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  Split split;
  if (rows == 0 || cols == 0) return split;
  split.row_blocks = ceil_div(rows, kernels.product_rows);
  split.col_ranges = 1;
  const double work = static_cast<double>(rows) * static_cast<double>(depth) * static_cast<double>(cols);
  if (threads > 1 && work >= kWorthSharing) {
    const Index wanted = detail::kItemsPerThread * std::min(threads, detail::kMaxThreads);
    split.col_ranges = std::clamp<Index>(ceil_div(wanted, split.row_blocks), 1, ceil_div(cols, kMinCols));
    split.row_blocks =
        std::max(split.row_blocks, std::min(ceil_div(wanted, split.col_ranges), ceil_div(rows, kMinRows)));
  }
  split.block_rows = ceil_div(ceil_div(rows, split.row_blocks), kernels.tile_rows) * kernels.tile_rows;
  split.block_rows = std::min(split.block_rows, kernels.product_rows);
  split.row_blocks = ceil_div(rows, split.block_rows);
  split.range_cols = ceil_div(ceil_div(cols, split.col_ranges), kernels.tile_cols) * kernels.tile_cols;
  split.col_ranges = ceil_div(cols, split.range_cols);
  return split;
}

/// For as many rows as a block may have, not as it has: more rows never need less memory, so that a caller
/// can reserve for the most.
template <class T>
std::size_t thread_bytes(Index rows, Index depth) {
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  const std::size_t bytes = kernels.product_bytes(std::min(rows, kernels.product_rows), depth);
  return (bytes + Workspace::alignment - 1) / Workspace::alignment * Workspace::alignment;
}

template <class T>
struct Products {
  MatrixView<const T> a;
  const ProductTerm<T>* terms;
  Index num_terms;
  Split split;

  /// The item's rows times those columns of the terms, laid side by side, that are in its range.
  void run_item(Index item, std::byte* own) const {
    const Index first_row = item % split.row_blocks * split.block_rows;
    const Index rows = std::min(split.block_rows, a.rows - first_row);
    Index first_col = item / split.row_blocks * split.range_cols;
    Index left = split.range_cols;
    kernels::ProductPart<T> parts[kMaxProductTerms];
    kernels::ProductBlock<T> block{};
    for (Index t = 0; t < num_terms && left > 0; ++t) {
      const ProductTerm<T>& term = terms[t];
      if (first_col >= term.b.cols) {
        first_col -= term.b.cols;
        continue;
      }
      const Index cols = std::min(left, term.b.cols - first_col);
      parts[block.num_parts++] = {
          strided(term.b.block(0, first_col, term.b.rows, cols)),
          strided(term.out.block(first_row, first_col, rows, cols)), cols,
          term.bias.empty() ? kernels::Strided<const T>{} : strided(term.bias.block(0, first_col, 1, cols)),
          term.accumulate};
      left -= cols;
      first_col = 0;
    }
    block.a = strided(a.block(first_row, 0, rows, a.cols));
    block.parts = parts;
    block.rows = rows;
    block.depth = a.cols;
    block.workspace = own;
    kernels::kernels_of<T>(kernels::table()).product(block);
  }
};

}  // namespace

template <class T>
std::size_t product_workspace_bytes(Index rows, Index depth, Index cols, Index threads) {
  const Split split = split_of<T>(rows, depth, cols, threads);
  const Index tasks = std::clamp<Index>(split.num_items(), 1, std::max<Index>(1, threads));
  return static_cast<std::size_t>(tasks) * thread_bytes<T>(rows, depth);
}

template <class T>
void run_products(MatrixView<const T> a, const ProductTerm<T>* terms, Index num_terms, void* workspace,
                  Index threads, Executor* executor) {
  Index cols = 0;
  for (Index t = 0; t < num_terms; ++t) cols += terms[t].b.cols;
  const Products<T> products{a, terms, num_terms, split_of<T>(a.rows, a.cols, cols, threads)};
  auto* const own = static_cast<std::byte*>(workspace);
  const Index items = products.split.num_items();
  if (executor == nullptr || threads <= 1 || items <= 1) {
    for (Index item = 0; item < items; ++item) products.run_item(item, own);
    return;
  }
  const std::size_t stride = thread_bytes<T>(a.rows, a.cols);
  const Index tasks = std::min(threads, items);
  detail::run_shared(*executor, tasks, items, tasks, [&](Index thread, Index item) {
    products.run_item(item, own + static_cast<std::size_t>(thread) * stride);
  });
}

template std::size_t product_workspace_bytes<float>(Index, Index, Index, Index);
template std::size_t product_workspace_bytes<double>(Index, Index, Index, Index);
template void run_products(MatrixView<const float>, const ProductTerm<float>*, Index, void*, Index,
                           Executor*);
template void run_products(MatrixView<const double>, const ProductTerm<double>*, Index, void*, Index,
                           Executor*);

}  // namespace heed
