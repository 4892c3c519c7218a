// Norms, activations, losses and dropout on views: what is shared among threads, and which kernel does it.

#include "heed/layers/rows.hpp"

#include <algorithm>
#include <cmath>

#include "heed/core/float_bits.hpp"
#include "kernels/kernels.hpp"
#include "kernels/strided_view.hpp"
#include "layers/row_ranges.hpp"

namespace heed {

namespace {

/// From row `first` on; a view without memory stays one.
template <class T>
kernels::Strided<T> rows_from(const MatrixView<T>& view, Index first) {
  if (view.empty()) return {};
  return {view.data + first * view.row_stride, view.row_stride, view.col_stride};
}

kernels::Activation kind_of(Activation kind) {
  switch (kind) {
    case Activation::gelu:
      return kernels::Activation::gelu;
    case Activation::gelu_tanh:
      return kernels::Activation::gelu_tanh;
    case Activation::silu:
      return kernels::Activation::silu;
    case Activation::relu:
      break;
  }
  return kernels::Activation::relu;
}

template <class T>
kernels::NormRows<T> norm_rows(const MatrixView<const T>& x, const MatrixView<const T>& weight,
                               const NormOptions& options, Index first, Index rows) {
  return {rows_from(x, first), rows_from(weight, 0), rows, x.cols, static_cast<T>(options.epsilon),
          options.centered};
}

/// What label smoothing takes from a row: how much all classes weigh, and how far they are from the largest
/// logit, weighted.
struct Smoothed {
  double weight = 0;
  double distance = 0;
};

template <class T>
Smoothed smoothed_row(const MatrixView<const T>& logits, Index row, const RowLoss& loss) {
  Smoothed smoothed;
  if (loss.label_smoothing == 0) return smoothed;
  double max = static_cast<double>(logits(row, 0));
  for (Index col = 1; col < logits.cols; ++col) max = std::max(max, static_cast<double>(logits(row, col)));
  for (Index col = 0; col < logits.cols; ++col) {
    const double weight = loss.of_class(col, logits.cols);
    if (weight == 0) continue;
    smoothed.weight += weight;
    // Halves: the difference of two numbers may be none.
    smoothed.distance += 2 * weight * (max / 2 - static_cast<double>(logits(row, col)) / 2);
  }
  return smoothed;
}

}  // namespace

template <class T>
void RowFunctions<T>::norm(Input x, Input weight, Input bias, const NormOptions& options, Output out,
                           Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  detail::over_rows(executor, x.rows, x.cols, [&](Index first, Index rows) {
    kernels.norm(norm_rows(x, weight, options, first, rows), rows_from(bias, 0), rows_from(out, first));
  });
}

template <class T>
void RowFunctions<T>::norm_backward(Input x, Input weight, const NormOptions& options, Input grad_out,
                                    Input base, Output grad_x, Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  detail::over_rows(executor, x.rows, x.cols, [&](Index first, Index rows) {
    kernels.norm_backward(norm_rows(x, weight, options, first, rows), rows_from(grad_out, first),
                          rows_from(base, first), rows_from(grad_x, first));
  });
}

template <class T>
void RowFunctions<T>::norm_weight_gradient(Input x, const NormOptions& options, Input grad_out,
                                           Output grad_weight, Output grad_bias) {
  const auto& kernels = kernels::layer_kernels<T>();
  kernels.norm_weight_gradient(norm_rows<T>(x, {}, options, 0, x.rows), rows_from(grad_out, 0),
                               rows_from(grad_weight, 0), rows_from(grad_bias, 0));
}

template <class T>
void RowFunctions<T>::activation(Activation kind, Input x, Output out, Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  detail::over_rows(executor, x.rows, x.cols, [&](Index first, Index rows) {
    kernels.activation(kind_of(kind), rows_from(x, first), rows_from(out, first), rows, x.cols);
  });
}

template <class T>
void RowFunctions<T>::activation_backward(Activation kind, Input x, Input grad_out, Output grad_x,
                                          Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  detail::over_rows(executor, x.rows, x.cols, [&](Index first, Index rows) {
    kernels.activation_backward(kind_of(kind), rows_from(x, first), rows_from(grad_out, first),
                                rows_from(grad_x, first), rows, x.cols);
  });
}

template <class T>
void RowFunctions<T>::gated(Activation kind, Input gate, Input up, Output out, Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  detail::over_rows(executor, gate.rows, gate.cols, [&](Index first, Index rows) {
    kernels.gated(kind_of(kind), rows_from(gate, first), rows_from(up, first), rows_from(out, first), rows,
                  gate.cols);
  });
}

template <class T>
void RowFunctions<T>::gated_backward(Activation kind, Input gate, Input up, Input grad_out, Output grad_gate,
                                     Output grad_up, Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  detail::over_rows(executor, gate.rows, gate.cols, [&](Index first, Index rows) {
    kernels.gated_backward(kind_of(kind), rows_from(gate, first), rows_from(up, first),
                           rows_from(grad_out, first), rows_from(grad_gate, first), rows_from(grad_up, first),
                           rows, gate.cols);
  });
}

template <class T>
void RowFunctions<T>::cross_entropy(Input logits, const std::int32_t* targets, const RowLoss& loss,
                                    double* losses, Output grad, Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  const Index cols = logits.cols;
  detail::over_rows(executor, logits.rows, cols, [&](Index first, Index rows) {
    for (Index row = first; row < first + rows; ++row) {
      if (loss.leaves_out(targets[row])) {
        losses[row] = 0;
        for (Index col = 0; col < grad.cols; ++col) grad(row, col) = T(0);
        continue;
      }
      // grad may be logits itself: what the loss needs of them is read first.
      const T logit = logits(row, targets[row]);
      const Smoothed smoothed = smoothed_row(logits, row, loss);
      const double of_target = loss.of_target(targets[row]);
      T max = T(0);
      T sum = T(0);
      kernels.softmax_row(rows_from(logits, row), cols, rows_from(grad, row),
                          static_cast<T>(loss.factor * (of_target + smoothed.weight)), max, sum);
      const double log_sum = std::log(static_cast<double>(sum));
      losses[row] = smoothed.weight * log_sum + smoothed.distance;
      if (of_target > 0)
        losses[row] += of_target * (log_sum + (static_cast<double>(max) - static_cast<double>(logit)));
      if (grad.empty()) continue;
      grad(row, targets[row]) -= static_cast<T>(loss.factor * of_target);
      for (Index col = 0; loss.label_smoothing > 0 && col < cols; ++col)
        grad(row, col) -= static_cast<T>(loss.factor * loss.of_class(col, cols));
    }
  });
}

template <class T>
bool RowFunctions<T>::adds_nothing(Input x, Input grad_out, Index row) noexcept {
  for (Index col = 0; col < grad_out.cols; ++col) {
    if (!(grad_out(row, col) == T(0))) return false;
  }
  for (Index col = 0; col < x.cols; ++col) {
    if (!detail::is_finite(x(row, col))) return true;
  }
  return false;
}

template <class T>
void RowFunctions<T>::add(Input a, Input b, Output out, Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  detail::over_rows(executor, a.rows, a.cols, [&](Index first, Index rows) {
    kernels.add(rows_from(a, first), rows_from(b, first), rows_from(out, first), rows, a.cols);
  });
}

template <class T>
double RowFunctions<T>::sum_of_squares(Input x) {
  const auto& kernels = kernels::layer_kernels<T>();
  return x.empty() ? 0 : kernels.sum_of_squares(rows_from(x, 0), x.rows, x.cols);
}

template <class T>
void RowFunctions<T>::column_sums(Input x, Output sums) {
  const auto& kernels = kernels::layer_kernels<T>();
  if (x.empty()) return;
  kernels.column_sums(rows_from(x, 0), x.rows, x.cols, rows_from(sums, 0));
}

template <class T>
void RowFunctions<T>::gather(Input table, const std::int32_t* ids, Output out) noexcept {
  for (Index row = 0; row < out.rows; ++row) {
    for (Index col = 0; col < out.cols; ++col) out(row, col) = table(ids[row], col);
  }
}

template <class T>
void RowFunctions<T>::scatter_add(Input grad_out, const std::int32_t* ids, Output grad_table) {
  const auto& kernels = kernels::layer_kernels<T>();
  if (grad_out.empty()) return;
  for (Index row = 0; row < grad_out.rows; ++row) {
    const kernels::Strided<T> sums = rows_from(grad_table, ids[row]);
    kernels.add({sums.data, sums.row_stride, sums.col_stride}, rows_from(grad_out, row), sums, 1,
                grad_out.cols);
  }
}

template <class T>
void RowFunctions<T>::dropout(const DropoutOptions& options, Input x, Output out, Index first_row,
                              Executor* executor) {
  const auto& kernels = kernels::layer_kernels<T>();
  const kernels::DropoutStream stream{
      {static_cast<std::uint32_t>(options.seed), static_cast<std::uint32_t>(options.seed >> 32)},
      {static_cast<std::uint32_t>(options.stream), static_cast<std::uint32_t>(options.stream >> 32)},
      static_cast<std::uint32_t>(options.rate * 4294967296.0)};
  const T factor = static_cast<T>(1.0 / (1.0 - options.rate));
  detail::over_rows(executor, x.rows, x.cols, [&](Index first, Index rows) {
    kernels.dropout(stream, factor, rows_from(x, first), rows_from(out, first), first_row + first, rows,
                    x.cols);
  });
}

template struct RowFunctions<float>;
template struct RowFunctions<double>;

}  // namespace heed
