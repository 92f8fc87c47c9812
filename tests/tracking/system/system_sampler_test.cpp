#include "tracking/system/system_sampler.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <catch2/catch.hpp>

#include "tests/tracking/system/made_system.h"

using namespace lockstep;
using namespace lockstep::tracking;

TEST_CASE("system: percent of the time that all cores and each of them were busy") {
  MadeSystem system;
  SystemSampler sampler(system.options());
  system.write("proc/stat",
               "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 0 400 0 0 0 0 0 0\n"
               "cpu7 0 0 100 400 0 0 0 0 0 0\nintr 5\n");
  system.write("proc/loadavg", "0.50 1.25 12.00 3/200 777\n");
  auto values = by_name(sampler.sample());
  CHECK(values.at("system/load_average_1m") == 0.5);
  CHECK(values.at("system/load_average_5m") == 1.25);
  CHECK(values.at("system/load_average_15m") == 12);
  CHECK_FALSE(values.contains("system/cpu_percent"));

  // 200 ticks: user 30, nice 10, system 20, idle 70, iowait 30, irq 15, softirq 5, steal 20
  system.write("proc/stat",
               "cpu  130 10 120 870 30 15 5 20 0 0\ncpu0 130 10 0 440 20 0 0 0 0 0\n"
               "cpu7 0 0 120 430 10 15 5 20 0 0\nintr 5\n");
  values = by_name(sampler.sample());
  CHECK(values.at("system/cpu_percent") == Approx(50));
  CHECK(values.at("system/cpu.0.percent") == Approx(40));
  CHECK(values.at("system/cpu.7.percent") == Approx(60));

  // A counter that decreases (iowait does) gives no value for that sample.
  system.write("proc/stat", "cpu  140 10 120 880 20 15 5 20 0 0\n");
  CHECK_FALSE(by_name(sampler.sample()).contains("system/cpu_percent"));
  system.write("proc/stat", "cpu  150 10 120 890 20 15 5 20 0 0\n");
  CHECK(by_name(sampler.sample()).at("system/cpu_percent") == Approx(50));
}

TEST_CASE("system: memory and swap of a machine without limits") {
  MadeSystem system;
  system.write("proc/meminfo",
               "MemTotal:       1000 kB\nMemFree:  100 kB\nMemAvailable:    400 kB\n"
               "SwapTotal:       200 kB\nSwapFree:        150 kB\n");
  auto values = by_name(SystemSampler(system.options()).sample());
  CHECK(values.at("system/memory.total_bytes") == 1000 * kKiB);
  CHECK(values.at("system/memory.used_bytes") == 600 * kKiB);
  CHECK(values.at("system/memory.available_bytes") == 400 * kKiB);
  CHECK(values.at("system/memory.percent") == Approx(60));
  CHECK(values.at("system/swap.total_bytes") == 200 * kKiB);
  CHECK(values.at("system/swap.used_bytes") == 50 * kKiB);
  CHECK(values.at("system/swap.percent") == Approx(25));

  system.write("proc/meminfo",
               "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
  values = by_name(SystemSampler(system.options()).sample());
  CHECK(values.at("system/swap.used_bytes") == 0);
  CHECK_FALSE(values.contains("system/swap.percent"));
}

TEST_CASE("system: bytes per second of the watched disk") {
  MadeSystem system;
  struct stat status {};
  REQUIRE(::stat(system.disk().c_str(), &status) == 0);
  const auto stats = [&](int read, int written) {
    return fmt::format(
        "   8  0 sdx 9 9 9000 9 9 9 9000 9 0 0 0\n{} {} sdy1 10 0 {} 5 20 0 {} 5 0 0 0 0 0\n",
        major(status.st_dev), minor(status.st_dev), read, written);
  };
  system.write("sys/block/sdx/device/model", "");
  SystemSampler sampler(system.options());
  system.write("proc/diskstats", stats(100, 1000));
  auto values = by_name(sampler.sample());
  CHECK_FALSE(values.contains("system/disk.read_bytes_per_s"));
  CHECK(values.at("system/disk.used_bytes") > 0);
  CHECK(values.at("system/disk.free_bytes") > 0);
  CHECK(values.at("system/disk.percent") ==
        Approx(100 * values.at("system/disk.used_bytes") /
               (values.at("system/disk.used_bytes") + values.at("system/disk.free_bytes"))));

  system.advance(4);
  system.write("proc/diskstats", stats(300, 1020));
  values = by_name(sampler.sample());
  CHECK(values.at("system/disk.read_bytes_per_s") == Approx(200 * 512 / 4.0));
  CHECK(values.at("system/disk.write_bytes_per_s") == Approx(20 * 512 / 4.0));
}

TEST_CASE("system: if the watched disk has no device, all hardware disks count once") {
  MadeSystem system;
  for (const std::string disk : {"sda", "nvme0n1"})
    system.write("sys/block/" + disk + "/device/model", "");
  system.write("sys/block/dm-0/size", "1");
  const auto stats = [](int first, int second) {
    return fmt::format(
        "8 0 sda 1 0 {0} 0 1 0 0 0 0 0 0\n8 1 sda1 1 0 {0} 0 1 0 0 0 0 0 0\n"
        "259 0 nvme0n1 1 0 {1} 0 1 0 0 0 0 0 0\n254 0 dm-0 1 0 {1} 0 1 0 0 0 0 0 0\n"
        "7 0 loop0 1 0 {1} 0 1 0 0 0 0 0 0\nnonsense\n",
        first, second);
  };
  auto options = system.options();
  options.disk = "/dev";  // a file system in memory
  SystemSampler sampler(options);
  system.write("proc/diskstats", stats(1000, 2000));
  sampler.sample();
  system.advance(2);
  system.write("proc/diskstats", stats(1010, 2020));
  CHECK(by_name(sampler.sample()).at("system/disk.read_bytes_per_s") == Approx(30 * 512 / 2.0));
}

TEST_CASE("system: bytes per second of the network") {
  MadeSystem system;
  const auto stats = [](int received, int sent) {
    return fmt::format(
        "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n"
        "    lo: 900{0} 1 0 0 0 0 0 0 900{0} 1 0 0 0 0 0 0\n"
        "  eth0:{0} 1 0 0 0 0 0 0 {1} 1 0 0 0 0 0 0\n"
        " veth1: 5{0} 1 0 0 0 0 0 0 5{1} 1 0 0 0 0 0 0\n",
        received, sent);
  };
  system.write("sys/class/net/eth0/device/vendor", "");
  SystemSampler hardware(system.options());
  system.write("proc/net/dev", stats(1000, 2000));
  CHECK_FALSE(by_name(hardware.sample()).contains("system/network.receive_bytes_per_s"));
  system.advance(0.5);
  system.write("proc/net/dev", stats(1500, 2100));
  auto values = by_name(hardware.sample());
  CHECK(values.at("system/network.receive_bytes_per_s") == Approx(1000));
  CHECK(values.at("system/network.transmit_bytes_per_s") == Approx(200));

  // In a container no device is hardware: all but loopback count.
  system.remove("sys/class/net/eth0");
  SystemSampler container(system.options());
  container.sample();
  system.advance(1);
  system.write("proc/net/dev", stats(1700, 2100));
  CHECK(by_name(container.sample()).at("system/network.receive_bytes_per_s") == Approx(400));
}

TEST_CASE("system: no rate if a counter or the clock does not advance") {
  MadeSystem system;
  const auto name = "system/network.receive_bytes_per_s";
  const auto write = [&](int bytes) {
    system.write("proc/net/dev", fmt::format("eth0: {} 1 0 0 0 0 0 0 5 1\n", bytes));
  };
  SystemSampler sampler(system.options());
  write(1000);
  sampler.sample();
  system.advance(1);
  write(500);
  CHECK_FALSE(by_name(sampler.sample()).contains(name));
  write(700);  // no time has passed
  CHECK_FALSE(by_name(sampler.sample()).contains(name));
  system.advance(-1);
  write(900);
  CHECK_FALSE(by_name(sampler.sample()).contains(name));
  system.advance(2);
  write(1000);
  CHECK(by_name(sampler.sample()).at(name) == Approx(50));
}

TEST_CASE("system: an empty, foreign or missing tree gives the available values and never throws") {
  MadeSystem empty;
  auto options = empty.options();
  options.processes = [] { return std::vector<int64_t>{1}; };
  const auto of_empty = by_name(SystemSampler(options).sample());
  CHECK(of_empty.at("system/processes.count") == 0);
  CHECK(of_empty.contains("system/disk.percent"));

  MadeSystem garbage;
  for (const auto* file :
       {"proc/stat", "proc/loadavg", "proc/meminfo", "proc/diskstats", "proc/net/dev",
        "proc/self/cgroup", "proc/1/stat", "proc/vmstat", "sys/fs/cgroup/cgroup.controllers"})
    garbage.write(file, "cpu\n:::\x01\xff )( -1 99999999999999999999999 \n\ncpu 1 x\n eth0: 7\n()");
  options = garbage.options();
  options.processes = [] { return std::vector<int64_t>{1}; };
  SystemSampler sampler(options);
  sampler.sample();
  CHECK_FALSE(by_name(sampler.sample()).contains("system/cpu_percent"));

  options.root_of_proc = options.root_of_sys = options.disk = "/nonexistent";
  SystemSampler nothing(options);
  nothing.sample();
  CHECK(by_name(nothing.sample()) == NamedValues{{"system/processes.count", 0},
                                                 {"system/processes.threads", 0},
                                                 {"system/processes.rss_bytes", 0},
                                                 {"system/processes.open_fds", 0}});
}
