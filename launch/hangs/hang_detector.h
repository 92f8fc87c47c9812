// On the node that serves the rendezvous: finds out of what all nodes tell (HangReporter) who keeps
// the others waiting, asks for the stacks of that rank, and says so: first as a warning, then,
// shortly before the waiting ranks give up, with a dump of all ranks of every node.
// Thread: the launcher's.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/hangs/hang_finding.h"
#include "launch/hangs/status_judge.h"

namespace lockstep::launch {

class HangDetector : public StatusJudge {
 public:
  void begin_attempt() override;
  std::optional<StackRequest> judge(const std::map<int, NodeStatus>& by_node) override;
  // How far it came, and the rank that the others gave up waiting for.
  void explain(LaunchReport& attempt) const override;

  // Lines for a person since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  // The hang that was told of and has not gone by, as it was last seen; for the report of a job
  // that failed.
  std::string unresolved() const { return hang_.is_told ? hang_.summary : ""; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Culprit {
    int rank = 0;
    std::string text;  // what it did
  };
  struct Hang {
    std::string key;               // of the finding; empty: there is none
    Clock::time_point asked_at{};  // for stacks
    bool is_told = false, is_dumped = false;
    double told_again_after_s = 0;
    uint64_t told_operations = 0;  // of all ranks, when it was told
    std::string summary;
    // The rank that the others gave up waiting for, or are about to.
    std::optional<Culprit> culprit;
  };

  std::optional<StackRequest> follow(const HangFinding& finding,
                                     const std::vector<RankView>& views);
  void tell(const HangFinding& finding, const std::vector<RankView>& views);

  int64_t last_step_ = 0;
  Hang hang_;  // under way
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
