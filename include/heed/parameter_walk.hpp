#pragma once

#include <string>

namespace heed {

/// for_each_parameter(f, prefix) for a layer that names its matrices once, in a static visit(self, f,
/// prefix): calls f(name, matrix) for each of its Eigen matrices, in an order that never changes.
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
};

}  // namespace heed
