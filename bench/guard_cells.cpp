// What the guards compare, timed in the same loop and the same run as the cells.

#include "contest.hpp"
#include "guards.hpp"

namespace heed::bench {

void register_guards() {
  Cell cell;
  cell.head_dim = cell.value_dim = 64;
  cell.query_len = cell.kv_len = 4;
  cell.name = kEmptyGuard;
  register_timing<float>(cell.name, cell, Contender::nothing);
  for (const bool causal : {false, true}) {
    for (const long length : {kGuardLength, 2 * kGuardLength}) {
      cell.causal = causal;
      cell.query_len = cell.kv_len = length;
      cell.name = length_guard(causal, length);
      register_timing<float>(cell.name, cell, Contender::heed);
    }
  }
}

}  // namespace heed::bench
