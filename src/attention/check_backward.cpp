// With which matrices the gradients of an attention may be asked for.

#include <string>
#include <vector>

#include "attention/require.hpp"
#include "heed/attention/backward_plan.hpp"
#include "heed/core/error.hpp"

namespace heed::detail {

namespace {

/// Throws unless the view has the size of `model`, or is empty and may be.
void require_like(const UntypedView& view, const char* name, const UntypedView& model, const char* model_name,
                  bool optional) {
  if (optional && !wanted(view)) return;
  require_size(view, name, model.rows, model.cols,
               [&] { return std::string(model_name) + " is " + size_text(model) + ", its gradients"; });
}

}  // namespace

void check_backward_tensors(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
                            const UntypedBackwardTensors& tensors) {
  // out and logsumexp are read here and may lie anywhere: what the forward check says of their places is for
  // those that are written.
  check_sizes(shape, {tensors.query, tensors.key, tensors.value, tensors.out, {}, {}});
  require_size(tensors.logsumexp, "logsumexp", shape.query_rows(), shape.num_heads, [&] {
    return count_of(shape.query_rows(), "query row") + " and " + count_of(shape.num_heads, "head");
  });
  require_like(tensors.grad_out, "grad_out", tensors.out, "out", false);
  require_like(tensors.grad_query, "grad_query", tensors.query, "query", true);
  require_like(tensors.grad_key, "grad_key", tensors.key, "key", true);
  require_like(tensors.grad_value, "grad_value", tensors.value, "value", true);
  if (wanted(tensors.grad_sinks)) {
    if (options.sinks.empty()) throw_argument_error("grad_sinks is wanted, there are no sinks");
    require_size(tensors.grad_sinks, "grad_sinks", 1, shape.num_heads,
                 [&] { return count_of(shape.num_heads, "head"); });
  }

  std::vector<NamedView> results = {{&tensors.grad_query, "grad_query"},
                                    {&tensors.grad_key, "grad_key"},
                                    {&tensors.grad_value, "grad_value"},
                                    {&tensors.grad_sinks, "grad_sinks"}};
  Index biases = 0;
  for (const MaskMatrix& matrix : mask.matrices()) {
    if (matrix.kind != MaskMatrix::Kind::bias) continue;
    const auto i = static_cast<std::size_t>(biases++);
    if (i >= tensors.grad_biases.size()) continue;
    require_like(tensors.grad_biases[i], "grad_bias", matrix.entries, "bias", true);
    results.push_back({&tensors.grad_biases[i], "grad_bias"});
  }
  if (!tensors.grad_biases.empty() && static_cast<Index>(tensors.grad_biases.size()) != biases) {
    throw_shape_error("grad_biases has " +
                      count_of(static_cast<Index>(tensors.grad_biases.size()), "matrix") + ", the mask has " +
                      count_of(biases, "bias"));
  }
  require_results_apart(results,
                        {{&tensors.query, "query"},
                         {&tensors.key, "key"},
                         {&tensors.value, "value"},
                         {&tensors.out, "out"},
                         {&tensors.logsumexp, "logsumexp"},
                         {&tensors.grad_out, "grad_out"}},
                        mask);
}

}  // namespace heed::detail
