// The run file as a whole: composes the configuration of every part. Read, overridden and validated
// once, before any process group or device exists; const from then on.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/part.h"
#include "core/period.h"
#include "data/batch_plan.h"
#include "data/dataset.h"
#include "data/split.h"
#include "distributed/data_parallel.h"
#include "models/model.h"
#include "tracking/tracking_config.h"
#include "trainer/early_stop.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"

namespace lockstep {

struct RunSection {
  std::string name;  // default: the run file's name without its ending
  int64_t seed = 0;
  std::string dir = "runs";
};

struct DataSection {
  Part<Dataset> train{dataset_registry()};
  Part<Dataset> eval{dataset_registry()};  // may be left out
  SplitConfig split;                       // with neither: no evaluation
  LoaderConfig loader;                     // its keys stand in `data:` itself
  int64_t eval_batch_size = 500;
};

struct TrainSection {
  int64_t epochs = 1;
  std::optional<int64_t> max_steps;
  int64_t accumulate = 1;
  std::string precision = "fp32";
  std::optional<double> clip_grad_norm;
  Period eval_every{1, Period::Unit::Epochs};
  Period log_every{10, Period::Unit::Steps};
  EarlyStopConfig early_stop;
};

struct DistributedSection {
  std::string device = "auto";
  std::string backend = "auto";
  DataParallelConfig data_parallel;  // its keys stand in `distributed:` itself
  Duration timeout{std::chrono::minutes(30)};
  Duration step_timeout{std::chrono::minutes(10)};
  Duration hang_warning{std::chrono::seconds(3)};
};

struct CheckpointSection {
  Period every{1, Period::Unit::Epochs};
  int64_t keep_last = 2;
  std::string resume = "auto";
};

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
  TrackingConfig tracking;
};

template <class V>
void fields(V& v, RunSection& c) {
  v("name", c.name, "what people call the run (default: the run file's name)");
  v("seed", c.seed, "of model initialisation, shuffling and augmentation", at_least(0));
  v("dir", c.dir, "where runs are kept");
}

template <class V>
void fields(V& v, DataSection& c) {
  v("train", c.train, "the dataset to train on", required());
  v("eval", c.eval,
    "the dataset to evaluate on; each sample counts exactly once, whatever the number of ranks");
  v("split", c.split, "one dataset for both");
  fields(v, c.loader);
  v("eval_batch_size", c.eval_batch_size, "samples per evaluation batch", at_least(1),
    at_most(1 << 30));
}

template <class V>
void fields(V& v, TrainSection& c) {
  v("epochs", c.epochs, "passes over the training set", at_least(1));
  v("max_steps", c.max_steps, "stop after this many optimizer steps, if that is earlier",
    at_least(1));
  v("accumulate", c.accumulate, "batches per optimizer step", at_least(1));
  v("precision", c.precision, "of the forward and backward pass", one_of({"fp32"}));
  v("clip_grad_norm", c.clip_grad_norm, "scale gradients down to this norm when they are longer",
    above(0));
  v("eval_every", c.eval_every, "how often to evaluate; always also at the end");
  v("log_every", c.log_every, "how often to record training metrics");
  v("early_stop", c.early_stop, "end when the evaluation no longer gets better");
}

template <class V>
void fields(V& v, DistributedSection& c) {
  v("device", c.device, "where to compute; auto takes a GPU where there is one",
    one_of({"auto", "cpu", "cuda"}));
  v("backend", c.backend,
    "what carries gradients; auto: nccl for GPUs; for CPUs shm (shared memory) where all ranks are "
    "on one host, else gloo",
    one_of({"auto", "shm", "gloo", "nccl"}));
  fields(v, c.data_parallel);
  v("timeout", c.timeout,
    "how long a rank waits for the others at the start, in evaluations and for checkpoints");
  v("step_timeout", c.step_timeout, "how long it waits for them in a training step");
  v("hang_warning", c.hang_warning,
    "how long ranks wait for one before `lockstep launch` says which and where it is; at least ten "
    "steps, and ten times as long outside of steps");
}

template <class V>
void fields(V& v, CheckpointSection& c) {
  v("every", c.every, "how often to save; always also at the end");
  v("keep_last", c.keep_last, "how many of the latest checkpoints to keep", at_least(1));
  v("resume", c.resume,
    "auto: a restart of a run continues from its last good checkpoint; never: it begins anew",
    one_of({"auto", "never"}));
}

template <class V>
void fields(V& v, RunConfig& c) {
  v("run", c.run, "name, seed and place of the run");
  v("plugins", c.plugins, "shared objects that bring models, datasets, optimizers or schedules");
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

// JSON Schema (draft 2020-12) of a run file, with every registered part, those of loaded plugins
// included.
Json run_config_schema();

}  // namespace lockstep
