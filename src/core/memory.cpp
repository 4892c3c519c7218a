// How much memory the machine has, and the error for a wish beyond it.

#include "heed/core/memory.hpp"

#include <unistd.h>

#include "heed/core/error.hpp"

namespace heed {

std::uint64_t physical_memory() noexcept {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return detail::kUncountableBytes;
  return detail::times_bytes(static_cast<std::uint64_t>(pages), static_cast<std::uint64_t>(page_bytes));
}

void detail::throw_no_memory(std::uint64_t bytes, const std::string& what) {
  const std::string needed =
      bytes == kUncountableBytes ? "more bytes than can be counted" : std::to_string(bytes) + " bytes";
  throw_argument_error(what + " needs " + needed + ", this machine has " + std::to_string(physical_memory()) +
                       " bytes of memory");
}

}  // namespace heed
