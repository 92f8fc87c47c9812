#include "core/thread_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "core/control_group.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct ThreadLimit {
  std::string name;
  int64_t max = 0, used = 0;
  bool was_reached = false;  // known only for control groups
};

// nullopt: the file does not exist or contains "max".
std::optional<int64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// How often the limit of this group prevented a thread or process from starting (pids.events).
int64_t count_refusals(const fs::path& group) {
  std::ifstream file(group / "pids.events");
  std::string name;
  int64_t count = 0;
  return file >> name >> count && name == "max" ? count : 0;
}

void add_groups(const fs::path& proc, const fs::path& cgroups, std::vector<ThreadLimit>& limits) {
  for (const auto& group : own_groups("pids", proc, cgroups)) {
    const fs::path directory = group.directory;
    const auto max = read_number(directory / "pids.max");
    const auto used = read_number(directory / "pids.current");
    if (max && used)
      limits.push_back({fmt::format("the control group {} allows {} processes and threads "
                                    "(pids.max)",
                                    group.name, *max),
                        *max, *used, count_refusals(directory) > 0});
  }
}

int64_t field_of(const std::string& status, const std::string& name) {
  const auto at = status.find("\n" + name + ":");
  return at == std::string::npos ? 0 : std::atoll(status.c_str() + at + name.size() + 2);
}

// Threads of this user, and of all users.
std::pair<int64_t, int64_t> count_threads(const fs::path& proc) {
  int64_t own = 0, all = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(proc, error)) {
    std::ifstream file(entry.path() / "status");
    const std::string status((std::istreambuf_iterator<char>(file)), {});
    const auto threads = field_of(status, "Threads");
    all += threads;
    if (field_of(status, "Uid") == static_cast<int64_t>(::getuid())) own += threads;
  }
  return {own, all};
}

}  // namespace

std::string describe_thread_limit(const fs::path& proc, const fs::path& cgroups) {
  std::vector<ThreadLimit> limits;
  add_groups(proc, cgroups, limits);
  const auto [own, all] = count_threads(proc);
  rlimit user{};
  if (::getuid() != 0 && ::getrlimit(RLIMIT_NPROC, &user) == 0 && user.rlim_cur != RLIM_INFINITY)
    limits.push_back({fmt::format("the limit of this user is {} processes and threads (ulimit -u)",
                                  user.rlim_cur),
                      static_cast<int64_t>(user.rlim_cur), own});
  for (const char* name : {"threads-max", "pid_max"})
    if (const auto max = read_number(proc / "sys" / "kernel" / name))
      limits.push_back(
          {fmt::format("this machine allows {} threads (kernel.{})", *max, name), *max, all});
  const auto tightest =
      std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) {
        return std::pair(!a.was_reached, a.max - a.used) <
               std::pair(!b.was_reached, b.max - b.used);
      });
  // With much headroom, the likely cause is lack of memory for the thread's stack.
  if (tightest == limits.end() || (!tightest->was_reached && tightest->used < tightest->max / 2))
    return "no thread limit was reached; memory may be low";
  // Other threads of this process may have exited in the meantime.
  const auto state =
      tightest->was_reached ? std::string("was reached") : fmt::format("{} exist", tightest->used);
  return fmt::format(
      "{} and {}: raise this limit, or use fewer threads (OMP_NUM_THREADS, "
      "data.workers) or fewer ranks",
      tightest->name, state);
}

}  // namespace lockstep
