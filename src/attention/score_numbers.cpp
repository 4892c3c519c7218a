// The numbers between dot products and weights, turned from options into the kernels' scalar type.

#include "heed/attention/detail/score_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "heed/attention/plan.hpp"
#include "heed/core/error.hpp"

namespace heed::detail {

template <class T>
ScoreNumbers<T>::ScoreNumbers(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
                              bool with_functions)
    : rotary(options.rotary) {
  check_attention(shape, mask, options, scalar_type<T>(), with_functions);
  scale =
      static_cast<T>(options.scale ? *options.scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  if (!std::isfinite(scale)) {
    throw_argument_error("scale is " + detail::number_text(*options.scale) + ", beyond the largest float");
  }
  softcap = static_cast<T>(options.softcap);
  if (!std::isfinite(softcap))
    throw_argument_error("softcap is " + detail::number_text(options.softcap) + ", beyond the largest float");
  if (options.softcap > 0 && !std::isfinite(T(1) / softcap)) {
    throw_argument_error("softcap is " + detail::number_text(options.softcap) +
                         ", so small that its reciprocal is beyond the largest float");
  }
  for (const double slope : mask.alibi_slopes()) {
    if (!std::isfinite(static_cast<T>(slope))) {
      throw_argument_error("a slope of alibi is " + detail::number_text(slope) +
                           ", beyond the largest float");
    }
  }
  for (const double sink : options.sinks) {
    if (std::isinf(static_cast<T>(sink)) && !std::isinf(sink))
      throw_argument_error("a sink is " + detail::number_text(sink) + ", beyond the largest float");
  }
  sinks.assign(options.sinks.begin(), options.sinks.end());
  slopes.assign(mask.alibi_slopes().begin(), mask.alibi_slopes().end());
  const bool alike = shape.query_starts.empty() && shape.kv_starts.empty() && mask.same_for_all();
  first_offset = shape.batch_size > 0 ? mask.query_offset(shape.query_len_of(0), shape.kv_len_of(0), 0) : 0;
  for (Index b = 0; !alike && b < shape.batch_size; ++b)
    query_offsets.push_back(mask.query_offset(shape.query_len_of(b), shape.kv_len_of(b), b));
  if (!rotary) return;
  const bool before_first_key = first_offset < 0 || std::any_of(query_offsets.begin(), query_offsets.end(),
                                                                [](Index offset) { return offset < 0; });
  rotary_table = rotary->table<T>(before_first_key);
}

template struct ScoreNumbers<float>;
template struct ScoreNumbers<double>;

}  // namespace heed::detail
