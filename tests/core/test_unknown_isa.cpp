// An unknown HEED_ISA is one error, whatever a program calls first. Each call is the first one of a process
// of its own: the parent calls none.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "catch.hpp"
#include "engine_calls.hpp"
#include "helpers.hpp"

namespace {

using namespace heed;
using namespace heed::test;

/// Twice in a process that knows no instruction set of this name: the first call and a later one.
bool throws_the_error(const Call& call) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setenv("HEED_ISA", "AVX2", 1);
    const std::string expected = "HEED_ISA is \"AVX2\", known are ";
    const bool thrown = message_of<ArgumentError>(call).rfind(expected, 0) == 0 &&
                        message_of<ArgumentError>(call).rfind(expected, 0) == 0;
    ::_exit(thrown ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}

}  // namespace

TEST_CASE("an unknown HEED_ISA is the same ArgumentError, whatever is called first", "[isa]") {
  EngineCalls engine;
  for (const auto& [name, call] : engine.calls()) {
    CAPTURE(name);
    CHECK(throws_the_error(call));
  }
}
