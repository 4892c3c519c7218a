#pragma once

// How layers name their weights: one walk for numbers, gradients, optimizers and files.

#include "heed/core/config.hpp"

#include <string>

namespace heed {

namespace detail {

/// A name that no caller asked for, and that costs nothing.
struct NoName {
  template <class Part>
  NoName operator+(const Part&) const noexcept {
    return {};
  }
};

}  // namespace detail

/// for_each_parameter(f, prefix) for a layer that names its matrices once, in a static visit(self, f,
/// prefix): calls f(name, matrix) for each of its Eigen matrices, in an order that never changes.
/// for_each_matrix(f) calls f(matrix) in the same order and allocates nothing: prefix is then no string, so
/// visit takes it as a type of its own (as GptBlock::visit does).
template <class Layer>
class ParameterWalk {
 public:
  template <class F>
  void for_each_parameter(F&& f, const std::string& prefix = "") {
    Layer::visit(static_cast<Layer&>(*this), f, prefix);
  }
  template <class F>
  void for_each_parameter(F&& f, const std::string& prefix = "") const {
    Layer::visit(static_cast<const Layer&>(*this), f, prefix);
  }

  template <class F>
  void for_each_parameter(F&& f, detail::NoName none) {
    Layer::visit(static_cast<Layer&>(*this), f, none);
  }
  template <class F>
  void for_each_parameter(F&& f, detail::NoName none) const {
    Layer::visit(static_cast<const Layer&>(*this), f, none);
  }

  template <class F>
  void for_each_matrix(F&& f) {
    for_each_parameter([&](detail::NoName, auto& matrix) { f(matrix); }, detail::NoName());
  }
  template <class F>
  void for_each_matrix(F&& f) const {
    for_each_parameter([&](detail::NoName, const auto& matrix) { f(matrix); }, detail::NoName());
  }
};

}  // namespace heed
