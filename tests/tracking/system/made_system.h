// A fake /proc and /sys in a temporary directory, and a simulated clock.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/temporary_directory.h"
#include "tracking/system/system_sampler.h"

namespace lockstep::tracking {

constexpr double kKiB = 1024;

class MadeSystem {
 public:
  MadeSystem() {
    std::filesystem::create_directories(directory_ / "proc");
    std::filesystem::create_directories(directory_ / "sys");
  }

  std::filesystem::path proc() const { return directory_ / "proc"; }
  std::filesystem::path sys() const { return directory_ / "sys"; }
  std::filesystem::path disk() const { return directory_.path(); }

  // `file` is below proc/ or sys/; creates its directories.
  void write(const std::string& file, const std::string& text) const {
    const auto path = directory_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void remove(const std::string& file) const { std::filesystem::remove_all(directory_ / file); }

  struct Process {
    int pid = 0, parent = 1;
    int start = 100;  // ticks since boot
    int user = 0, system = 0;
    int threads = 1, pages = 0;
    std::string name = "worker", state = "S";
  };
  void write(const Process& p) const {
    write(fmt::format("proc/{}/stat", p.pid),
          fmt::format("{} ({}) {} {} 1 1 0 -1 4194304 10 0 0 0 {} {} 7 8 20 0 {} 0 {} 1000000 {} "
                      "18446744073709551615 1 1\n",
                      p.pid, p.name, p.state, p.parent, p.user, p.system, p.threads, p.start,
                      p.pages));
  }
  void open_files(int pid, int count) const {
    for (int fd = 0; fd < count; ++fd) write(fmt::format("proc/{}/fd/{}", pid, fd), "");
  }

  SystemSamplerOptions options() {
    SystemSamplerOptions options;
    options.root_of_proc = proc();
    options.root_of_sys = sys();
    options.disk = disk();
    options.nvml = "";
    options.clock = [this] { return now; };
    return options;
  }
  void advance(double seconds) {
    now += std::chrono::duration_cast<SampleTime::duration>(std::chrono::duration<double>(seconds));
  }

  SampleTime now{};

 private:
  TemporaryDirectory directory_;
};

using NamedValues = std::map<std::string, double>;

inline NamedValues by_name(const SystemValues& values) { return {values.begin(), values.end()}; }

}  // namespace lockstep::tracking
