#pragma once

// What several tests share: random matrices, the long double oracle, and memory that is awkward on purpose.

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "heed/attention.hpp"
#include "heed/core/random.hpp"

namespace heed::test {

// Under a sanitizer or an emulator the long double loops take minutes: tests take smaller samples there.
#if defined(HEED_SANITIZED) || defined(HEED_EMULATED)
inline constexpr bool kSlowRun = true;
#else
inline constexpr bool kSlowRun = false;
#endif

template <class Scalar>
Matrix<Scalar> random_matrix(Index rows, Index cols, std::uint64_t seed, double bound = 1.0) {
  Random random(seed);
  Matrix<Scalar> m(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) m(i, j) = static_cast<Scalar>(random.uniform(-bound, bound));
  }
  return m;
}

template <class A, class B>
bool same_bits(const Eigen::DenseBase<A>& a, const Eigen::DenseBase<B>& b) {
  using Scalar = typename A::Scalar;
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  const Matrix<Scalar> x = a;
  const Matrix<Scalar> y = b;
  return x.size() == 0 ||
         std::memcmp(x.data(), y.data(), sizeof(Scalar) * static_cast<std::size_t>(x.size())) == 0;
}

/// The message of the Exception that f throws; "nothing" or "another exception" else.
template <class Exception, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  } catch (...) {
    return "another exception";
  }
  return "nothing";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <class Scalar>
inline const Scalar kInf = std::numeric_limits<Scalar>::infinity();
template <class Scalar>
inline const Scalar kNaN = std::numeric_limits<Scalar>::quiet_NaN();

/// Query, key and value of one problem.
template <class Scalar>
struct Inputs {
  Matrix<Scalar> query;
  Matrix<Scalar> key;
  Matrix<Scalar> value;

  template <class Other>
  Inputs<Other> cast() const {
    return {query.template cast<Other>(), key.template cast<Other>(), value.template cast<Other>()};
  }
};

template <class Scalar>
Inputs<Scalar> random_inputs(const AttentionShape& s, std::uint64_t seed, double bound = 1.0) {
  return {random_matrix<Scalar>(s.batch_size * s.query_len, s.num_heads * s.head_dim, seed, bound),
          random_matrix<Scalar>(s.batch_size * s.kv_len, s.num_kv_heads * s.head_dim, seed + 1, bound),
          random_matrix<Scalar>(s.batch_size * s.kv_len, s.num_kv_heads * s.value_dim, seed + 2, bound)};
}

inline AttentionOptions options_for(const AttentionShape& s, const Mask& mask = {}) {
  AttentionOptions options;
  options.mask = mask;
  options.num_heads = s.num_heads;
  options.num_kv_heads = s.num_kv_heads;
  options.batch_size = s.batch_size;
  return options;
}

/// The naive loops of reference.hpp in the given scalar.
template <class Scalar>
AttentionResult<Scalar> naive(const AttentionShape& s, const Inputs<Scalar>& in, const Mask& mask = {},
                              std::optional<double> scale = std::nullopt) {
  AttentionResult<Scalar> result;
  result.out.resize(s.batch_size * s.query_len, s.num_heads * s.value_dim);
  result.weights.resize(s);
  result.logsumexp.resize(s.batch_size * s.query_len, s.num_heads);
  AttentionTensors<Scalar> tensors;
  tensors.query = view(in.query);
  tensors.key = view(in.key);
  tensors.value = view(in.value);
  tensors.out = mutable_view(result.out);
  tensors.weights = mutable_view(result.weights.stacked);
  tensors.logsumexp = mutable_view(result.logsumexp);
  ScoreOptions options;
  options.scale = scale;
  reference::attention(s, mask, options, tensors);
  return result;
}

/// A matrix whose elements lie `step` apart in rows of odd length, at an address that no vector is aligned
/// to.
template <class Scalar>
class AwkwardMatrix {
 public:
  AwkwardMatrix(const Matrix<Scalar>& values, Index step)
      : step_(step),
        row_(values.cols() * step + 3),
        rows_(values.rows()),
        cols_(values.cols()),
        memory_(static_cast<std::size_t>(rows_ * row_ + 1), kNaN<Scalar>) {
    map() = values;
  }

  auto map() {
    using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
    return Eigen::Map<Matrix<Scalar>, Eigen::Unaligned, Strides>(memory_.data() + 1, rows_, cols_,
                                                                 Strides(row_, step_));
  }

 private:
  Index step_;
  Index row_;
  Index rows_;
  Index cols_;
  std::vector<Scalar> memory_;
};

}  // namespace heed::test
