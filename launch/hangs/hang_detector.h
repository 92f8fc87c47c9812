// On the coordinator's node: determines from the status of all nodes (HangReporter) which rank
// keeps the others waiting, requests its stacks and reports it: first as a warning, then, shortly
// before the waiting ranks time out, with a dump of all ranks of every node. Thread: the
// launcher's.
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
  // Adds the last training step, and the rank for which the others timed out.
  void explain(LaunchReport& attempt) const override;

  // Messages for the user since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }
  // The latest state of a reported hang that has not been resolved, for the report of a failed
  // job; empty: none.
  std::string unresolved() const { return hang_.is_reported ? hang_.summary : ""; }

 private:
  using Clock = std::chrono::steady_clock;
  // A process: its rank may change.
  struct Culprit {
    std::pair<int, int64_t> process;  // node, process id
    std::string text;                 // where it was
  };
  struct Hang {
    std::string key;                   // of the finding; empty: no hang
    Clock::time_point requested_at{};  // of the stacks
    bool is_reported = false, is_dumped = false;
    double report_again_after_s = 0;
    uint64_t reported_operations = 0;  // of all ranks, at the last report
    std::string summary;
    // The rank for which the others timed out, or are about to.
    std::optional<Culprit> culprit;
  };

  std::optional<StackRequest> follow(const HangFinding& finding,
                                     const std::vector<RankView>& views);
  void report(const HangFinding& finding, const std::vector<RankView>& views);

  int64_t last_step_ = 0;
  Hang hang_;  // the current one
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
