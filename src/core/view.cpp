// Whether two views may share memory.

#include "heed/core/view.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace heed {

namespace {

struct Range {
  std::intptr_t begin;
  std::intptr_t end;
};

Range address_range(const UntypedView& view) {
  const auto start = reinterpret_cast<std::intptr_t>(view.data);
  const auto size = static_cast<Index>(view.element_size);
  std::intptr_t low = start;
  std::intptr_t high = start;
  for (const Index reach :
       {(view.rows - 1) * view.row_stride * size, (view.cols - 1) * view.col_stride * size}) {
    (reach < 0 ? low : high) += reach;
  }
  return {low, high + size};
}

}  // namespace

bool overlap(const UntypedView& a, const UntypedView& b) noexcept {
  if (a.rows == 0 || a.cols == 0 || b.rows == 0 || b.cols == 0) return false;
  const Range range_a = address_range(a);
  const Range range_b = address_range(b);
  if (range_a.end <= range_b.begin || range_b.end <= range_a.begin) return false;

  // Blocks of one matrix: b starts (outer, inner) steps after a, and they meet iff they meet in both
  // directions.
  const auto size = static_cast<Index>(a.element_size);
  const bool rows_outer = std::abs(a.row_stride) >= std::abs(a.col_stride);
  const Index outer_stride = rows_outer ? a.row_stride : a.col_stride;
  const Index inner_stride = rows_outer ? a.col_stride : a.row_stride;
  const Index bytes = reinterpret_cast<std::intptr_t>(b.data) - reinterpret_cast<std::intptr_t>(a.data);
  if (a.row_stride != b.row_stride || a.col_stride != b.col_stride || a.element_size != b.element_size ||
      inner_stride < 1 || outer_stride < 1 || bytes % size != 0) {
    return true;
  }
  const Index a_outer = rows_outer ? a.rows : a.cols;
  const Index a_inner = rows_outer ? a.cols : a.rows;
  const Index b_outer = rows_outer ? b.rows : b.cols;
  const Index b_inner = rows_outer ? b.cols : b.rows;
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
