#pragma once

#include <cstdint>

namespace heed::test {

/// Counts the work of the sources that are compiled with -fsanitize-coverage=trace-pc: the basic blocks that
/// they enter, and the bytes that they or the standard library for them move, set, compare, search or
/// allocate. The same work has the same count on any machine, whatever else it does.
std::uint64_t work_count();

}  // namespace heed::test
