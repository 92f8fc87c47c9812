// Which checkpoints of a run stay: the latest, the best, milestones.
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
  std::optional<int64_t> count;  // nothing: off
  std::string metric = "loss";
  MetricMode mode = MetricMode::Min;
};

template <class V>
void fields(V& v, KeepBestConfig& c) {
  v("count", c.count, "how many of those with the best evaluation stay (nothing: none)",
    at_least(1));
  v("metric", c.metric, "which metric of the evaluation counts, as in 'accuracy' of eval/accuracy");
  v("mode", c.mode, "whether smaller or larger is better");
}

struct KeepOptions {
  int64_t last = 2;
  KeepBestConfig best;
  std::optional<Period> every;  // of steps or epochs
};

// Once the checkpoint of `newest` is written: removes those before it but for the latest, it
// included, the best of those that hold an evaluation (of equal ones the earlier), and those at the
// end of a multiple of `every`; and those of later steps, which an earlier run of the directory
// left that was begun anew, or resumed before them. Throws Environment.
void prune_checkpoints(const std::filesystem::path& checkpoints, int64_t newest,
                       const KeepOptions& keep);

}  // namespace lockstep::trainer
