// What AttentionPlan prints: what was chosen, and why.

#include "attention/plan_text.hpp"

#include "attention/blocks.hpp"
#include "core/require.hpp"
#include "heed/attention/plan.hpp"
#include "kernels/choice.hpp"
#include "kernels/kernels.hpp"

namespace heed {

using detail::count_of;
using detail::plan_line;

namespace {

template <class T>
std::string register_tile(const kernels::Kernels<T>& kernels) {
  const Index columns = kernels.tile_cols / kernels.lanes;
  const Index sums = kernels.tile_rows * columns;
  return std::to_string(kernels.tile_rows) + " x " + std::to_string(kernels.tile_cols) + ": " +
         std::to_string(sums) + " for sums, " + std::to_string(columns) +
         " for columns and 1 for a row take " + std::to_string(sums + columns + 1) + " of " +
         std::to_string(kernels.registers) + " registers of " + count_of(kernels.lanes, "number");
}

template <class T>
std::string query_blocks(const AttentionShape& shape, Index threads, Index count,
                         const kernels::Kernels<T>& kernels) {
  const detail::Blocks blocks = detail::equal_blocks(shape, threads, kernels);
  if (count == 0) return "none: there are no queries";
  const Index high = detail::equal_blocks(shape, 1, kernels).rows;
  const std::string text =
      std::to_string(count) + " of " + (blocks.per_group > 1 ? "up to " : "") + count_of(blocks.rows, "row") +
      ", " + std::to_string(blocks.per_group) +
      (detail::groups_of(shape).heads > 1 ? " for each key/value head, whose heads are the rows: "
                                          : " for each head: ");
  if (blocks.rows < high) {
    return text + "lower than the " + std::to_string(high) + " of one thread, so that more threads have work";
  }
  return text + (blocks.per_group > 1 ? "equal ones" : "all its queries") + ", no more than the " +
         std::to_string(kernels.query_block) + " whose accumulators stay in a second-level cache";
}

std::string threads_text(Index threads, Index asked, bool any_block) {
  if (threads == asked) return std::to_string(threads) + ", as asked for";
  return std::to_string(threads) + " of the " + std::to_string(asked) + " asked for: there " +
         (any_block ? "are no more blocks" : "is nothing to do");
}

}  // namespace

template <class T>
std::string AttentionPlan<T>::options_text() const {
  std::string text;
  if (numbers_.softcap > T(0)) text += ", softcap " + detail::number_text(numbers_.softcap);
  if (!numbers_.sinks.empty()) text += ", sinks";
  if (numbers_.rotary) text += ", " + numbers_.rotary->to_string();
  if (functions_.score != nullptr) text += ", a caller's function of scores";
  if (functions_.hide != nullptr) text += ", a caller's predicate of visibility";
  if (!shape_.query_starts.empty() || !shape_.kv_starts.empty()) {
    text += ", ragged: " + std::to_string(shape_.query_rows()) + " queries and " +
            std::to_string(shape_.kv_rows()) + " keys in all";
  }
  return text;
}

template <class T>
std::string AttentionPlan<T>::to_string() const {
  const kernels::KernelTable& table = kernels::table();
  const auto& kernels = kernels::kernels_of<T>(table);
  const detail::Extras extras = {masked(), numbers_.rotary_table != nullptr};
  const kernels::AttentionBytes bytes = detail::kernel_bytes(kernels, shape_, block_rows_, extras);
  const std::size_t own = detail::thread_bytes(kernels, shape_, block_rows_, extras);
  const std::size_t statistics = detail::statistics_bytes(kernels);
  return "attention " + std::string(sizeof(T) == 4 ? "float" : "double") + ": " +
         count_of(shape_.batch_size, "sequence") + ", " + count_of(shape_.num_heads, "head") + " on " +
         count_of(shape_.num_kv_heads, "key/value head") + ", " + std::to_string(shape_.query_len) +
         " queries x " + std::to_string(shape_.kv_len) + " keys, head_dim " +
         std::to_string(shape_.head_dim) + ", value_dim " + std::to_string(shape_.value_dim) + ", mask " +
         mask_.to_string() + options_text() + "\n" +  //
         plan_line("kernel", table.isa + (", " + kernels::table_reason())) +
         plan_line("register tile", register_tile(kernels)) +
         plan_line("key tiles", "of " + std::to_string(kernels.key_tile) +
                                    " keys, whatever the lengths: where sums are cut shows in the bits") +
         plan_line("query blocks", query_blocks(shape_, asked_threads_, num_items(), kernels)) +
         plan_line("threads", threads_text(threads_, asked_threads_, num_items() > 0)) +
         plan_line("workspace",
                   std::to_string(workspace_bytes()) + " bytes, " +
                       (threads_ > 1 ? std::to_string(own) + " for each thread:" : "of which:")) +
         detail::plan_sizes({{statistics, "maxima and sums of rows"},
                             {bytes.queries, "a block of queries, packed"},
                             {bytes.keys, "a tile of keys, packed"},
                             {bytes.values, "a tile of values, packed"},
                             {bytes.scores, "scores of a register tile"},
                             {bytes.gathered, "rows on their way into a packed tile"},
                             {bytes.masks, "bias and visibility of a register tile"},
                             {own - statistics - bytes.total() + bytes.accumulators, "accumulators"}});
}

template std::string AttentionPlan<float>::options_text() const;
template std::string AttentionPlan<double>::options_text() const;
template std::string AttentionPlan<float>::to_string() const;
template std::string AttentionPlan<double>::to_string() const;

}  // namespace heed
