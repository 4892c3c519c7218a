#pragma once

#include <string>

namespace heed::bench {

/// As the system names it, "AMD EPYC 7763 64-Core Processor", or "unknown processor".
std::string processor();

/// What compiled the benchmarks and Heed: "GCC 12.2.0".
std::string compiler();

/// Of the Eigen that plain Eigen products are compiled from.
std::string eigen_version();

}  // namespace heed::bench
