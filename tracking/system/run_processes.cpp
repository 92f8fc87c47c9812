#include "tracking/system/run_processes.h"

#include <dirent.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_set>
#include <utility>

#include "core/number_text.h"

namespace lockstep::tracking {
namespace {

struct CloseProcDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using ProcDirectory = std::unique_ptr<DIR, CloseProcDirectory>;

// 0 if it does not exist.
uint64_t inode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// Number of entries without "." and ".."; nullopt without permission.
std::optional<uint64_t> count_entries(const std::string& path) {
  const ProcDirectory directory(::opendir(path.c_str()));
  if (!directory) return std::nullopt;
  uint64_t count = 0;
  while (const auto* entry = ::readdir(directory.get())) count += entry->d_name[0] != '.';
  return count;
}

}  // namespace

RunProcesses::RunProcesses(const std::filesystem::path& root_of_proc, bool with_pss)
    : root_(root_of_proc.string() + "/"), with_pss_(with_pss) {
  struct statfs file_system {};
  is_procfs_ = ::statfs(root_.c_str(), &file_system) == 0 &&
               static_cast<long>(file_system.f_type) == PROC_SUPER_MAGIC;
}

void RunProcesses::sample(SampleTime now, const std::vector<int64_t>& roots, SystemValues& values) {
  if (roots.empty()) return pids_.clear();
  static const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  static const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (roots != std::exchange(roots_, roots)) unrelated_.clear();
  uint64_t threads = 0, rss_bytes = 0;
  CounterRates<Identity>::Readings ticks;
  const auto all = read_all();
  const auto selected = select(all, roots);
  note_unrelated(all);
  pids_.clear();
  for (const auto& process : selected) {
    pids_.push_back(process.identity.first);
    threads += process.threads;
    rss_bytes += process.rss_pages * page_bytes;
    ticks[process.identity] = process.cpu_ticks;
  }
  values.emplace_back("system/processes.count", static_cast<double>(pids_.size()));
  values.emplace_back("system/processes.threads", static_cast<double>(threads));
  values.emplace_back("system/processes.rss_bytes", static_cast<double>(rss_bytes));
  if (const auto ticks_now = cpu_.per_second(std::move(ticks), now))
    values.emplace_back("system/processes.cpu_percent", 100.0 * *ticks_now / ticks_per_s);
  add_open_files(values);
  if (with_pss_) add_pss(values);
}

std::vector<RunProcesses::Process> RunProcesses::read_all() {
  std::vector<Process> processes;
  Inodes unrelated;
  const std::unordered_set<int64_t> ours(pids_.begin(), pids_.end());
  const ProcDirectory directory(::opendir(root_.c_str()));
  while (const auto* entry = directory ? ::readdir(directory.get()) : nullptr) {
    const auto number = parse_number<uint64_t>(entry->d_name);
    if (!number) continue;
    const auto pid = static_cast<int64_t>(*number);
    const auto inode = is_procfs_ && !ours.contains(pid) ? inode_of(root_ + entry->d_name) : 0;
    const auto known = unrelated_.find(pid);
    if (inode != 0 && known != unrelated_.end() && known->second == inode) {
      unrelated.emplace(pid, inode);
    } else if (auto process = read_process(pid)) {
      process->inode = inode;
      processes.push_back(*process);
    }
  }
  unrelated_ = std::move(unrelated);
  return processes;
}

// "pid (name) state ppid ...": the name may contain anything, so fields are counted after the last
// ')'. Numbers in comments are those of proc(5), where the state is (3).
std::optional<RunProcesses::Process> RunProcesses::read_process(int64_t pid) {
  const auto text = reader_.read_piece(root_ + std::to_string(pid) + "/stat");
  const auto name_end = text ? text->rfind(')') : std::string_view::npos;
  if (name_end == std::string_view::npos) return std::nullopt;
  auto rest = text->substr(name_end + 1);
  const auto state = proc::next_word(rest);
  if (state == "Z" || state == "X") return std::nullopt;
  std::array<uint64_t, 21> fields{};  // (4) to (24); negative ones stay 0
  for (auto& field : fields) field = parse_number<uint64_t>(proc::next_word(rest)).value_or(0);
  const auto field = [&](size_t number) { return fields[number - 4]; };
  if (field(22) == 0 && field(20) == 0) return std::nullopt;  // an incomplete line
  return Process{.identity = {pid, field(22)},
                 .parent = static_cast<int64_t>(field(4)),
                 .cpu_ticks = field(14) + field(15),
                 .threads = field(20),
                 .rss_pages = field(24)};
}

// Skips processes whose parent was not seen: the parent may belong to the run.
void RunProcesses::note_unrelated(const std::vector<Process>& all) {
  std::unordered_set<int64_t> seen = {0};
  for (const auto& process : all) seen.insert(process.identity.first);
  Inodes found;
  for (const auto& process : all) {
    const bool parent_is_known =
        seen.contains(process.parent) || unrelated_.contains(process.parent);
    if (process.inode != 0 && parent_is_known && !members_.contains(process.identity))
      found.emplace(process.identity.first, process.inode);
  }
  unrelated_.merge(found);
}

std::vector<RunProcesses::Process> RunProcesses::select(const std::vector<Process>& all,
                                                        const std::vector<int64_t>& roots) {
  std::unordered_multimap<int64_t, const Process*> children;
  std::vector<const Process*> found;
  std::set<Identity> members;
  const auto take = [&](const Process& process) {
    if (members.insert(process.identity).second) found.push_back(&process);
  };
  for (const auto& process : all) {
    children.emplace(process.parent, &process);
    if (members_.contains(process.identity) ||
        std::find(roots.begin(), roots.end(), process.identity.first) != roots.end())
      take(process);
  }
  for (size_t i = 0; i < found.size(); ++i) {  // grows in the loop
    const auto [begin, end] = children.equal_range(found[i]->identity.first);
    for (auto child = begin; child != end; ++child) take(*child->second);
  }
  members_ = std::move(members);
  std::vector<Process> selected;
  for (const auto* process : found) selected.push_back(*process);
  return selected;
}

void RunProcesses::add_open_files(SystemValues& values) const {
  uint64_t sum = 0;
  bool known = pids_.empty();
  for (const auto pid : pids_) {
    const auto count = count_open_files(pid);
    known |= count.has_value();
    sum += count.value_or(0);
  }
  if (known) values.emplace_back("system/processes.open_fds", static_cast<double>(sum));
}

// Since Linux 6.2 the size of the directory is the number of open files.
std::optional<uint64_t> RunProcesses::count_open_files(int64_t pid) const {
  const auto path = root_ + std::to_string(pid) + "/fd";
  struct stat status {};
  if (is_procfs_ && ::stat(path.c_str(), &status) == 0 && status.st_size > 0)
    return static_cast<uint64_t>(status.st_size);
  return count_entries(path);
}

void RunProcesses::add_pss(SystemValues& values) {
  uint64_t kib = 0;
  bool known = pids_.empty();
  for (const auto pid : pids_) {
    const auto text = reader_.read(root_ + std::to_string(pid) + "/smaps_rollup");
    const auto pss = text ? proc::count_of(*text, "Pss:") : std::nullopt;
    known |= pss.has_value();
    kib += pss.value_or(0);
  }
  if (known) values.emplace_back("system/processes.pss_bytes", static_cast<double>(kib * 1024));
}

}  // namespace lockstep::tracking
