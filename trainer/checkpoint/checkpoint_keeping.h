// Retention of checkpoints: the latest, the best, milestones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/config/period.h"
#include "lockstep/config_fields.h"
#include "trainer/state/metric_mode.h"

namespace lockstep::trainer {

struct KeepBestConfig {
  std::optional<int64_t> count;  // nullopt: off
  std::string metric = "loss";
  MetricMode mode = MetricMode::Min;
};

template <class V>
void fields(V& v, KeepBestConfig& c) {
  v("count", c.count, "number of checkpoints with the best evaluation to keep (empty: none)",
    at_least(1));
  v("metric", c.metric, "the evaluation metric to compare, e.g. 'accuracy' for eval/accuracy",
    needs("checkpoint.keep_best.count"));
  v("mode", c.mode, "whether smaller or larger is better", needs("checkpoint.keep_best.count"));
}

struct KeepOptions {
  int64_t last = 2;
  KeepBestConfig best;
  std::optional<Period> every;  // of steps or epochs
};

// Called after the checkpoint of `newest` is written. Of the checkpoints up to it, keeps the
// latest, the best of those with an evaluation (the earlier of equal ones), and those at multiples
// of `every`. Removes the others, and those of later steps, which are left over if the run was
// restarted from scratch or resumed from an earlier step. Throws Environment.
void prune_checkpoints(const std::filesystem::path& checkpoints, int64_t newest,
                       const KeepOptions& keep);

}  // namespace lockstep::trainer
