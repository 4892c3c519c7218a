#pragma once

namespace heed::bench {

/// What the machine reads from memory at most, in GB/s: the fastest of several sums over more memory than any
/// cache holds, by so many threads at once.
double read_gbytes(int threads);

}  // namespace heed::bench
