// The laws of functions on rows, and of layers made of them: against loops in long double, in any layout of
// memory, in place, on any threads, alone or among other rows; and gradients against differences of a loss.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "heed/core/executor.hpp"
#include "heed/core/random.hpp"
#include "heed/layers/activation.hpp"
#include "heed/layers/norm.hpp"
#include "heed/layers/parameters.hpp"
#include "heed/layers/reference.hpp"
#include "heed/layers/rows.hpp"
#include "helpers.hpp"

namespace heed::test {

using Exact = long double;

inline constexpr Activation kActivations[] = {Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                              Activation::relu};

/// A matrix in memory of its own, in any layout; the memory between and around its elements holds -7.
template <class T>
class Laid {
 public:
  enum Layout { by_rows, by_columns, misaligned, every_third, backwards };

  Laid(const Matrix<T>& values, Layout layout) {
    const Index rows = values.rows();
    const Index cols = values.cols();
    const Index step = layout == every_third ? 3 : 1;
    const Index row = layout == by_rows ? cols : step * cols + 3;
    memory_.assign(static_cast<std::size_t>(rows * row + cols * rows + 2), T(-7));
    view_ = {memory_.data(), rows, cols, row, step};
    if (layout == by_columns) view_ = {memory_.data() + 1, rows, cols, 1, rows};
    if (layout == misaligned || layout == every_third) ++view_.data;
    if (layout == backwards) view_ = {memory_.data() + rows * row, rows, cols, -row, -1};
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < cols; ++j) view_(i, j) = values(i, j);
    }
  }
  Laid(const Laid&) = delete;
  Laid(Laid&&) noexcept = default;  // its memory stays where it is

  const MatrixView<T>& view() const { return view_; }

  Matrix<T> values() const {
    Matrix<T> m(view_.rows, view_.cols);
    for (Index i = 0; i < m.rows(); ++i) {
      for (Index j = 0; j < m.cols(); ++j) m(i, j) = view_(i, j);
    }
    return m;
  }

  /// Nothing but elements has been written.
  bool rest_untouched() const {
    std::vector<T> expected(memory_.size(), T(-7));
    for (Index i = 0; i < view_.rows; ++i) {
      for (Index j = 0; j < view_.cols; ++j)
        expected[static_cast<std::size_t>(&view_(i, j) - memory_.data())] = view_(i, j);
    }
    return std::memcmp(expected.data(), memory_.data(), expected.size() * sizeof(T)) == 0;
  }

 private:
  std::vector<T> memory_;
  MatrixView<T> view_;
};

template <class T>
using ReadViews = std::vector<MatrixView<const T>>;
template <class T>
using WriteViews = std::vector<MatrixView<T>>;

template <class T>
struct Operand {
  Matrix<T> values;
  bool by_row;  // row i belongs to row i of the result; else the matrix is the same for all rows
};

/// One function of RowFunctions, on operands.
template <class T>
struct Problem {
  Index rows;
  std::vector<Operand<T>> in;
  std::vector<Operand<T>> out;                // what is in them before
  std::vector<std::pair<int, int>> in_place;  // output, and the input that it may be
  std::vector<double> factors;                // errors allowed, in eps of an element's size, for each output
  double number_factor = 0;                   // the same for the numbers
};

template <class T>
struct Results {
  std::vector<Matrix<T>> out;
  std::vector<double> numbers;  // what a function returns beside matrices

  bool operator==(const Results& other) const {
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (!same_bits(out[k], other.out[k])) return false;
    }
    return numbers == other.numbers;
  }
};

/// call(functions, in, out, first_row, executor) returns numbers. shared: the output and the input that are
/// one matrix.
template <class T, class Call>
Results<T> run(const Problem<T>& p, const Call& call, typename Laid<T>::Layout layout, Executor* executor,
               std::pair<int, int> shared = {-1, -1}, Index row = -1) {
  const auto values = [&](const Operand<T>& operand) {
    const bool cut = row >= 0 && operand.by_row && operand.values.rows() > 0;
    return cut ? Matrix<T>(operand.values.row(row)) : operand.values;
  };
  std::vector<Laid<T>> in;
  std::vector<Laid<T>> out;
  ReadViews<T> in_views;
  WriteViews<T> out_views;
  for (const Operand<T>& operand : p.in) {
    in.emplace_back(values(operand), layout);
    in_views.push_back(in.back().view());
  }
  for (const Operand<T>& operand : p.out) {
    out.emplace_back(values(operand), layout);
    out_views.push_back(out.back().view());
  }
  const auto at = [](int index) { return static_cast<std::size_t>(index); };
  if (shared.first >= 0) out_views[at(shared.first)] = in[at(shared.second)].view();
  Results<T> results;
  results.numbers = call(RowFunctions<T>(), in_views, out_views, std::max<Index>(row, 0), executor);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const bool is_shared = shared.first == static_cast<int>(k);
    const Laid<T>& written = is_shared ? in[at(shared.second)] : out[k];
    REQUIRE(written.rest_untouched());
    results.out.push_back(written.values());
  }
  if (shared.first >= 0) return results;
  for (std::size_t k = 0; k < in.size(); ++k) REQUIRE(same_bits(in[k].values(), values(p.in[k])));
  return results;
}

template <class T>
std::vector<Matrix<Exact>> exactly(const std::vector<Operand<T>>& operands) {
  std::vector<Matrix<Exact>> result;
  result.reserve(operands.size());
  for (const Operand<T>& operand : operands) result.push_back(operand.values.template cast<Exact>());
  return result;
}

/// The largest error, in eps of `sizes`.
template <class T>
double error_in_eps(const Matrix<T>& x, const Matrix<Exact>& exact, const Matrix<Exact>& sizes) {
  Exact worst = 0;
  for (Index i = 0; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) {
      const Exact error = std::abs(x(i, j) - exact(i, j));
      if (error > 0) worst = std::max(worst, error / (sizes(i, j) * std::numeric_limits<T>::epsilon()));
      if (std::isnan(error)) return kInf<double>;
    }
  }
  return static_cast<double>(worst);
}

// Times 200 columns: enough for threads.
inline constexpr Index kManyRows = 170;

inline ThreadPool& pool_of(Index threads) {
  static ThreadPool one(1);
  static ThreadPool four(4);
  return threads == 1 ? one : four;
}

/// All laws of one function. size(in, outputs before, outputs) says for each element of each output how large
/// the numbers are that it is summed up from.
template <class T, class Call, class Size>
void check_function(const std::string& name, const Problem<T>& p, const Call& call, const Size& size) {
  CAPTURE(name);
  const Results<T> plain = run(p, call, Laid<T>::by_rows, nullptr);
  if (p.rows == kManyRows) {
    REQUIRE(run(p, call, Laid<T>::misaligned, &pool_of(1)) == plain);
    REQUIRE(run(p, call, Laid<T>::misaligned, &pool_of(4)) == plain);
    if (!p.in_place.empty()) REQUIRE(run(p, call, Laid<T>::by_rows, &pool_of(4), p.in_place.back()) == plain);
    return;
  }

  const std::vector<Matrix<Exact>> in = exactly(p.in);
  std::vector<Matrix<Exact>> exact = exactly(p.out);
  ReadViews<Exact> in_views;
  WriteViews<Exact> out_views;
  for (const auto& m : in) in_views.push_back(view(m));
  for (auto& m : exact) out_views.push_back(mutable_view(m));
  const std::vector<Matrix<Exact>> before = exact;
  const auto numbers = call(reference::RowFunctions<Exact>(), in_views, out_views, Index{0}, nullptr);
  const auto sizes = size(in, before, exact);
  for (std::size_t k = 0; k < exact.size(); ++k) {
    const double error = error_in_eps(plain.out[k], exact[k], sizes[k]);
    CAPTURE(k, error);
    REQUIRE(error <= p.factors[k]);
  }
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    CAPTURE(numbers[n], plain.numbers[n]);
    REQUIRE(std::abs(plain.numbers[n] - numbers[n]) <=
            p.number_factor * std::numeric_limits<T>::epsilon() * (1 + std::abs(numbers[n])));
  }

  for (const auto layout : {Laid<T>::by_rows, Laid<T>::by_columns, Laid<T>::misaligned, Laid<T>::every_third,
                            Laid<T>::backwards}) {
    CAPTURE(layout);
    REQUIRE(run(p, call, layout, nullptr) == plain);
    for (const auto& shared : p.in_place) REQUIRE(run(p, call, layout, nullptr, shared) == plain);
  }
  for (Index row = 0; row < p.rows; row += std::max<Index>(1, p.rows / 3)) {
    const Results<T> alone = run(p, call, Laid<T>::by_rows, nullptr, {-1, -1}, row);
    for (std::size_t k = 0; k < p.out.size(); ++k) {
      if (p.out[k].by_row) REQUIRE(same_bits(alone.out[k], plain.out[k].row(row)));
    }
    if (alone.numbers.size() == 1 && plain.numbers.size() > 1)
      REQUIRE(alone.numbers[0] == plain.numbers[static_cast<std::size_t>(row)]);
  }
}

// Around the lanes of every instruction set, and with tails behind several packets.
inline const std::vector<Index> kColumns =
    kSlowRun ? std::vector<Index>{0, 1, 3, 5, 9, 17, 65}
             : std::vector<Index>{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 65, 200};

template <class F>
void for_each_size(const F& f) {
  std::uint64_t seed = 1;
  for (const Index rows : {0, 1, 3}) {
    for (const Index cols : kColumns) {
      CAPTURE(rows, cols);
      f(rows, cols, seed += 10);
    }
  }
  f(kManyRows, Index{200}, seed += 10);
}

template <class T>
Operand<T> rows_operand(Index rows, Index cols, std::uint64_t seed, double bound = 1) {
  return {random_matrix<T>(rows, cols, seed, bound), true};
}
template <class T>
Operand<T> shared_operand(Index rows, Index cols, std::uint64_t seed) {
  return {random_matrix<T>(rows, cols, seed), false};
}

inline const std::vector<double> kNoNumbers;

inline Matrix<Exact> abs_of(const Matrix<Exact>& m) {
  return m.cwiseAbs();
}

/// Each row's mean, in all of its columns.
inline Matrix<Exact> mean_of_rows(const Matrix<Exact>& m) {
  return m.rowwise().mean().replicate(1, m.cols());
}

inline Matrix<Exact> normalized(const Matrix<Exact>& x, const NormOptions& options) {
  Matrix<Exact> n(x.rows(), x.cols());
  reference::RowFunctions<Exact>::norm(view(x), {}, {}, options, mutable_view(n));
  return n;
}

/// Row 0 of m for each row, or `otherwise` where there is none.
inline Matrix<Exact> for_all_rows(const Matrix<Exact>& m, Index rows, Index cols, Exact otherwise) {
  return m.size() > 0 ? Matrix<Exact>(m.replicate(rows, 1)) : Matrix<Exact>::Constant(rows, cols, otherwise);
}

// Differences of a loss: the sum of the elements of a result, each with a factor of its own.

template <class M>
auto weighted_sum(const M& out, const Matrix<typename M::Scalar>& factors) {
  return out.cwiseProduct(factors).sum();
}

/// The derivative of f by the number x, from differences of two steps whose leading errors cancel (Richardson
/// 1911).
template <class T, class F>
T derivative(T& x, const F& f) {
  const T at = x;
  const auto difference = [&](T step) {
    x = at + step;
    const T above = f();
    x = at - step;
    const T below = f();
    x = at;
    return (above - below) / (2 * step);
  };
  constexpr T step = T(0x1p-13);
  return (4 * difference(step / 2) - difference(step)) / 3;
}

/// grad is what a backward pass says, plus before.
template <class T, class F>
void check_gradient(const std::string& name, const MatrixView<T>& numbers, const MatrixView<T>& grad,
                    T before, const F& loss) {
  CAPTURE(name);
  REQUIRE(size_text(numbers) == size_text(grad));
  Matrix<T> expected(numbers.rows, numbers.cols);
  for (Index i = 0; i < numbers.rows; ++i) {
    for (Index j = 0; j < numbers.cols; ++j) expected(i, j) = derivative(numbers(i, j), loss);
  }
  // What is small beside the largest is known as exactly as that.
  const T floor = expected.size() > 0 ? expected.cwiseAbs().maxCoeff() / 100 : T(0);
  REQUIRE(floor > 0);
  for (Index i = 0; i < numbers.rows; ++i) {
    for (Index j = 0; j < numbers.cols; ++j) {
      CAPTURE(i, j);
      const T error = std::abs(grad(i, j) - before - expected(i, j));
      REQUIRE(error <= 1e-8 * std::max(floor, std::abs(expected(i, j))));
    }
  }
}

/// forward(x) and backward(x, grad_out, gradients) of a layer against differences of all of its numbers.
template <template <class> class Layer, class T, class Forward, class Backward>
void check_layer(Layer<T>& layer, Matrix<T> x, const Forward& forward, const Backward& backward) {
  const Matrix<T> out = forward(x);
  const Matrix<T> factors = random_matrix<T>(out.rows(), out.cols(), 77);
  const auto loss = [&] { return weighted_sum(forward(x), factors); };
  Layer<T> gradients = layer;
  gradients.for_each_parameter([](const std::string&, auto& m) { m.setConstant(T(0.5)); });
  Matrix<T> grad_x = backward(x, factors, gradients);
  check_gradient("x", mutable_view(x), mutable_view(grad_x), T(0), loss);
  for (const Parameter<T>& p : parameters(layer, gradients))
    check_gradient(p.name, p.value, p.grad, T(0.5), loss);
}

/// Weights that a constructor leaves at 0 or 1 would hide what they are multiplied with.
template <template <class> class Layer, class T>
void draw_weights(Layer<T>& layer, std::uint64_t seed) {
  layer.for_each_parameter([&](const std::string&, auto& m) {
    m = random_matrix<T>(m.rows(), m.cols(), seed++).template cast<T>();
  });
}

template <template <class> class Layer, class T>
void check_plain_layer(Layer<T> layer, const Matrix<T>& x) {
  draw_weights(layer, 5);
  check_layer(
      layer, x, [&](const Matrix<T>& at) { return layer.forward(at); },
      [&](const Matrix<T>& at, const Matrix<T>& grad_out, Layer<T>& gradients) {
        return layer.backward(at, grad_out, gradients);
      });
}

inline Random& drawing() {
  static Random random(3);
  return random;
}

template <class T>
Matrix<T> row_of(std::initializer_list<double> numbers) {
  Matrix<T> m(1, static_cast<Index>(numbers.size()));
  Index j = 0;
  for (const double number : numbers) m(0, j++) = static_cast<T>(number);
  return m;
}

/// Within half of the last digit of the expected numbers, which have seven behind the point, and a few
/// roundings.
template <class T>
bool near(const Matrix<T>& x, std::initializer_list<double> expected) {
  const Matrix<Exact> difference = x.template cast<Exact>() - row_of<Exact>(expected);
  const double largest = static_cast<double>(row_of<Exact>(expected).cwiseAbs().maxCoeff());
  return x.allFinite() && static_cast<double>(difference.cwiseAbs().maxCoeff()) <=
                              0.51e-7 + 2 * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest;
}

}  // namespace heed::test
