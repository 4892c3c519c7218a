#pragma once

// The weights of a layer or model, one after another and by name: what an optimizer is handed, what a
// checkpoint stores.
//
//   heed::Gpt<float> gradients = heed::zeros_like(model);
//   const auto weights = heed::parameters(model, gradients);
//   for (const auto& w : weights) std::cout << w.name << ": " << w.value.rows << " x " << w.value.cols <<
//   '\n';
//
// Each layer has for_each_parameter(f), which calls f(name, matrix) for each of its Eigen matrices, in an
// order that never changes; a model does so for its layers, with their names in front:
// "blocks.0.norm1.weight". The gradients of a layer are an object of the layer's own type.

#include "heed/core/config.hpp"

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "heed/core/eigen.hpp"
#include "heed/core/error.hpp"
#include "heed/core/memory.hpp"
#include "heed/layers/detail/parameter_walk.hpp"
#include "heed/layers/parameter.hpp"

namespace heed {

/// All weights of a layer with their gradients. Throws ShapeError, naming the matrix, if the gradients are
/// not of a layer of equal sizes.
template <template <class> class Layer, class Scalar>
std::vector<Parameter<Scalar>> parameters(Layer<Scalar>& layer, Layer<Scalar>& gradients) {
  std::vector<Parameter<Scalar>> list;
  layer.for_each_parameter([&](const std::string& name, auto& matrix) {
    const bool decays = !std::remove_reference_t<decltype(matrix)>::IsVectorAtCompileTime;
    list.push_back({name, mutable_view(matrix), {}, decays});
  });
  std::size_t next = 0;
  gradients.for_each_parameter([&](const std::string& name, auto& matrix) {
    const bool fits = next < list.size() && list[next].name == name &&
                      list[next].value.rows == matrix.rows() && list[next].value.cols == matrix.cols();
    if (!fits)
      throw_shape_error("the gradient " + name + " (" + size_text(view(matrix)) + ") belongs to no weight");
    list[next++].grad = mutable_view(matrix);
  });
  if (next != list.size()) throw_shape_error("the weight " + list[next].name + " has no gradient");
  return list;
}

/// All weights without gradients, to be read or set.
template <template <class> class Layer, class Scalar>
std::vector<Parameter<Scalar>> parameters(Layer<Scalar>& layer) {
  std::vector<Parameter<Scalar>> list = parameters(layer, layer);
  for (Parameter<Scalar>& parameter : list) parameter.grad = {};
  return list;
}

/// Returns how many numbers a layer has to learn.
template <class Layer>
Index num_parameters(const Layer& layer) {
  Index count = 0;
  layer.for_each_parameter([&](const std::string&, const auto& matrix) { count += matrix.size(); });
  return count;
}

template <class Layer>
void set_zero(Layer& layer) {
  layer.for_each_parameter([](const std::string&, auto& matrix) { matrix.setZero(); });
}

/// Returns a layer of equal sizes whose weights are all 0: room for gradients.
template <class Layer>
Layer zeros_like(const Layer& layer) {
  Layer zeros = layer;
  set_zero(zeros);
  return zeros;
}

}  // namespace heed
