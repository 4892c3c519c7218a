// One version in the headers and in the library.

#include <string>

#include "catch.hpp"
#include "heed/core/version.hpp"

TEST_CASE("the compiled library and its headers have one version", "[version]") {
  const std::string headers = std::to_string(HEED_VERSION_MAJOR) + "." + std::to_string(HEED_VERSION_MINOR) +
                              "." + std::to_string(HEED_VERSION_PATCH);
  CHECK(heed::version() == headers);
}
