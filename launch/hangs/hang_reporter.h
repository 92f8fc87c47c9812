// Collects the state of the ranks of this node for the coordinator, which looks for hangs in it
// (HangDetector). On request also collects stacks of ranks, or writes a dump of all ranks of this
// node to the log directory. Thread: the launcher's.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/hangs/rank_view.h"
#include "launch/hangs/status_judge.h"

namespace lockstep::launch {

struct WatchedWorker {
  int rank = 0;
  int64_t pid = 0;
  ProgressPage* page = nullptr;
};

class HangReporter {
 public:
  explicit HangReporter(std::string host) : host_(std::move(host)) {}

  // Watches the workers of an attempt until end(). `directory`: of the dump.
  void begin(const std::vector<WatchedWorker>& workers, std::filesystem::path directory);
  void end();
  // The state of the ranks; nullopt if the next report is not due yet.
  std::optional<std::vector<RankView>> next_views();
  void handle(const StackRequest& request);
  // Writes a requested dump, once the stacks have had time to arrive.
  void write_due_dump();

  // Messages for the user since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  using Clock = std::chrono::steady_clock;
  struct LocalRank {
    WatchedWorker worker;
    std::optional<uint32_t> request;  // for stacks
  };

  std::vector<RankView> views() const;
  bool is_waiting_for_stacks() const;

  std::string host_;
  std::vector<LocalRank> local_ranks_;
  std::filesystem::path directory_;
  Clock::time_point reported_at_{};
  bool stacks_pending_ = false;  // requested; reported as soon as they have arrived
  std::optional<Clock::time_point> dump_at_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
