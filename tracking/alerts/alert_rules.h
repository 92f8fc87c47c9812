// Checks the records of a run against the alert rules and creates alerts, which sinks deliver.
// docs/alerts.md describes the rules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/record.h"
#include "tracking/alerts/alert_causes.h"
#include "tracking/alerts/alert_config.h"
#include "tracking/alerts/recent_values.h"
#include "tracking/alerts/slow_rank.h"

namespace lockstep::tracking {

// The state of a logging rank.
struct RankState {
  int rank = 0;
  bool alive = false;  // a process writes its log
  bool ended = false;  // its log has an end; determine `alive` before reading the log
  std::string note;    // details of its end, such as "killed by signal 9"; may be empty
};

// Throws Config for an invalid factor (0 < factor <= 1).
void verify_alerts(const AlertConfig& config);

// Thread: one at a time.
// Memory: bounded, and small per rank.
// Time advances only between calls of tick(), by 0 to 30 s each, so that clock changes and system
// suspend raise no alerts.
class AlertRules {
 public:
  explicit AlertRules(const AlertConfig& config);

  // The causes reported so far, for an agent that replaces this one; see AlertCauses.
  Json causes() const { return causes_.state(); }
  void restore_causes(const Json& causes, double passed_s) { causes_.restore(causes, passed_s); }

  // Checks a row that `rank` logged (for system metrics: the rank that carries those of its node).
  // Steps may arrive in any order.
  std::vector<Alert> scalars(const ScalarRow& row, int rank);

  // Must be called about once a second. `now`: unix seconds. `ranks`: the watched ranks.
  std::vector<Alert> tick(double now, std::span<const RankState> ranks);

 private:
  struct History {
    bool logged = false;  // since the last tick
    double idle_s = 0;
    RecentValues losses{100};
  };

  History* history(int rank);
  void check_metric(const Metric& metric, const ScalarRow& row, int rank);
  void check_loss_spike(double loss, const ScalarRow& row, int rank);
  void check_conditions(const Metric& metric, const ScalarRow& row, int rank);
  void check_rank(const RankState& state, double seconds, double now);
  void note_step_times(const ScalarRow& row);
  void check_slow_rank(std::span<const RankState> ranks, double seconds, double now);
  void report(const std::string& cause, Alert alert);

  AlertConfig config_;
  AlertCauses causes_;
  std::optional<double> last_tick_;
  int64_t last_step_ = 0;  // of all ranks: metrics of the machine have none
  std::map<int, History> histories_;
  SlowRank slow_;
  std::map<std::tuple<size_t, std::string, int>, int64_t> consecutive_;  // condition, metric, rank
  std::vector<Alert> alerts_;                                            // of the current call
};

}  // namespace lockstep::tracking
