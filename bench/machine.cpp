#include "machine.hpp"

#include <Eigen/Core>
#include <fstream>

namespace heed::bench {

std::string processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    std::string name =
        colon == std::string::npos ? "" : line.substr(line.find_first_not_of(" \t", colon + 1));
    for (const char* mark : {"(R)", "(TM)"}) {
      for (std::size_t at = name.find(mark); at != std::string::npos; at = name.find(mark)) {
        name.erase(at, std::string(mark).size());
      }
    }
    return name;
  }
  return "unknown processor";
}

std::string compiler() {
#if defined(__clang__)
  return "Clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#else
  return "GCC " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
         std::to_string(__GNUC_PATCHLEVEL__);
#endif
}

std::string eigen_version() {
  // Since Eigen 5 the first of the old three numbers says nothing.
#if EIGEN_MAJOR_VERSION >= 5
  return std::to_string(EIGEN_MAJOR_VERSION) + "." + std::to_string(EIGEN_MINOR_VERSION) + "." +
         std::to_string(EIGEN_PATCH_VERSION);
#else
  return std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
         std::to_string(EIGEN_MINOR_VERSION);
#endif
}

}  // namespace heed::bench
