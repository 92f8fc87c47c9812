// Early stopping: a run ends when a metric of the evaluation has not improved for some evaluations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/config_fields.h"
#include "lockstep/hook.h"
#include "trainer/state/metric_mode.h"

namespace lockstep::trainer {

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

class EarlyStop final : public Hook {
 public:
  explicit EarlyStop(const EarlyStopConfig& config)
      : config_(config), state_{config.metric, name_of(config.mode), std::nullopt} {}

  // A run that continues one which stopped there.
  void before_epoch(HookContext& run) override { stop_if_due(run); }
  // A metric that is not a finite number is no improvement. Throws Config when the evaluation has
  // no such metric, naming those that it has.
  void after_evaluation(HookContext& run, const EvaluationResult& result) override;

  const EarlyStopState& state() const { return state_; }
  // Ignored when something else was watched.
  void restore(const EarlyStopState& state);

 private:
  void stop_if_due(HookContext& run) const;

  EarlyStopConfig config_;
  EarlyStopState state_;
};

}  // namespace lockstep::trainer
