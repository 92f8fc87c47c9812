// Looks at what a run records and says what its user should know: alerts, for the sinks to deliver.
// The rules are described in docs/alerts.md.
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

namespace lockstep::tracking {

// What is known of a rank that logs.
struct RankState {
  int rank = 0;
  bool alive = false;  // a process writes its log
  bool ended = false;  // its log says how it ended; ask for `alive` first, then read the log
  std::string note;    // what is known of its end, such as "killed by signal 9"; may be empty
};

// Throws Config for a factor that cannot be meant (0 < factor <= 1).
void verify_alerts(const AlertConfig& config);

// Thread: one at a time.
// Memory: bounded, and small per rank.
// Clocks: time is what passes between calls of tick(), at most 30 s each and never backwards, so
// that a clock that is set, or a machine that slept, raises no alarm.
class AlertRules {
 public:
  explicit AlertRules(const AlertConfig& config);

  // What was told already, for an agent that takes the place of this one; see AlertCauses.
  Json causes() const { return causes_.state(); }
  void restore_causes(const Json& causes, double passed_s) { causes_.restore(causes, passed_s); }

  // A row that `rank` logged (system metrics: the rank that carries those of its node). Rows may
  // come in any order of steps.
  std::vector<Alert> scalars(const ScalarRow& row, int rank);

  // To be called about once a second. `now`: unix seconds. `ranks`: those that are watched here.
  std::vector<Alert> tick(double now, std::span<const RankState> ranks);

 private:
  struct History {
    bool logged = false;  // since the last tick
    double idle_s = 0, slow_s = 0;
    RecentValues losses{100}, step_times{20};
  };

  History* history(int rank);
  void look_at(const Metric& metric, const ScalarRow& row, int rank);
  void look_for_spike(double loss, const ScalarRow& row, int rank);
  void look_at_conditions(const Metric& metric, const ScalarRow& row, int rank);
  void look_at_rank(const RankState& state, double seconds, double now);
  void look_for_slow_ranks(std::span<const RankState> ranks, double seconds, double now);
  void report(const std::string& cause, Alert alert);

  AlertConfig config_;
  AlertCauses causes_;
  std::optional<double> last_tick_;
  std::map<int, History> histories_;
  std::map<std::tuple<size_t, std::string, int>, int64_t> in_a_row_;  // condition, metric, rank
  std::vector<Alert> news_;                                           // of the call under way
};

}  // namespace lockstep::tracking
