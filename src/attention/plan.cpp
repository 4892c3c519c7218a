#include <algorithm>
#include <cmath>
#include <string>

#include "attention/blocks.hpp"
#include "heed/attention_plan.hpp"
#include "heed/error.hpp"
#include "kernels/kernels.hpp"

namespace heed {

template <class T>
AttentionPlan<T>::AttentionPlan(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
                                Index threads, const ScoreFunctions<T>& functions)
    : shape_(shape), mask_(mask), functions_(functions), rotary_(options.rotary), asked_threads_(threads) {
  check_attention(shape, mask, options, typeid(T));
  if (threads < 1) throw_argument_error("threads is " + std::to_string(threads) + ", it must be at least 1");
  scale_ =
      static_cast<T>(options.scale ? *options.scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  if (!std::isfinite(scale_)) {
    throw_argument_error("scale is " + std::to_string(*options.scale) + ", beyond the largest float");
  }
  softcap_ = static_cast<T>(options.softcap);
  if (!std::isfinite(softcap_))
    throw_argument_error("softcap is " + std::to_string(options.softcap) + ", beyond the largest float");
  if (softcap_ == T(0) && options.softcap > 0)
    throw_argument_error("softcap is " + std::to_string(options.softcap) + ", below the smallest float");
  for (const double sink : options.sinks) {
    if (std::isinf(static_cast<T>(sink)) && !std::isinf(sink))
      throw_argument_error("a sink is " + std::to_string(sink) + ", beyond the largest float");
  }
  sinks_.assign(options.sinks.begin(), options.sinks.end());
  slopes_.assign(mask.alibi_slopes().begin(), mask.alibi_slopes().end());
  if (rotary_) rotary_table_ = rotary_->table<T>();
  const bool alike = shape.query_starts.empty() && shape.kv_starts.empty() && mask.same_for_all();
  first_offset_ = shape.batch_size > 0 ? mask.query_offset(shape.query_len_of(0), shape.kv_len_of(0), 0) : 0;
  for (Index b = 0; !alike && b < shape.batch_size; ++b)
    query_offsets_.push_back(mask.query_offset(shape.query_len_of(b), shape.kv_len_of(b), b));

  const detail::Blocks blocks =
      detail::equal_blocks(shape, threads, kernels::kernels_of<T>(kernels::table()));
  const detail::Groups groups = detail::groups_of(shape);
  groups_ = groups.count;
  group_heads_ = groups.heads;
  block_rows_ = blocks.rows;
  blocks_per_group_ = blocks.per_group;
  if (!shape.query_starts.empty()) {
    Index items = 0;
    for (Index b = 0; b <= shape.batch_size; ++b) {
      first_items_.push_back(items);
      if (b == shape.batch_size || block_rows_ == 0) continue;
      items += groups.count * ((shape.query_len_of(b) * groups.heads + block_rows_ - 1) / block_rows_);
    }
  }
  threads_ = std::clamp<Index>(threads, 1, std::max<Index>(1, num_items()));
  thread_bytes_ = detail::thread_bytes(kernels::kernels_of<T>(kernels::table()), shape_, block_rows_,
                                       {masked(), rotary_table_ != nullptr});
}

template <class T>
Index AttentionPlan<T>::num_items() const noexcept {
  if (!first_items_.empty()) return first_items_.back();
  return shape_.batch_size * groups_ * blocks_per_group_;
}

template <class T>
bool AttentionPlan<T>::masked() const noexcept {
  return !mask_.matrices().empty() || functions_.hide != nullptr || functions_.score != nullptr;
}

template class AttentionPlan<float>;
template class AttentionPlan<double>;

}  // namespace heed
