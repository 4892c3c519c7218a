// The version that the library was compiled as.

#include "heed/core/version.hpp"

#define HEED_STRING_OF(x) #x
#define HEED_STRING(x) HEED_STRING_OF(x)

namespace heed {

const char* version() noexcept {
  return HEED_STRING(HEED_VERSION_MAJOR) "." HEED_STRING(HEED_VERSION_MINOR) "." HEED_STRING(
      HEED_VERSION_PATCH);
}

}  // namespace heed
