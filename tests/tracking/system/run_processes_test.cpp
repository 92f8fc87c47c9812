#include "tracking/system/run_processes.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/tracking/system/made_system.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

const double kTicksPerSecond = static_cast<double>(::sysconf(_SC_CLK_TCK));
const double kPageBytes = static_cast<double>(::sysconf(_SC_PAGESIZE));

SystemSampler sampler_of(MadeSystem& system, std::vector<int64_t> roots) {
  auto options = system.options();
  options.processes = [roots] { return roots; };
  options.with_pss = true;
  return SystemSampler(options);
}

}  // namespace

TEST_CASE("processes: processes of the run and their descendants are summed") {
  MadeSystem system;
  system.write({.pid = 1, .parent = 0, .threads = 9, .pages = 5000});
  system.write({.pid = 10, .threads = 4, .pages = 100});
  system.write({.pid = 11, .parent = 10, .pages = 20, .name = "a) R (b"});
  system.write({.pid = 12, .parent = 11, .threads = 2, .pages = 3});
  system.write({.pid = 20, .pages = 1});                  // the other root
  system.write({.pid = 30, .parent = 1, .pages = 7000});  // unrelated
  system.write({.pid = 13, .parent = 10, .state = "Z"});  // ended, not yet waited for
  system.open_files(10, 5);
  system.open_files(12, 2);
  system.write("proc/10/smaps_rollup", "00-ff ---p [rollup]\nRss: 400 kB\nPss:  250 kB\n");
  system.write("proc/11/smaps_rollup", "00-ff ---p [rollup]\nPss_Dirty: 9 kB\nPss: 30 kB\n");
  auto sampler = sampler_of(system, {10, 20});
  const auto values = by_name(sampler.sample());
  CHECK(values.at("system/processes.count") == 4);
  CHECK(values.at("system/processes.threads") == 8);
  CHECK(values.at("system/processes.rss_bytes") == 124 * kPageBytes);
  CHECK(values.at("system/processes.pss_bytes") == 280 * 1024.0);
  CHECK(values.at("system/processes.open_fds") == 7);
  CHECK_FALSE(values.contains("system/processes.cpu_percent"));
}

TEST_CASE("processes: CPU time of processes in two samples, 100 percent per core") {
  MadeSystem system;
  const auto ticks = [](double seconds) { return static_cast<int>(seconds * kTicksPerSecond); };
  system.write({.pid = 10, .user = ticks(100), .system = ticks(50)});
  system.write({.pid = 11, .parent = 10, .start = 200, .user = ticks(7)});
  auto sampler = sampler_of(system, {10});
  sampler.sample();
  system.advance(10);
  system.write({.pid = 10, .user = ticks(112), .system = ticks(53)});  // 15 s
  system.write(
      {.pid = 11, .parent = 10, .start = 900, .user = ticks(60)});  // another process by now
  CHECK(by_name(sampler.sample()).at("system/processes.cpu_percent") == Approx(150));
  system.advance(10);
  system.write({.pid = 11, .parent = 10, .start = 900, .user = ticks(65)});
  CHECK(by_name(sampler.sample()).at("system/processes.cpu_percent") == Approx(50));
}

TEST_CASE(
    "processes: a process whose parent exited still belongs to the run, a new one with its ID does "
    "not") {
  MadeSystem system;
  system.write({.pid = 10});
  system.write({.pid = 11, .parent = 10, .start = 200});
  system.write({.pid = 12, .parent = 11, .start = 300});
  auto sampler = sampler_of(system, {10});
  CHECK(by_name(sampler.sample()).at("system/processes.count") == 3);
  system.remove("proc/11");
  system.write({.pid = 12, .parent = 1, .start = 300});
  CHECK(by_name(sampler.sample()).at("system/processes.count") == 2);
  system.write({.pid = 12, .parent = 1, .start = 400});
  CHECK(by_name(sampler.sample()).at("system/processes.count") == 1);
  system.remove("proc/10");
  CHECK(by_name(sampler.sample()).at("system/processes.count") == 0);
}

TEST_CASE("processes: no values if none are watched") {
  MadeSystem system;
  system.write({.pid = 10});
  auto sampler = sampler_of(system, {});
  CHECK_FALSE(by_name(sampler.sample()).contains("system/processes.count"));
}
