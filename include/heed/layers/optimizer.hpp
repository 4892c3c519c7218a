#pragma once

// What changes weights by their gradients. An optimizer is handed the walk over a model's weights
// (parameters.hpp); it knows no model.
//
//   auto weights = heed::parameters(model, gradients);
//   heed::AdamW<float> optimizer(weights, {.weight_decay = 0.1});
//   heed::clip_gradients(weights, 1.0);
//   optimizer.step(weights, 1e-3);

#include "heed/core/config.hpp"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "heed/core/executor.hpp"
#include "heed/core/scalar.hpp"
#include "heed/layers/parameter.hpp"

namespace heed {

namespace detail {

/// Pieces of matrices of weights, so large that a thread's call is earned. Cut from the sizes alone.
struct WeightPiece {
  std::size_t parameter = 0;
  Index first_row = 0;
  Index rows = 0;
  std::size_t offset = 0;  ///< The place of its first element among all.
};

template <class T>
class HEED_EXPORT WeightPieces {
 public:
  explicit WeightPieces(std::span<const Parameter<T>> weights);

  std::span<const WeightPiece> pieces() const noexcept { return pieces_; }
  std::size_t size() const noexcept { return size_; }

  /// Throws ShapeError unless the weights have the sizes of those that were cut, and gradients.
  void check_weights(std::span<const Parameter<T>> weights) const;

 private:
  std::vector<WeightPiece> pieces_;
  std::vector<std::pair<Index, Index>> sizes_;
  std::size_t size_ = 0;  ///< Elements of all together.
};

/// Returns the norm of gradients whose squares add up to `squares`; where those are beyond all numbers or
/// below the smallest, it looks at the gradients again. T is float or double.
template <class T>
HEED_EXPORT double norm_of_squares(double squares, std::span<const Parameter<T>> weights) noexcept;

extern template double norm_of_squares(double, std::span<const Parameter<float>>) noexcept;
extern template double norm_of_squares(double, std::span<const Parameter<double>>) noexcept;

}  // namespace detail

/// The numbers of AdamW, but for the rate, which each step is given.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  ///< Decays matrices; biases and the weights of norms do not decay.
};

/// Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019):
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///   w = w (1 - rate weight_decay) - rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
/// t counts steps, once for all weights. A gradient whose square is no number counts as the largest whose
/// square is one: its weight moves as far as by that, and goes on learning. Memory: two numbers for each
/// weight, taken by the constructor; step() allocates nothing. T is float or double.
template <class T>
class HEED_EXPORT AdamW {
  static_assert(detail::require_kernels<T>());

 public:
  /// Throws ArgumentError for options out of range.
  explicit AdamW(std::span<const Parameter<T>> weights, const AdamWOptions& options = {});

  /// Changes the weights by one step. Gradients are multiplied by grad_factor first, so that clipping needs
  /// no pass of its own. Throws ShapeError, before anything changes, unless the weights have the sizes of the
  /// constructor's; ArgumentError for a rate that is negative or not finite.
  void step(std::span<const Parameter<T>> weights, double rate, double grad_factor = 1,
            Executor* executor = nullptr);

  /// Steps so far.
  Index steps() const noexcept { return steps_; }

  /// Returns the state, weight after weight in the order of the walk, each row by row: for checkpoints.
  std::span<const T> first_moments() const noexcept { return first_; }
  std::span<const T> second_moments() const noexcept { return second_; }

  /// Throws ArgumentError if step() would, for this rate.
  void check_rate(double rate) const;

  /// Takes a state up again. Throws ShapeError if the sizes differ, ArgumentError, before anything changes,
  /// for a count or moments that no training can have.
  void restore(Index steps, std::span<const T> first_moments, std::span<const T> second_moments);

 private:
  AdamWOptions options_;
  detail::WeightPieces<T> pieces_;
  std::vector<T> first_;
  std::vector<T> second_;
  Index steps_ = 0;
};

/// The numbers of Sgd, but for the rate, which each step is given.
struct SgdOptions {
  double momentum = 0;      ///< v = momentum v + g.
  double weight_decay = 0;  ///< Added to the gradient of matrices: g + weight_decay w.
};

/// w = w - rate v: gradient descent, with momentum if it is given (Sutskever et al. 2013). Memory: with
/// momentum a number for each weight.
template <class T>
class HEED_EXPORT Sgd {
  static_assert(detail::require_kernels<T>());

 public:
  /// Throws ArgumentError for options out of range.
  explicit Sgd(std::span<const Parameter<T>> weights, const SgdOptions& options = {});

  /// Changes the weights by one step. Sizes, errors and grad_factor are as for AdamW::step.
  void step(std::span<const Parameter<T>> weights, double rate, double grad_factor = 1,
            Executor* executor = nullptr);

  /// Returns the state, laid out as AdamW's moments; empty without momentum. restore() throws ShapeError for
  /// another size.
  std::span<const T> velocity() const noexcept { return velocity_; }
  void restore(std::span<const T> velocity);

 private:
  SgdOptions options_;
  detail::WeightPieces<T> pieces_;
  std::vector<T> velocity_;
};

/// Returns the Euclidean norm of all gradients together, summed up in one order, whatever the number of
/// threads. Gradients of any size have their norm, also where their squares are no numbers; it is infinite
/// only beyond the largest double.
template <class T>
HEED_EXPORT double gradient_norm(std::span<const Parameter<T>> weights, Executor* executor = nullptr);

/// Scales all gradients so that their norm is at most max_norm, and returns the norm that they had (Pascanu
/// et al. 2013). A norm that is not finite changes nothing. Throws ArgumentError unless max_norm is
/// positive.
template <class T>
HEED_EXPORT double clip_gradients(std::span<const Parameter<T>> weights, double max_norm,
                                  Executor* executor = nullptr);

template <class T>
double gradient_norm(const std::vector<Parameter<T>>& weights, Executor* executor = nullptr) {
  static_assert(detail::require_kernels<T>());
  return gradient_norm(std::span<const Parameter<T>>(weights), executor);
}
template <class T>
double clip_gradients(const std::vector<Parameter<T>>& weights, double max_norm,
                      Executor* executor = nullptr) {
  static_assert(detail::require_kernels<T>());
  return clip_gradients(std::span<const Parameter<T>>(weights), max_norm, executor);
}

/// Returns the factor that clip_gradients would scale by.
inline double clip_factor(double norm, double max_norm) {
  return norm > max_norm ? max_norm / norm : 1;
}

extern template class AdamW<float>;
extern template class AdamW<double>;
extern template class Sgd<float>;
extern template class Sgd<double>;
extern template double gradient_norm(std::span<const Parameter<float>>, Executor*);
extern template double gradient_norm(std::span<const Parameter<double>>, Executor*);
extern template double clip_gradients(std::span<const Parameter<float>>, double, Executor*);
extern template double clip_gradients(std::span<const Parameter<double>>, double, Executor*);

/// A learning rate that rises in a straight line to `peak`, which it reaches at the last of `warm_up` steps,
/// then falls along half a cosine to `floor` at step `steps`, where it stays (Loshchilov and Hutter 2017).
struct HEED_EXPORT CosineSchedule {
  double peak = 1e-3;
  double floor = 1e-4;
  Index warm_up = 100;
  Index steps = 1000;

  /// Returns the rate of step 0, 1, ...
  double at(Index step) const noexcept;
};

}  // namespace heed
