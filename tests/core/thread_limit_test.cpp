#include "core/thread_limit.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/temporary_directory.h"

using namespace lockstep;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("thread limit: the control group with the least headroom is named") {
  TemporaryDirectory directory;
  const auto proc = directory.path() / "proc", cgroups = directory.path() / "cgroup";
  write(proc / "sys/kernel/threads-max", "1000\n");
  write(proc / "1/status", "Name:\tx\nUid:\t0\t0\t0\t0\nThreads:\t30\n");
  SECTION("version 2: the limit of a parent") {
    write(proc / "self/cgroup", "0::/job/step\n");
    write(cgroups / "cgroup.controllers", "pids\n");
    write(cgroups / "job/step/pids.max", "max\n");
    write(cgroups / "job/step/pids.current", "7\n");
    write(cgroups / "job/pids.max", "8\n");
    write(cgroups / "job/pids.current", "7\n");
    CHECK_THAT(describe_thread_limit(proc, cgroups),
               StartsWith("the control group /job allows 8 processes and threads (pids.max) and "
                          "7 exist: raise this limit"));
  }
  SECTION("version 1") {
    write(proc / "self/cgroup", "9:memory:/other\n8:pids:/job\n0::/\n");
    write(cgroups / "pids/job/pids.max", "12\n");
    write(cgroups / "pids/job/pids.current", "3\n");
    write(cgroups / "pids/job/pids.events", "max 2\n");
    CHECK_THAT(describe_thread_limit(proc, cgroups),
               StartsWith("the control group /job allows 12 processes and threads (pids.max) and "
                          "was reached: raise this limit"));
  }
  SECTION("of the machine") {
    write(proc / "2/status", "Name:\ty\nUid:\t7\t7\t7\t7\nThreads:\t970\n");
    if (::getuid() == 0)
      CHECK_THAT(
          describe_thread_limit(proc, cgroups),
          StartsWith("this machine allows 1000 threads (kernel.threads-max) and 1000 exist"));
  }
  SECTION("no limit is close") {
    if (::getuid() == 0)
      CHECK(describe_thread_limit(proc, cgroups) ==
            "no thread limit was reached; memory may be low");
  }
}
