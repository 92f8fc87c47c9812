#include "core/control_group.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/temporary_directory.h"

using namespace lockstep;
namespace fs = std::filesystem;

namespace {

struct MadeGroups {
  TemporaryDirectory directory;
  fs::path proc = directory.path() / "proc", cgroups = directory.path() / "cgroup";

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<double> limit() const { return cpu_limit(proc, cgroups); }
};

}  // namespace

TEST_CASE("control group: the least CPU limit of a group and its parents, cgroup v2") {
  MadeGroups made;
  made.write(made.proc / "self/cgroup", "0::/job/step\n");
  made.write(made.cgroups / "cgroup.controllers", "cpu\n");
  made.write(made.cgroups / "job/step/cpu.max", "max 100000\n");
  CHECK_FALSE(made.limit());
  made.write(made.cgroups / "job/cpu.max", "250000 100000\n");
  CHECK(made.limit() == 2.5);
  made.write(made.cgroups / "job/step/cpu.max", "300000 100000\n");
  CHECK(made.limit() == 2.5);
  made.write(made.cgroups / "cpu.max", "50000 100000\n");
  CHECK(made.limit() == 0.5);
}

TEST_CASE("control group: the CPU limit, cgroup v1") {
  MadeGroups made;
  made.write(made.proc / "self/cgroup", "4:cpu,cpuacct:/job\n2:memory:/other\n0::/\n");
  made.write(made.cgroups / "cpu/job/cpu.cfs_period_us", "100000\n");
  made.write(made.cgroups / "cpu/job/cpu.cfs_quota_us", "-1\n");
  CHECK_FALSE(made.limit());
  made.write(made.cgroups / "cpu/job/cpu.cfs_quota_us", "400000\n");
  CHECK(made.limit() == 4);
}

TEST_CASE("control group: no limit where no control groups are mounted") {
  MadeGroups made;
  CHECK_FALSE(made.limit());
  CHECK(own_groups("cpu", made.proc, made.cgroups).empty());
}
