// The launcher's watch over what its ranks do: every node tells the one that serves the rendezvous
// what its ranks are at (StatusExchange), that one finds who keeps the others waiting, asks the
// node of that rank for its stacks, and says so: first as a warning, then, shortly before the
// waiting ranks give up, with a dump of all ranks of every node into the log directory.
// Thread: the launcher's.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/hang_finding.h"
#include "launch/launch_report.h"
#include "launch/status_exchange.h"

namespace lockstep {

struct WatchedWorker {
  int rank = 0;
  int64_t pid = 0;
  ProgressPage* page = nullptr;
};

class HangWatch {
 public:
  explicit HangWatch(std::string host) : host_(std::move(host)) {}
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  // Its part in what launchers tell each other. Refers to this.
  StatusExchange exchange();

  // On every node: the workers of an attempt, and where a dump of them goes; none: it has ended.
  void begin(const std::vector<WatchedWorker>& workers, std::filesystem::path directory);
  void end();
  // What this node tells.
  nlohmann::json local();
  void take_answer(const nlohmann::json& answer);

  // On the node that serves the rendezvous: judges what all nodes told. Returns what they are asked
  // for, or null.
  nlohmann::json judge(const std::map<int, NodeStatus>& by_node);
  // There too: of an attempt that has ended, how far it came and the rank that the others gave up
  // waiting for.
  void explain(LaunchReport& attempt) const;

  // Lines for a person since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  // The hang that was told of and has not gone by, as it was last seen; for the report of a job
  // that failed.
  std::string unresolved() const { return told_ ? summary_ : ""; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Own {
    WatchedWorker worker;
    std::optional<uint32_t> request;  // of stacks
    std::optional<RankView> view(const std::string& host) const;
  };

  nlohmann::json follow(const HangFinding& finding, const std::vector<RankView>& views);
  void forget_hang();
  void write_dump();
  bool is_waiting_for_stacks() const;

  std::string host_;
  std::vector<Own> own_;
  std::filesystem::path directory_;
  Clock::time_point told_local_{};
  nlohmann::json last_local_;
  bool owes_stacks_ = false;  // they were asked for: told as soon as they are there
  std::optional<Clock::time_point> dump_at_;

  int64_t last_step_ = 0;
  std::string key_;  // of the hang under way
  Clock::time_point asked_at_{};
  bool told_ = false, dumped_ = false;
  double told_again_after_s_ = 0;
  uint64_t told_operations_ = 0;  // of all ranks, when it was told
  std::string summary_;
  // The rank that the others gave up waiting for, or are about to, and what it did.
  std::optional<std::pair<int, std::string>> culprit_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep
