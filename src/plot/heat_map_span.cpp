// Heat maps of numbers that lie in memory: the strides are checked here, once, before anything is read.

#include <algorithm>

#include "heed/core/error.hpp"
#include "heed/plot/heat_map.hpp"

namespace heed {
namespace {

template <class T>
std::string draw_strided(std::span<const T> values, Index rows, Index cols, Index row_stride,
                         Index col_stride, const HeatMapOptions& options) {
  if (row_stride < 0 || col_stride < 0) {
    throw_argument_error("row_stride is " + std::to_string(row_stride) + " and col_stride " +
                         std::to_string(col_stride) + ", they must not be negative");
  }
  const auto last = static_cast<Index>(values.size()) - 1;
  const auto reaches = [](Index count, Index stride, Index limit) {
    return count > 1 && stride > 0 && count - 1 > limit / stride;
  };
  const bool empty = rows <= 0 || cols <= 0;
  if (!empty && (last < 0 || reaches(rows, row_stride, last) ||
                 reaches(cols, col_stride, last - (rows - 1) * row_stride))) {
    throw_shape_error("values has " + std::to_string(values.size()) + " numbers, too few for " +
                      std::to_string(rows) + " x " + std::to_string(cols) + " with row_stride " +
                      std::to_string(row_stride) + " and col_stride " + std::to_string(col_stride));
  }
  return heat_map(
      rows, cols,
      [&](Index i, Index j) {
        return static_cast<double>(values[static_cast<std::size_t>(i * row_stride + j * col_stride)]);
      },
      options);
}

template <class T>
std::string draw_dense(std::span<const T> values, Index rows, Index cols, const HeatMapOptions& options) {
  const auto count = static_cast<Index>(values.size());
  const bool empty = rows <= 0 || cols <= 0;
  const bool exact = empty ? count == 0 : count % cols == 0 && count / cols == rows;
  if (!exact) {
    throw_shape_error("values has " + std::to_string(count) + " numbers, the matrix is " +
                      std::to_string(rows) + " x " + std::to_string(cols));
  }
  return draw_strided(values, rows, cols, std::max<Index>(cols, 0), Index{1}, options);
}

}  // namespace

std::string heat_map(std::span<const double> values, Index rows, Index cols, const HeatMapOptions& options) {
  return draw_dense(values, rows, cols, options);
}

std::string heat_map(std::span<const float> values, Index rows, Index cols, const HeatMapOptions& options) {
  return draw_dense(values, rows, cols, options);
}

std::string heat_map(std::span<const double> values, Index rows, Index cols, Index row_stride,
                     Index col_stride, const HeatMapOptions& options) {
  return draw_strided(values, rows, cols, row_stride, col_stride, options);
}

std::string heat_map(std::span<const float> values, Index rows, Index cols, Index row_stride,
                     Index col_stride, const HeatMapOptions& options) {
  return draw_strided(values, rows, cols, row_stride, col_stride, options);
}

}  // namespace heed
