// The whole run file: composes the configuration of every part. Read, overridden and validated
// once, before any process group or device exists; const from then on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/part.h"
#include "lockstep/schedule.h"
#include "tracking/config/tracking_config.h"
#include "trainer/checkpoint/checkpoint_section.h"
#include "trainer/config/distributed_section.h"
#include "trainer/config/optimizer_choice.h"
#include "trainer/config/run_sections.h"

namespace lockstep::trainer {

struct RunConfig {
  RunSection run;
  std::vector<std::string> plugins;
  Part<Model> model{model_registry()};
  DataSection data;
  OptimizerChoice optimizer;
  Part<Schedule, const ScheduleSpan&> schedule{schedule_registry(), "constant"};
  TrainSection train;
  DistributedSection distributed;
  CheckpointSection checkpoint;
  tracking::TrackingConfig tracking;
};

template <class V>
void fields(V& v, RunConfig& c) {
  v("run", c.run, "name, seed and directory of the run");
  v("plugins", c.plugins,
    "shared objects that add models, datasets, optimizers, schedules or hooks");
  v("model", c.model, "the model to train", required());
  v("data", c.data, "training and evaluation data, and how they are loaded", required());
  v("optimizer", c.optimizer, "the optimizer");
  v("schedule", c.schedule, "the learning rate schedule");
  v("train", c.train, "length and settings of the training");
  v("distributed", c.distributed, "device, communication and timeouts");
  v("checkpoint", c.checkpoint, "when checkpoints are saved, and how a restart uses them");
  v("tracking", c.tracking, "what is recorded, and where");
}

// Reads `path`, applies `overrides` ("a.b=value"), loads the plugins it names and validates the
// rest. Throws Config; loading plugins is the only side effect.
RunConfig load_run_config(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides);

// Loads only the plugins that the run file `path` names: for --help and the schema. Throws Config.
void load_plugins_of(const std::filesystem::path& path);

// JSON Schema (draft 2020-12) of a run file with every registered part, including those of loaded
// plugins. Throws Config if two of them have one name.
Json run_config_schema();

}  // namespace lockstep::trainer
