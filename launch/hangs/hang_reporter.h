// Tells what the ranks of this node are doing, for the node that serves the rendezvous, which
// judges it (HangDetector). When that one asks, also the stacks of some, or a dump of all ranks of
// this node into the log directory. Thread: the launcher's.
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

  // The workers of an attempt, and where a dump of them goes; until end().
  void begin(const std::vector<WatchedWorker>& workers, std::filesystem::path directory);
  void end();
  // nullopt: they were told a moment ago.
  std::optional<std::vector<RankView>> next_views();
  void take(const StackRequest& request);
  // Writes a dump that was asked for, once the stacks have had time to arrive.
  void write_due_dump();

  // Lines for a person since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Own {
    WatchedWorker worker;
    std::optional<uint32_t> request;  // of stacks
  };

  std::vector<RankView> views() const;
  bool is_waiting_for_stacks() const;

  std::string host_;
  std::vector<Own> own_;
  std::filesystem::path directory_;
  Clock::time_point told_at_{};
  bool owes_stacks_ = false;  // they were asked for: told as soon as they are there
  std::optional<Clock::time_point> dump_at_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
