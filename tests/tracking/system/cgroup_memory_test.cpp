#include "tracking/system/cgroup_memory.h"

#include <catch2/catch.hpp>

#include "tests/tracking/system/made_system.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

void write_machine(const MadeSystem& system) {
  system.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n");
}

void write_second_generation(const MadeSystem& system, const std::string& group,
                             const std::string& limit, int used_kib, int cache_kib) {
  const auto dir = "sys/fs/cgroup" + group;
  system.write(dir + "/memory.max", limit + "\n");
  system.write(dir + "/memory.current", fmt::format("{}\n", used_kib * 1024));
  system.write(dir + "/memory.stat",
               fmt::format("anon 1\ninactive_file {}\nactive_file 7\n", cache_kib * 1024));
}

NamedValues sample(MadeSystem& system) { return by_name(SystemSampler(system.options()).sample()); }

}  // namespace

TEST_CASE("cgroup: the limit of cgroup v2 is the total memory") {
  MadeSystem system;
  write_machine(system);
  system.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  system.write("proc/self/cgroup", "0::/job/step\n");
  write_second_generation(system, "/job/step", "max", 50, 0);
  write_second_generation(system, "/job", "512000", 150, 50);
  const auto values = sample(system);
  CHECK(values.at("system/memory.total_bytes") == 500 * kKiB);
  CHECK(values.at("system/memory.used_bytes") == 100 * kKiB);  // without the file cache
  CHECK(values.at("system/memory.available_bytes") == 400 * kKiB);
  CHECK(values.at("system/memory.percent") == Approx(20));
}

TEST_CASE("cgroup: the limit with the least free memory counts, including the machine's") {
  MadeSystem system;
  write_machine(system);
  system.write("sys/fs/cgroup/cgroup.controllers", "memory\n");
  system.write("proc/self/cgroup", "0::/job/step\n");
  write_second_generation(system, "/job/step", "512000", 100, 0);  // 400 KiB left
  write_second_generation(system, "/job", "921600", 800, 0);       // 100 KiB left
  auto values = sample(system);
  CHECK(values.at("system/memory.total_bytes") == 900 * kKiB);
  CHECK(values.at("system/memory.available_bytes") == 100 * kKiB);

  write_second_generation(system, "/job", "921600", 300, 0);  // more than the machine has left
  write_second_generation(system, "/job/step", "max", 100, 0);
  CHECK(sample(system).at("system/memory.available_bytes") == 400 * kKiB);

  write_second_generation(system, "/job", "10240000", 300, 0);  // more than the machine has
  CHECK(sample(system).at("system/memory.total_bytes") == 1000 * kKiB);
}

TEST_CASE("cgroup: a container sees its group at the mount, for any path on the host") {
  for (const std::string path : {"0::/\n", "0::/docker/abc\n", "0::/../other\n"}) {
    MadeSystem system;
    write_machine(system);
    system.write("sys/fs/cgroup/cgroup.controllers", "memory\n");
    system.write("proc/self/cgroup", path);
    write_second_generation(system, "", "512000", 100, 0);
    CHECK(sample(system).at("system/memory.total_bytes") == 500 * kKiB);
  }
}

TEST_CASE("cgroup: the limit of cgroup v1") {
  MadeSystem system;
  write_machine(system);
  system.write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/job\n0::/\n");
  const std::string dir = "sys/fs/cgroup/memory";
  system.write(dir + "/memory.limit_in_bytes", "9223372036854771712\n");  // none
  system.write(dir + "/memory.usage_in_bytes", "900000\n");
  system.write(dir + "/memory.stat", "total_inactive_file 0\n");
  system.write(dir + "/job/memory.limit_in_bytes", "512000\n");
  system.write(dir + "/job/memory.usage_in_bytes", "204800\n");
  system.write(dir + "/job/memory.stat", "inactive_file 1\ntotal_inactive_file 102400\n");
  const auto values = sample(system);
  CHECK(values.at("system/memory.total_bytes") == 500 * kKiB);
  CHECK(values.at("system/memory.used_bytes") == 100 * kKiB);
}

TEST_CASE("cgroup: kills of the out-of-memory killer are counted since the start") {
  MadeSystem system;
  system.write("sys/fs/cgroup/cgroup.controllers", "memory\n");
  system.write("proc/self/cgroup", "0::/job\n");
  system.write("sys/fs/cgroup/job/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n");
  system.write("proc/vmstat", "pgfault 5\noom_kill 100\n");
  SystemSampler sampler(system.options());
  CHECK(sampler.oom_kills() == 0);
  CHECK(by_name(sampler.sample()).at("system/oom_kills") == 0);
  system.write("sys/fs/cgroup/job/memory.events", "oom 4\noom_kill 5\noom_group_kill 0\n");
  CHECK(sampler.oom_kills() == 3);
  CHECK(by_name(sampler.sample()).at("system/oom_kills") == 3);
}

TEST_CASE("cgroup: kills with cgroup v1, and without cgroups") {
  MadeSystem first;
  first.write("proc/self/cgroup", "4:memory:/job\n");
  first.write("sys/fs/cgroup/memory/job/memory.oom_control",
              "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  SystemSampler of_group(first.options());
  first.write("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill 2\n");
  CHECK(of_group.oom_kills() == 1);

  MadeSystem none;
  none.write("proc/vmstat", "oom_kill 7\n");
  SystemSampler of_machine(none.options());
  none.write("proc/vmstat", "oom_kill 8\n");
  CHECK(of_machine.oom_kills() == 1);

  MadeSystem nothing;
  SystemSampler sampler(nothing.options());
  CHECK(sampler.oom_kills() == 0);
  CHECK_FALSE(by_name(sampler.sample()).contains("system/oom_kills"));
}
