// Early stopping: a run ends when a metric of the evaluation has not improved for some evaluations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/config_fields.h"

namespace lockstep {

struct EarlyStopConfig {
  std::optional<int64_t> patience;  // nothing: off
  std::string metric = "loss";
  std::string mode = "min";
  double min_delta = 0;
};

template <class V>
void fields(V& v, EarlyStopConfig& c) {
  v("patience", c.patience, "stop after this many evaluations without improvement (nothing: never)",
    at_least(1));
  v("metric", c.metric, "which metric of the evaluation is watched, as in 'loss' of eval/loss");
  v("mode", c.mode, "whether smaller or larger is better", one_of({"min", "max"}));
  v("min_delta", c.min_delta, "how much better counts as an improvement", at_least(0));
}

class EarlyStop {
 public:
  explicit EarlyStop(EarlyStopConfig config) : config_(std::move(config)) {}

  // Call after each evaluation, with its result. A metric that is not a number is no improvement.
  // Throws Config when the evaluation has no such metric, naming those that it has.
  void add(const std::map<std::string, double>& evaluation);
  bool is_due() const { return config_.patience && without_improvement_ >= *config_.patience; }
  // "eval/loss has not improved since 0.05, for 3 evaluations"
  std::string reason() const;

  // What a checkpoint keeps.
  std::optional<double> best() const { return best_; }
  int64_t without_improvement() const { return without_improvement_; }
  void restore(std::optional<double> best, int64_t without_improvement);

 private:
  EarlyStopConfig config_;
  std::optional<double> best_;
  int64_t without_improvement_ = 0;
};

}  // namespace lockstep
