#include "lockstep/error.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "core/standard_exceptions.h"
#include "tests/data/error_of.h"

using namespace lockstep;

TEST_CASE("error: the kind is the exit code of sysexits.h") {
  CHECK(config_error("x").exit_code() == 78);
  CHECK(environment_error("x").exit_code() == 75);
  CHECK(Error(ErrorKind::Bug, "x").exit_code() == 70);
  CHECK(PeerError("x").exit_code() == 75);
}

TEST_CASE("error: a kind has a name") {
  CHECK(std::string(kind_name(ErrorKind::Config)) == "config");
  CHECK(std::string(kind_name(ErrorKind::Environment)) == "environment");
  CHECK(std::string(kind_name(ErrorKind::Bug)) == "bug");
}

TEST_CASE("error: errno_error appends the error of the system call") {
  CHECK(error_of([] {
          errno = ENOSPC;
          throw errno_error("cannot write a.bin");
        }) == "environment: cannot write a.bin: No space left on device");
}

TEST_CASE("error: a failed check is a bug and names its location") {
  CHECK_NOTHROW(check(true, "never seen"));
  const auto line = std::to_string(__LINE__ + 1);
  const auto text = error_of([] { check(false, "two and two are four"); });
  CHECK(text.starts_with("bug: "));
  CHECK(text.find("error_test.cpp:" + line + ": two and two are four") != std::string::npos);
}

TEST_CASE("error: what a plugin throws is a std::exception afterwards") {
  const auto error_of_work = [](const auto& work) {
    return error_of([&] { with_standard_exceptions(work); });
  };
  CHECK(with_standard_exceptions([] { return 3; }) == 3);
  CHECK(error_of_work([] { throw config_error("x"); }) == "config: x");
  CHECK(error_of_work([] { throw 42; }) ==
        "bug: a plugin threw an exception of an unknown type");
}

TEST_CASE("error: a peer's error is a distinguishable Environment error") {
  try {
    throw PeerError("rank 3 is gone");
  } catch (const Error& error) {
    CHECK(dynamic_cast<const PeerError*>(&error) != nullptr);
    CHECK(error.kind() == ErrorKind::Environment);
  }
}
