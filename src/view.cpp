#include "heed/view.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace heed {

namespace {

struct Range {
  std::intptr_t begin;
  std::intptr_t end;
};

Range address_range(const void* data, Index rows, Index cols, Index row_stride, Index col_stride,
                    Index element_size) {
  const auto start = reinterpret_cast<std::intptr_t>(data);
  std::intptr_t low = start;
  std::intptr_t high = start;
  for (const Index reach : {(rows - 1) * row_stride * element_size, (cols - 1) * col_stride * element_size}) {
    (reach < 0 ? low : high) += reach;
  }
  return {low, high + element_size};
}

}  // namespace

bool views_overlap(const void* a, Index a_rows, Index a_cols, Index a_row_stride, Index a_col_stride,
                   const void* b, Index b_rows, Index b_cols, Index b_row_stride, Index b_col_stride,
                   std::size_t element_size) noexcept {
  if (a_rows == 0 || a_cols == 0 || b_rows == 0 || b_cols == 0) return false;
  const auto size = static_cast<Index>(element_size);
  const Range range_a = address_range(a, a_rows, a_cols, a_row_stride, a_col_stride, size);
  const Range range_b = address_range(b, b_rows, b_cols, b_row_stride, b_col_stride, size);
  if (range_a.end <= range_b.begin || range_b.end <= range_a.begin) return false;

  // Blocks of one matrix: b starts (outer, inner) steps after a, and they meet iff they meet in both
  // directions.
  const bool rows_outer = std::abs(a_row_stride) >= std::abs(a_col_stride);
  const Index outer_stride = rows_outer ? a_row_stride : a_col_stride;
  const Index inner_stride = rows_outer ? a_col_stride : a_row_stride;
  const Index bytes = reinterpret_cast<std::intptr_t>(b) - reinterpret_cast<std::intptr_t>(a);
  if (a_row_stride != b_row_stride || a_col_stride != b_col_stride || inner_stride < 1 || outer_stride < 1 ||
      bytes % size != 0) {
    return true;
  }
  const Index a_outer = rows_outer ? a_rows : a_cols;
  const Index a_inner = rows_outer ? a_cols : a_rows;
  const Index b_outer = rows_outer ? b_rows : b_cols;
  const Index b_inner = rows_outer ? b_cols : b_rows;
  // Only where a line along the inner direction ends before the next one begins is an element's address
  // unique.
  if ((std::max(a_inner, b_inner) - 1) * inner_stride >= outer_stride) return true;
  const Index distance = bytes / size;
  Index outer = distance / outer_stride;
  Index rest = distance % outer_stride;
  if (rest < 0) {
    rest += outer_stride;
    --outer;
  }
  for (const Index shift : {Index{0}, Index{1}}) {
    const Index outer_step = outer + shift;
    const Index inner_distance = rest - shift * outer_stride;
    if (inner_distance % inner_stride != 0) continue;
    const Index inner_step = inner_distance / inner_stride;
    if (-b_outer < outer_step && outer_step < a_outer && -b_inner < inner_step && inner_step < a_inner)
      return true;
  }
  return false;
}

}  // namespace heed
