// AdamW, SGD, clipping and the cosine schedule, on views of weights cut into pieces.

#include "heed/layers/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>

#include "core/ceil_div.hpp"
#include "heed/core/error.hpp"
#include "heed/core/float_bits.hpp"
#include "heed/core/share_work.hpp"
#include "kernels/kernels.hpp"
#include "kernels/strided_view.hpp"

namespace heed {

namespace {

// Elements that are worth a thread's while: docs/measurements.md#worth-sharing.
constexpr Index kPieceElements = 16384;

void require(bool holds, const char* name, double value, const char* what) {
  if (!holds)
    throw_argument_error(std::string(name) + " is " + detail::number_text(value) + ", it must be " + what);
}

// Options are double and used as T, where 1e-46 is 0, 1e39 infinite and 0.99999999 is 1.
template <class T>
void require_not_negative(double value, const char* name) {
  require(value >= 0 && std::isfinite(static_cast<T>(value)), name, value, "finite and not negative");
}
template <class T>
void require_below_one(double value, const char* name) {
  require(value >= 0 && static_cast<T>(value) < 1, name, value, "in [0, 1)");
}

template <class T>
void require_grad_factor(double grad_factor) {
  require(std::isfinite(static_cast<T>(grad_factor)), "grad_factor", grad_factor, "finite");
}

/// Calls work(piece, index) for each piece.
template <class Work>
void over_pieces(std::span<const detail::WeightPiece> pieces, Executor* executor, const Work& work) noexcept {
  const Index items = static_cast<Index>(pieces.size());
  const Index threads = executor != nullptr ? std::min(executor->concurrency(), items) : 1;
  detail::share_items(executor, threads, items,
                      [&](Index, Index item) { work(pieces[static_cast<std::size_t>(item)], item); });
}

template <class T>
MatrixView<T> rows_of(const MatrixView<T>& view, const detail::WeightPiece& piece) {
  return view.block(piece.first_row, 0, piece.rows, view.cols);
}

}  // namespace

template <class T>
detail::WeightPieces<T>::WeightPieces(std::span<const Parameter<T>> weights) {
  for (std::size_t p = 0; p < weights.size(); ++p) {
    const MatrixView<T>& value = weights[p].value;
    sizes_.emplace_back(value.rows, value.cols);
    if (value.empty()) continue;
    const Index rows = std::max<Index>(1, kPieceElements / value.cols);
    for (Index first = 0; first < value.rows; first += rows) {
      pieces_.push_back({p, first, std::min(rows, value.rows - first),
                         size_ + static_cast<std::size_t>(first * value.cols)});
    }
    size_ += static_cast<std::size_t>(value.rows * value.cols);
  }
}

template <class T>
void detail::WeightPieces<T>::check_weights(std::span<const Parameter<T>> weights) const {
  if (weights.size() != sizes_.size()) {
    throw_shape_error("there are " + std::to_string(weights.size()) + " weights, the optimizer is for " +
                      std::to_string(sizes_.size()));
  }
  for (std::size_t p = 0; p < weights.size(); ++p) {
    const auto& [rows, cols] = sizes_[p];
    for (const MatrixView<T>& view : {weights[p].value, weights[p].grad}) {
      if (view.rows == rows && view.cols == cols) continue;
      throw_shape_error("the weight " + weights[p].name + " is " + size_text(weights[p].value) +
                        ", its gradient " + size_text(weights[p].grad) + ", the optimizer is for " +
                        std::to_string(rows) + " x " + std::to_string(cols));
    }
  }
}

template <class T>
AdamW<T>::AdamW(std::span<const Parameter<T>> weights, const AdamWOptions& options)
    : options_(options), pieces_(weights), first_(pieces_.size()), second_(pieces_.size()) {
  require_below_one<T>(options.beta1, "beta1");
  require_below_one<T>(options.beta2, "beta2");
  require(static_cast<T>(options.epsilon) > 0 && std::isfinite(static_cast<T>(options.epsilon)), "epsilon",
          options.epsilon, "positive and finite");
  require_not_negative<T>(options.weight_decay, "weight_decay");
}

template <class T>
void AdamW<T>::check_rate(double rate) const {
  require_not_negative<T>(rate, "rate");
  require_not_negative<T>(rate * options_.weight_decay, "rate * weight_decay");
}

template <class T>
void AdamW<T>::step(std::span<const Parameter<T>> weights, double rate, double grad_factor,
                    Executor* executor) {
  check_rate(rate);
  require_grad_factor<T>(grad_factor);
  pieces_.check_weights(weights);
  const auto& kernels = kernels::layer_kernels<T>();
  ++steps_;
  const double t = static_cast<double>(steps_);
  kernels::AdamStep<T> step{};
  step.rate = static_cast<T>(rate);
  step.beta1 = static_cast<T>(options_.beta1);
  step.beta2 = static_cast<T>(options_.beta2);
  // Of the betas that the moments are made with: 1 - 0.999 is another number in float, by 5e-5 of it.
  step.correction1 = static_cast<T>(1 / (1 - std::pow(static_cast<double>(step.beta1), t)));
  step.correction2 = static_cast<T>(1 / std::sqrt(1 - std::pow(static_cast<double>(step.beta2), t)));
  step.epsilon = static_cast<T>(options_.epsilon);
  step.grad_factor = static_cast<T>(grad_factor);
  over_pieces(pieces_.pieces(), executor, [&](const detail::WeightPiece& piece, Index) {
    const Parameter<T>& weight = weights[piece.parameter];
    kernels::AdamStep<T> own = step;
    own.decay = weight.decays ? static_cast<T>(rate * options_.weight_decay) : T(0);
    const MatrixView<const T> grad = rows_of(weight.grad, piece);
    kernels.adam(own, strided(rows_of(weight.value, piece)), strided(grad), first_.data() + piece.offset,
                 second_.data() + piece.offset, piece.rows, weight.value.cols);
  });
}

template <class T>
void AdamW<T>::restore(Index steps, std::span<const T> first_moments, std::span<const T> second_moments) {
  if (steps < 0) throw_argument_error("steps is " + std::to_string(steps) + ", it must not be negative");
  if (first_moments.size() != first_.size() || second_moments.size() != second_.size()) {
    throw_shape_error("there are " + std::to_string(first_moments.size()) + " first and " +
                      std::to_string(second_moments.size()) + " second moments, the optimizer has " +
                      std::to_string(first_.size()) + " of each");
  }
  constexpr Index max_steps = Index{1} << 53;  // beyond it a double, which counts them here, skips some
  if (steps > max_steps)
    throw_argument_error("steps is " + std::to_string(steps) + ", no training has had as many");
  const auto finite = [](T x) { return std::isfinite(x); };
  if (!std::all_of(first_moments.begin(), first_moments.end(), finite))
    throw_argument_error("a first moment is not finite");
  if (!std::all_of(second_moments.begin(), second_moments.end(),
                   [](T x) { return std::isfinite(x) && x >= 0; }))
    throw_argument_error("a second moment, a mean of squares, is negative or not finite");
  steps_ = steps;
  std::copy(first_moments.begin(), first_moments.end(), first_.begin());
  std::copy(second_moments.begin(), second_moments.end(), second_.begin());
}

template <class T>
Sgd<T>::Sgd(std::span<const Parameter<T>> weights, const SgdOptions& options)
    : options_(options), pieces_(weights), velocity_(options.momentum != 0 ? pieces_.size() : 0) {
  require_below_one<T>(options.momentum, "momentum");
  require_not_negative<T>(options.weight_decay, "weight_decay");
}

template <class T>
void Sgd<T>::step(std::span<const Parameter<T>> weights, double rate, double grad_factor,
                  Executor* executor) {
  require_not_negative<T>(rate, "rate");
  require_grad_factor<T>(grad_factor);
  pieces_.check_weights(weights);
  const auto& kernels = kernels::layer_kernels<T>();
  over_pieces(pieces_.pieces(), executor, [&](const detail::WeightPiece& piece, Index) {
    const Parameter<T>& weight = weights[piece.parameter];
    const kernels::SgdStep<T> step{static_cast<T>(rate),
                                   weight.decays ? static_cast<T>(options_.weight_decay) : T(0),
                                   static_cast<T>(options_.momentum), static_cast<T>(grad_factor)};
    const MatrixView<const T> grad = rows_of(weight.grad, piece);
    kernels.sgd(step, strided(rows_of(weight.value, piece)), strided(grad),
                velocity_.empty() ? nullptr : velocity_.data() + piece.offset, piece.rows, weight.value.cols);
  });
}

template <class T>
void Sgd<T>::restore(std::span<const T> velocity) {
  if (velocity.size() != velocity_.size()) {
    throw_shape_error("there are " + std::to_string(velocity.size()) + " velocities, the optimizer has " +
                      std::to_string(velocity_.size()));
  }
  std::copy(velocity.begin(), velocity.end(), velocity_.begin());
}

// Squares of floats that are summed up in float: below it, some that count may have been lost.
template <class T>
constexpr double kLeastSquares = sizeof(T) == sizeof(float) ? 0x1p-80 : 0x1p-900;

template <class T>
double detail::norm_of_squares(double squares, std::span<const Parameter<T>> weights) noexcept {
  if (squares >= kLeastSquares<T> && is_finite(squares)) return std::sqrt(squares);
  double largest = 0;
  for (const Parameter<T>& weight : weights) {
    for (Index row = 0; row < weight.grad.rows; ++row) {
      for (Index col = 0; col < weight.grad.cols; ++col) {
        const double size = std::abs(static_cast<double>(weight.grad(row, col)));
        if (!is_finite(size)) return std::sqrt(squares);
        largest = std::max(largest, size);
      }
    }
  }
  if (largest == 0) return 0;
  // Times a power of two, which changes no digit.
  const int exponent = std::ilogb(largest);
  double sum = 0;
  for (const Parameter<T>& weight : weights) {
    for (Index row = 0; row < weight.grad.rows; ++row) {
      for (Index col = 0; col < weight.grad.cols; ++col) {
        const double scaled = std::scalbn(static_cast<double>(weight.grad(row, col)), -exponent);
        sum += scaled * scaled;
      }
    }
  }
  return std::scalbn(std::sqrt(sum), exponent);
}

template <class T>
double gradient_norm(std::span<const Parameter<T>> weights, Executor* executor) {
  const detail::WeightPieces<T> all(weights);
  all.check_weights(weights);
  std::vector<double> squares(all.pieces().size());
  const auto& kernels = kernels::layer_kernels<T>();
  over_pieces(all.pieces(), executor, [&](const detail::WeightPiece& piece, Index index) {
    const MatrixView<const T> grad = rows_of(weights[piece.parameter].grad, piece);
    squares[static_cast<std::size_t>(index)] = kernels.sum_of_squares(strided(grad), grad.rows, grad.cols);
  });
  double sum = 0;
  for (const double square : squares) sum += square;
  return detail::norm_of_squares(sum, weights);
}

template <class T>
double clip_gradients(std::span<const Parameter<T>> weights, double max_norm, Executor* executor) {
  require(max_norm > 0, "max_norm", max_norm, "positive");
  const double norm = gradient_norm(weights, executor);
  const double factor = clip_factor(norm, max_norm);
  if (factor == 1 || !std::isfinite(norm)) return norm;
  // A factor below the smallest normal number would have lost its digits: two steps then.
  const bool tiny = factor < static_cast<double>(std::numeric_limits<T>::min());
  const T factors[] = {static_cast<T>(tiny ? std::sqrt(factor) : factor), static_cast<T>(std::sqrt(factor))};
  const detail::WeightPieces<T> all(weights);
  const auto& kernels = kernels::layer_kernels<T>();
  over_pieces(all.pieces(), executor, [&](const detail::WeightPiece& piece, Index) {
    const MatrixView<T> grad = rows_of(weights[piece.parameter].grad, piece);
    for (int step = 0; step < (tiny ? 2 : 1); ++step) {
      kernels.scale(strided(MatrixView<const T>(grad)), factors[step], strided(grad), grad.rows, grad.cols);
    }
  });
  return norm;
}

double CosineSchedule::at(Index step) const noexcept {
  step = std::max<Index>(0, step);
  if (step < warm_up && step < steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  if (step >= steps) return floor;
  // The difference of any two numbers is one without a sign, but need not be an Index.
  const auto since_warm_up = [this](Index later) {
    return static_cast<double>(static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(warm_up));
  };
  const double done = since_warm_up(step) / since_warm_up(steps);
  return floor + (peak - floor) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

template class detail::WeightPieces<float>;
template class detail::WeightPieces<double>;
template class AdamW<float>;
template class AdamW<double>;
template class Sgd<float>;
template class Sgd<double>;
template double detail::norm_of_squares(double, std::span<const Parameter<float>>) noexcept;
template double detail::norm_of_squares(double, std::span<const Parameter<double>>) noexcept;
template double gradient_norm(std::span<const Parameter<float>>, Executor*);
template double gradient_norm(std::span<const Parameter<double>>, Executor*);
template double clip_gradients(std::span<const Parameter<float>>, double, Executor*);
template double clip_gradients(std::span<const Parameter<double>>, double, Executor*);

}  // namespace heed
