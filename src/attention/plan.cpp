// AttentionPlan: how an attention is cut into items and blocks, and the workspace that they need.

#include "heed/attention/plan.hpp"

#include <algorithm>
#include <string>

#include "attention/blocks.hpp"
#include "heed/core/error.hpp"
#include "kernels/kernels.hpp"

namespace heed {

template <class T>
AttentionPlan<T>::AttentionPlan(const AttentionShape& shape, const Mask& mask, const ScoreOptions& options,
                                Index threads, const ScoreFunctions<T>& functions)
    : shape_(shape),
      mask_(mask),
      functions_(functions),
      numbers_(shape, mask, options, functions.any()),
      asked_threads_(threads) {
  if (threads < 1) throw_argument_error("threads is " + std::to_string(threads) + ", it must be at least 1");
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
  threads_ = std::clamp<Index>(std::min(threads, detail::kMaxThreads), 1, std::max<Index>(1, num_items()));
  thread_bytes_ = detail::thread_bytes(kernels::kernels_of<T>(kernels::table()), shape_, block_rows_,
                                       {masked(), numbers_.rotary_table != nullptr});
}

template <class T>
Index AttentionPlan<T>::num_items() const noexcept {
  if (!first_items_.empty()) return first_items_.back();
  return shape_.batch_size * groups_ * blocks_per_group_;
}

template <class T>
bool AttentionPlan<T>::masked() const noexcept {
  return !mask_.matrices().empty() || functions_.any();
}

template class AttentionPlan<float>;
template class AttentionPlan<double>;

}  // namespace heed
