#pragma once

// Checks that the plans of attention share.

#include <initializer_list>
#include <span>

#include "core/require.hpp"
#include "heed/attention/mask.hpp"
#include "heed/attention/plan.hpp"

namespace heed::detail {

struct NamedView {
  const UntypedView* view;
  const char* name;
};

/// Throws if a result overlaps an input, a matrix of the mask or another result.
inline void require_results_apart(std::span<const NamedView> results, std::initializer_list<NamedView> inputs,
                                  const Mask& mask) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const NamedView& result = results[i];
    for (const NamedView& input : inputs) require_apart(*result.view, result.name, *input.view, input.name);
    for (const MaskMatrix& matrix : mask.matrices())
      require_apart(*result.view, result.name, matrix.entries, name_of(matrix.kind));
    for (const NamedView& other : results.subspan(i + 1))
      require_apart(*result.view, result.name, *other.view, other.name);
  }
}
inline void require_results_apart(std::initializer_list<NamedView> results,
                                  std::initializer_list<NamedView> inputs, const Mask& mask) {
  require_results_apart(std::span(results.begin(), results.size()), inputs, mask);
}

/// Throws ShapeError for a view of the wrong size; wherever they lie.
void check_sizes(const AttentionShape& shape, const UntypedAttentionTensors& tensors);

}  // namespace heed::detail
