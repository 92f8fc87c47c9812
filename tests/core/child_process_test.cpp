#include "core/system/child_process.h"

#include <catch2/catch.hpp>

#include "lockstep/error.h"
#include "tests/failing_calls.h"

using namespace lockstep;
using Catch::Matchers::StartsWith;

TEST_CASE("child process: a process that the system refuses is reported with the limit") {
  const auto error = without_new_threads([] { ChildProcess child({.program = "true"}); });
  if (!error) {
    WARN("no seccomp filter: not tested");
    return;
  }
  REQUIRE(*error);
  try {
    std::rethrow_exception(*error);
  } catch (const Error& thrown) {
    CHECK(thrown.kind() == ErrorKind::Environment);
    CHECK_THAT(thrown.what(),
               StartsWith("cannot start 'true': Resource temporarily unavailable; "));
    CHECK_THAT(thrown.what(), Catch::Contains("limit") || Catch::Contains("allows"));
  }
}

TEST_CASE("child process: other errors are reported without a limit") {
  CHECK_THROWS_WITH(ChildProcess({.program = "no-such-program"}),
                    "cannot start 'no-such-program': not found in PATH");
}
