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

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct ThreadLimit {
  std::string name;
  int64_t most = 0, used = 0;
  bool was_reached = false;  // known only of control groups
};

// nullopt: no such file, or "max".
std::optional<int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

// Of /proc/self/cgroup: the group whose processes are counted, as a directory below `cgroups`.
std::optional<std::pair<fs::path, fs::path>> own_group(const fs::path& proc,
                                                       const fs::path& cgroups) {
  std::ifstream file(proc / "self" / "cgroup");
  std::optional<std::pair<fs::path, fs::path>> found;
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers == "pids") return std::pair(cgroups / "pids", group);  // version 1
    if (controllers.empty()) found = std::pair(cgroups, group);
  }
  return found;
}

// Of pids.events: how often a thread or process was not started because of this group.
int64_t count_refusals(const fs::path& group) {
  std::ifstream file(group / "pids.events");
  std::string name;
  int64_t count = 0;
  return file >> name >> count && name == "max" ? count : 0;
}

void add_groups(const fs::path& proc, const fs::path& cgroups, std::vector<ThreadLimit>& limits) {
  const auto own = own_group(proc, cgroups);
  if (!own) return;
  const auto& [root, path] = *own;
  for (auto group = path;; group = group.parent_path()) {
    const auto directory = root / group.relative_path();
    const auto most = number_in(directory / "pids.max");
    const auto used = number_in(directory / "pids.current");
    if (most && used)
      limits.push_back({fmt::format("the control group {} allows {} processes and threads "
                                    "(pids.max)",
                                    group.string(), *most),
                        *most, *used, count_refusals(directory) > 0});
    if (!group.has_relative_path()) return;
  }
}

int64_t field_of(const std::string& status, const std::string& name) {
  const auto at = status.find("\n" + name + ":");
  return at == std::string::npos ? 0 : std::atoll(status.c_str() + at + name.size() + 2);
}

// Threads of this user, and of everybody.
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
    limits.push_back(
        {fmt::format("this user may have {} processes and threads (ulimit -u)", user.rlim_cur),
         static_cast<int64_t>(user.rlim_cur), own});
  for (const char* name : {"threads-max", "pid_max"})
    if (const auto most = number_in(proc / "sys" / "kernel" / name))
      limits.push_back(
          {fmt::format("this machine may have {} threads (kernel.{})", *most, name), *most, all});
  const auto least =
      std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) {
        return std::pair(!a.was_reached, a.most - a.used) <
               std::pair(!b.was_reached, b.most - b.used);
      });
  // With much room left it was memory for the thread's stack.
  if (least == limits.end() || (!least->was_reached && least->used < least->most / 2))
    return "no limit on threads is near, so memory may be short";
  // Other threads of this process may have ended since.
  const auto state =
      least->was_reached ? std::string("was reached") : fmt::format("has {}", least->used);
  return fmt::format(
      "{} and {}: raise this limit, or use fewer threads (OMP_NUM_THREADS, "
      "data.workers) or fewer ranks",
      least->name, state);
}

}  // namespace lockstep
