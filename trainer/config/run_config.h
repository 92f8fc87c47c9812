// The run file as a whole: composes the configuration of every part. Read, overridden and validated
// once, before any process group or device exists; const from then on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "lockstep/part.h"
#include "lockstep/schedule.h"
#include "tracking/config/tracking_config.h"
#include "trainer/checkpoint/checkpoint_section.h"
#include "trainer/config/run_sections.h"

namespace lockstep::trainer {

struct RunConfig {
  RunSection run;
  std::vector<std::string> plugins;
  Part<Model> model{model_registry()};
  DataSection data;
  Part<Optimizer, const NamedTensors&> optimizer{optimizer_registry(), "sgd"};
  Part<Schedule, const ScheduleSpan&> schedule{schedule_registry(), "constant"};
  TrainSection train;
  DistributedSection distributed;
  CheckpointSection checkpoint;
  tracking::TrackingConfig tracking;
};

template <class V>
void fields(V& v, RunConfig& c) {
  v("run", c.run, "name, seed and place of the run");
  v("plugins", c.plugins,
    "shared objects that bring models, datasets, optimizers, schedules or hooks");
  v("model", c.model, "what is trained", required());
  v("data", c.data, "what it is trained on", required());
  v("optimizer", c.optimizer, "how gradients change parameters");
  v("schedule", c.schedule, "how the learning rate changes over the run");
  v("train", c.train, "how long and how to train");
  v("distributed", c.distributed, "how ranks work together");
  v("checkpoint", c.checkpoint, "when the state is saved, and what a restart does with it");
  v("tracking", c.tracking, "who records what");
}

// Reads `path`, applies `overrides` ("a.b=value"), loads the plugins it names and validates the
// rest. Throws Config; nothing but plugins was touched then.
RunConfig load_run_config(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides);

// Loads the plugins that the run file `path` names, and reads nothing else of it: for --help and
// the schema. Throws Config.
void load_plugins_of(const std::filesystem::path& path);

// JSON Schema (draft 2020-12) of a run file, with every registered part, those of loaded plugins
// included.
Json run_config_schema();

}  // namespace lockstep::trainer
