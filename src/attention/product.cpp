#include <algorithm>
#include <atomic>

#include "heed/product_plan.hpp"
#include "heed/workspace.hpp"
#include "kernels/kernels.hpp"

namespace heed {

namespace {

template <class T>
std::size_t thread_bytes(Index depth, Index cols) {
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  const std::size_t bytes = kernels.product_bytes(depth, std::min(cols, kernels.product_cols));
  return (bytes + Workspace::alignment - 1) / Workspace::alignment * Workspace::alignment;
}

Index ceil_div(Index n, Index step) {
  return (n + step - 1) / step;
}

/// How many blocks the product is cut into.
template <class T>
Index num_items(Index rows, Index cols) {
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  return ceil_div(rows, kernels.product_rows) * ceil_div(cols, kernels.product_cols);
}

}  // namespace

template <class T>
std::size_t product_workspace_bytes(Index rows, Index depth, Index cols, Index threads) {
  const Index tasks = std::min(threads, std::max<Index>(1, num_items<T>(rows, cols)));
  return static_cast<std::size_t>(tasks) * thread_bytes<T>(depth, cols);
}

template <class T>
void run_product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> out, void* workspace,
                 Index threads, Executor* executor) noexcept {
  const auto& kernels = kernels::kernels_of<T>(kernels::table());
  struct Shared {
    MatrixView<const T> a;
    MatrixView<const T> b;
    MatrixView<T> out;
    const kernels::Kernels<T>* kernels;
    std::byte* workspace;
    Index row_blocks;
    Index items;
    std::atomic<Index> next{0};

    void run_item(Index item, std::byte* own) const {
      const Index first_row = item % row_blocks * kernels->product_rows;
      const Index first_col = item / row_blocks * kernels->product_cols;
      const Index rows = std::min(kernels->product_rows, out.rows - first_row);
      const Index cols = std::min(kernels->product_cols, out.cols - first_col);
      const auto left = a.block(first_row, 0, rows, a.cols);
      const auto right = b.block(0, first_col, b.rows, cols);
      const auto result = out.block(first_row, first_col, rows, cols);
      kernels->product({{left.data, left.row_stride, left.col_stride},
                        {right.data, right.row_stride, right.col_stride},
                        {result.data, result.row_stride, result.col_stride},
                        rows,
                        a.cols,
                        cols,
                        own});
    }
  } shared{a, b, out, &kernels, static_cast<std::byte*>(workspace), ceil_div(out.rows, kernels.product_rows),
           0};
  shared.items = num_items<T>(out.rows, out.cols);
  if (executor == nullptr || threads <= 1 || shared.items <= 1) {
    for (Index item = 0; item < shared.items; ++item) shared.run_item(item, shared.workspace);
    return;
  }
  executor->run(
      std::min(threads, shared.items),
      [](void* context, Index thread) {
        auto& s = *static_cast<Shared*>(context);
        std::byte* const own =
            s.workspace + static_cast<std::size_t>(thread) * thread_bytes<T>(s.b.rows, s.b.cols);
        for (Index item = s.next.fetch_add(1); item < s.items; item = s.next.fetch_add(1))
          s.run_item(item, own);
      },
      &shared);
}

template std::size_t product_workspace_bytes<float>(Index, Index, Index, Index);
template std::size_t product_workspace_bytes<double>(Index, Index, Index, Index);
template void run_product(MatrixView<const float>, MatrixView<const float>, MatrixView<float>, void*, Index,
                          Executor*) noexcept;
template void run_product(MatrixView<const double>, MatrixView<const double>, MatrixView<double>, void*,
                          Index, Executor*) noexcept;

}  // namespace heed
