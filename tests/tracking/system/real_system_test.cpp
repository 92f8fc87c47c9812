// Tests on the real system.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <thread>

#include "tests/tracking/system/made_system.h"
#include "tracking/system/system_sampler.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

// Processes that wait until this object is destroyed.
class Children {
 public:
  explicit Children(int count) {
    for (int i = 0; i < count; ++i) add();
  }
  ~Children() {
    while (!pids_.empty()) end_one();
  }
  Children(Children&&) = delete;

  void add() {
    const auto pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    pids_.push_back(pid);
  }
  void end_one() {
    ::kill(pids_.back(), SIGKILL);
    ::waitpid(pids_.back(), nullptr, 0);
    pids_.pop_back();
  }

 private:
  std::vector<pid_t> pids_;
};

SystemSamplerOptions real_options() {
  SystemSamplerOptions options;
  options.disk = "/";
  options.processes = [] { return std::vector<int64_t>{::getpid()}; };
  options.with_pss = true;
  options.nvml = "";
  return options;
}

}  // namespace

TEST_CASE("system: values of the real system are plausible") {
  SystemSampler sampler(real_options());
  const std::vector<char> memory(64u << 20, 'x');
  NamedValues values;
  std::chrono::duration<double> took{};
  // The kernel's iowait counter may decrease, and then there is no value.
  for (int i = 0; i < 10 && !values.contains("system/cpu_percent"); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    sampler.sample();
    const auto worked = std::clock();
    while (std::clock() - worked < CLOCKS_PER_SEC / 5)
      continue;  // of this process, however long it takes
    values = by_name(sampler.sample());
    took = std::chrono::steady_clock::now() - begin;
  }

  REQUIRE(values.contains("system/cpu_percent"));
  CHECK(values.at("system/cpu_percent") > 0);
  CHECK(values.at("system/cpu_percent") <= 100);
  CHECK(values.at("system/memory.used_bytes") > 64e6);
  CHECK(values.at("system/memory.used_bytes") <= values.at("system/memory.total_bytes"));
  CHECK(values.at("system/disk.percent") > 0);
  CHECK(values.at("system/processes.count") == 1);
  CHECK(values.at("system/processes.rss_bytes") > static_cast<double>(memory.size()));
  CHECK(values.at("system/processes.pss_bytes") > static_cast<double>(memory.size()));
  CHECK(values.at("system/processes.cpu_percent") > 0.5 * 20 / took.count());
  CHECK(values.at("system/processes.cpu_percent") < 500);
  CHECK(values.at("system/processes.open_fds") >= 3);
  // A container may have none of them.
  for (const auto* name : {"system/network.receive_bytes_per_s", "system/disk.write_bytes_per_s"})
    if (values.contains(name))
      CHECK(values.at(name) >= 0);
    else
      WARN("there is no device here for " << name);
  CHECK(sampler.oom_kills() == 0);
}

TEST_CASE("system: starting and exiting processes are tracked, and unrelated ones never counted") {
  Children unrelated(3);  // also children of this process, which does not belong to the run
  std::vector<int64_t> roots = {::getpid()};
  SystemSampler all(real_options());
  const auto count = [](SystemSampler& sampler) {
    return by_name(sampler.sample()).at("system/processes.count");
  };
  CHECK(count(all) == 4);
  CHECK(count(all) == 4);
  Children more(5);
  CHECK(count(all) == 9);
  more.end_one();
  CHECK(count(all) == 8);
  more.add();
  CHECK(count(all) == 9);
}

TEST_CASE("system: a process that becomes a root later is found, even if it was seen before") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const auto other = ::fork();
  if (other == 0) {
    ::close(ends[1]);
    char end = 0;
    while (::read(ends[0], &end, 1) > 0) {
    }
    ::_exit(0);
  }
  std::vector<int64_t> roots = {2'000'000'000};
  auto options = real_options();
  options.processes = [&] { return roots; };
  SystemSampler sampler(options);
  CHECK(by_name(sampler.sample()).at("system/processes.count") == 0);
  CHECK(by_name(sampler.sample()).at("system/processes.count") == 0);
  roots = {other};
  CHECK(by_name(sampler.sample()).at("system/processes.count") == 1);
  ::close(ends[0]);
  ::close(ends[1]);
  ::waitpid(other, nullptr, 0);
}

TEST_CASE("system: sampling continues while processes exit") {
  SystemSampler sampler(real_options());
  std::atomic<bool> stop = false;
  std::thread forker([&] {
    while (!stop) {
      const auto pid = ::fork();
      if (pid == 0) ::_exit(0);
      ::waitpid(pid, nullptr, 0);
    }
  });
  double most = 0;
  for (int i = 0; i < 200; ++i)
    most = std::max(most, by_name(sampler.sample()).at("system/processes.count"));
  stop = true;
  forker.join();
  CHECK(most >= 1);
  // There are always two, but the process list is not a snapshot: it may contain a child that has
  // exited and its successor.
  CHECK(most <= 3);
}
