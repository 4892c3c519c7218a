#pragma once

// What the gradients of a drawn problem are held to: the naive loops, in the same scalar and in long double.

#include <algorithm>

#include "heed/attention/backward.hpp"
#include "option_cases.hpp"

namespace heed::test {

/// A problem with a loss: the sum of the elements of out, each with a factor of its own.
template <class T, int Order = Eigen::RowMajor>
struct Loss {
  Poured<T, Order> in;
  typename Poured<T, Order>::M grad_out;
  AttentionResult<T> forward;

  explicit Loss(const Problem& p)
      : in(p),
        grad_out(
            random_matrix<float>(p.shape.query_rows(), p.shape.num_heads * p.shape.value_dim, p.seed + 99)
                .template cast<T>()) {
    run_forward();
  }
  void run_forward() {
    forward = scaled_dot_product_attention_with_logsumexp(in.query, in.key, in.value, in.options);
  }
  AttentionBackwardTensors<T> tensors() const {
    return detail::backward_tensors(in.query, in.key, in.value, forward.out, forward.logsumexp, grad_out);
  }
  AttentionGradients<T> backward() const {
    return scaled_dot_product_attention_backward(in.query, in.key, in.value, forward, grad_out, in.options);
  }
  T value() {
    run_forward();
    return (forward.out.array() * grad_out.array()).sum();
  }
};

/// f(name, gradient of a, the same of b) for all gradients.
template <class A, class B, class F>
void for_each_gradient(const AttentionGradients<A>& a, const AttentionGradients<B>& b, F f) {
  f("query", a.query, b.query);
  f("key", a.key, b.key);
  f("value", a.value, b.value);
  f("sinks", a.sinks, b.sinks);
  for (std::size_t i = 0; i < std::max(a.biases.size(), b.biases.size()); ++i)
    f("bias", a.biases.at(i), b.biases.at(i));
}

template <class T>
bool same_gradients(const AttentionGradients<T>& a, const AttentionGradients<T>& b) {
  bool same = true;
  for_each_gradient(a, b, [&](const char*, const auto& x, const auto& y) { same = same && same_bits(x, y); });
  return same;
}

/// The naive loops in any scalar type.
template <class T>
AttentionGradients<T> gradient_loops(const Problem& p) {
  const Loss<T> loss(p);
  AttentionBackwardTensors<T> tensors = loss.tensors();
  detail::GradientRoom<T> room(loss.in.options, tensors);
  reference::attention_backward(p.shape, loss.in.options.mask, detail::score_options(loss.in.options),
                                tensors);
  return std::move(room.grads);
}

template <class M>
double largest(const M& m) {
  return m.size() == 0 ? 0 : static_cast<double>(m.cwiseAbs().maxCoeff());
}

/// The largest norm of a head's part of a row.
inline double longest_head(const Matrix<float>& m, Index dim) {
  double longest = 0;
  for (Index i = 0; i < m.rows(); ++i) {
    for (Index col = 0; col < m.cols(); col += dim)
      longest = std::max(longest, m.row(i).segment(col, dim).cast<double>().norm());
  }
  return longest;
}

/// How large the numbers are that a gradient is the difference of: grad_out . value and grad_out . out, and
/// what these are multiplied with.
inline double reach_of(const Problem& p, const Matrix<float>& grad_out) {
  const AttentionShape& s = p.shape;
  const double scale = std::abs(p.scale.value_or(1 / std::sqrt(static_cast<double>(s.head_dim))));
  const double grad = 2 * longest_head(grad_out, s.value_dim) * longest_head(p.in.value, s.value_dim);
  return grad * std::max({1.0, scale * longest_head(p.in.query, s.head_dim),
                          scale * longest_head(p.in.key, s.head_dim)});
}

/// The largest error of a gradient, as a multiple of what is allowed. Each option rounds a score once more,
/// by eps of its size, which is a few ones here.
template <class T>
double gradient_excess(const Problem& p, const AttentionGradients<T>& grads) {
  const auto exact = gradient_loops<long double>(p);
  const auto naive = gradient_loops<T>(p);
  const auto error = [](const auto& x, const auto& truth) {
    return largest((x.template cast<long double>() - truth).eval());
  };
  const double slack =
      8 * static_cast<double>(std::numeric_limits<T>::epsilon()) * reach_of(p, Loss<float>(p).grad_out);
  std::vector<double> allowed;
  for_each_gradient(naive, exact, [&](const char*, const auto& x, const auto& truth) {
    allowed.push_back(2 * error(x, truth) + slack);
  });
  std::size_t at = 0;
  double excess = 0;
  for_each_gradient(grads, exact, [&](const char*, const auto& x, const auto& truth) {
    const double got = x.allFinite() ? error(x, truth) : kInf<double>;
    if (got > 0) excess = std::max(excess, got / allowed[at]);
    ++at;
  });
  return excess;
}

}  // namespace heed::test
