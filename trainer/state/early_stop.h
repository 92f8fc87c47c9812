// Early stopping: a run ends when a metric of the evaluation has not improved for some evaluations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/config/config_fields.h"
#include "trainer/state/metric_mode.h"

namespace lockstep {

struct EarlyStopConfig {
  std::optional<int64_t> patience;  // nothing: off
  std::string metric = "loss";
  MetricMode mode = MetricMode::Min;
  double min_delta = 0;
};

template <class V>
void fields(V& v, EarlyStopConfig& c) {
  v("patience", c.patience, "stop after this many evaluations without improvement (nothing: never)",
    at_least(1));
  v("metric", c.metric, "which metric of the evaluation is watched, as in 'loss' of eval/loss");
  v("mode", c.mode, "whether smaller or larger is better");
  v("min_delta", c.min_delta, "how much better counts as an improvement", at_least(0));
}

// What a checkpoint keeps of it.
struct EarlyStopState {
  std::string metric, mode;         // what was watched
  std::optional<double> best;       // finite
  int64_t without_improvement = 0;  // evaluations since

  bool operator==(const EarlyStopState&) const = default;
};

class EarlyStop {
 public:
  explicit EarlyStop(const EarlyStopConfig& config)
      : config_(config), state_{config.metric, name_of(config.mode), std::nullopt} {}

  // Call after each evaluation, with its result. A metric that is not a finite number is no
  // improvement. Throws Config when the evaluation has no such metric, naming those that
  // it has.
  void add(const std::map<std::string, double>& evaluation);
  bool is_due() const {
    return config_.patience && state_.without_improvement >= *config_.patience;
  }
  // "eval/loss has not improved since 0.05, for 3 evaluations"
  std::string reason() const;

  const EarlyStopState& state() const { return state_; }
  // Ignored when something else was watched.
  void restore(const EarlyStopState& state);

 private:
  EarlyStopConfig config_;
  EarlyStopState state_;
};

}  // namespace lockstep
