#include "launch/workers/start_failure.h"

#include <catch2/catch.hpp>

namespace lockstep::launch {
namespace {

Error failure_of(int code, const std::string& last_line) {
  return start_failure("gpu2", "/opt/lockstep", ProcessExit{.code = code, .signal = {}}, last_line);
}

}  // namespace

TEST_CASE("start failure: the message of ssh is reported with host and suggestion") {
  const auto refused = failure_of(255, "root@gpu2: Permission denied (publickey).");
  CHECK(refused.kind() == ErrorKind::Config);
  CHECK(refused.what() ==
        std::string("cannot start on gpu2: root@gpu2: Permission denied (publickey).; 'ssh gpu2 "
                    "true' must work without a password: add your public key to "
                    "~/.ssh/authorized_keys there, or unlock it with ssh-add"));
  CHECK(failure_of(255, "Host key verification failed.").kind() == ErrorKind::Config);
  CHECK(failure_of(255, "ssh: Could not resolve hostname gpu2: Name or service not known").kind() ==
        ErrorKind::Config);
  CHECK(failure_of(255, "ssh: connect to host gpu2 port 22: Connection refused").kind() ==
        ErrorKind::Environment);
  CHECK(failure_of(255, "").kind() == ErrorKind::Environment);
}

TEST_CASE("start failure: a missing program is reported with its path") {
  const auto missing = failure_of(127, "sh: 1: /opt/lockstep: not found");
  CHECK(missing.kind() == ErrorKind::Config);
  CHECK(missing.what() ==
        std::string("cannot start on gpu2: /opt/lockstep was not found there; install the same "
                    "Lockstep on every host, or give its path with --remote-lockstep PATH"));
  CHECK(failure_of(126, "").kind() == ErrorKind::Config);
}

TEST_CASE("start failure: an error of the remote launcher is reported with its kind") {
  const auto config = failure_of(78, "lockstep: error: cannot change to /x: No such file");
  CHECK(config.kind() == ErrorKind::Config);
  CHECK(config.what() == std::string("cannot start on gpu2: cannot change to /x: No such file"));
  CHECK(failure_of(75, "lockstep: error: no room").kind() == ErrorKind::Environment);
}

TEST_CASE("start failure: other errors are reported unchanged") {
  CHECK(failure_of(1, "Segmentation fault").what() ==
        std::string("cannot start on gpu2: /opt/lockstep exited with code 1: Segmentation fault"));
}

}  // namespace lockstep::launch
