// Early stopping: ends a run when a metric has not improved for a number of evaluations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/config_fields.h"
#include "lockstep/hook.h"
#include "trainer/state/metric_mode.h"

namespace lockstep::trainer {

struct EarlyStopConfig {
  std::optional<int64_t> patience;  // nullopt: off
  std::string metric = "loss";
  MetricMode mode = MetricMode::Min;
  double min_delta = 0;
};

template <class V>
void fields(V& v, EarlyStopConfig& c) {
  v("patience", c.patience, "stop after this many evaluations without improvement (empty: never)",
    at_least(1));
  v("metric", c.metric, "the evaluation metric to watch, e.g. 'loss' for eval/loss",
    needs("train.early_stop.patience"));
  v("mode", c.mode, "whether smaller or larger is better", needs("train.early_stop.patience"));
  v("min_delta", c.min_delta, "smallest change that counts as an improvement", at_least(0),
    needs("train.early_stop.patience"));
}

// Stored in checkpoints.
struct EarlyStopState {
  std::string metric, mode;         // what was watched
  std::optional<double> best;       // finite
  int64_t without_improvement = 0;  // evaluations since `best`

  bool operator==(const EarlyStopState&) const = default;
};

class EarlyStop final : public Hook {
 public:
  explicit EarlyStop(const EarlyStopConfig& config)
      : config_(config), state_{config.metric, name_of(config.mode), std::nullopt} {}

  // Stops again if the run is resumed from a checkpoint at which it stopped.
  void before_epoch(HookContext& run) override { stop_if_due(run); }
  // A metric that is not finite is not an improvement. Throws Config when the evaluation has no
  // such metric, with a suggestion.
  void after_evaluation(HookContext& run, const EvaluationResult& result) override;

  const EarlyStopState& state() const { return state_; }
  // Ignored if `state` is of another metric or mode.
  void restore(const EarlyStopState& state);

 private:
  void stop_if_due(HookContext& run) const;

  EarlyStopConfig config_;
  EarlyStopState state_;
};

}  // namespace lockstep::trainer
