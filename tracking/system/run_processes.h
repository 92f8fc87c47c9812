// The processes of a run: its roots and all their descendants. From /proc/<pid> (proc(5)). A
// process may exit at any moment; it is then omitted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tracking/system/counter_rates.h"
#include "tracking/system/proc_file.h"
#include "tracking/system/system_values.h"

namespace lockstep::tracking {

class RunProcesses {
 public:
  // `with_pss`: also the proportional set size, for which the kernel walks the page tables.
  RunProcesses(const std::filesystem::path& root_of_proc, bool with_pss);

  // system/processes.*; nothing for empty `roots`. A process belongs to the run from the first call
  // that finds it in `roots` or as a child of a process of the run, until it exits, even if its
  // parent exits first.
  void sample(SampleTime now, const std::vector<int64_t>& roots, SystemValues& values);

  // The process ids that the last sample() found.
  const std::vector<int64_t>& pids() const { return pids_; }

 private:
  using Identity = std::pair<int64_t, uint64_t>;  // process ID, start time: IDs are reused
  struct Process {
    Identity identity;
    int64_t parent = 0;
    uint64_t cpu_ticks = 0, threads = 0, rss_pages = 0;
    uint64_t inode = 0;  // of its directory; 0: not read
  };

  using Inodes = std::unordered_map<int64_t, uint64_t>;  // by process id

  std::vector<Process> read_all();
  void note_unrelated(const std::vector<Process>& all);
  std::optional<Process> read_process(int64_t pid);
  std::vector<Process> select(const std::vector<Process>& all, const std::vector<int64_t>& roots);
  void add_open_files(SystemValues& values) const;
  std::optional<uint64_t> count_open_files(int64_t pid) const;
  void add_pss(SystemValues& values);

  proc::FileReader reader_;
  std::string root_;
  bool with_pss_;
  bool is_procfs_;  // false for test data
  std::set<Identity> members_;
  // Processes that do not belong to the run, with the inode of their directory, which identifies
  // the process. Skipping them saves most of the cost of a sample.
  Inodes unrelated_;
  std::vector<int64_t> roots_;  // of the last sample
  std::vector<int64_t> pids_;
  CounterRates<Identity> cpu_;
};

}  // namespace lockstep::tracking
