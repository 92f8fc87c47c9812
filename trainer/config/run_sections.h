// The sections of a run file that belong to the trainer itself; parts bring their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/launch_sections.h"
#include "core/config/period.h"
#include "data/sampling/batch_plan.h"
#include "data/sampling/split.h"
#include "lockstep/data_parallel.h"
#include "lockstep/dataset.h"
#include "lockstep/hook.h"
#include "lockstep/part.h"
#include "lockstep/world.h"
#include "trainer/config/non_finite.h"
#include "trainer/config/precision.h"
#include "trainer/state/early_stop.h"
#include "trainer/state/weight_average.h"

namespace lockstep::trainer {

struct DataSection {
  Part<Dataset> train{dataset_registry()};
  Part<Dataset> eval{dataset_registry()};  // may be left out
  data::SplitConfig split;                 // with neither: no evaluation
  data::LoaderConfig loader;               // its keys stand in `data:` itself
  int64_t eval_batch_size = 500;
};

struct TrainSection {
  int64_t epochs = 1;
  std::optional<int64_t> max_steps;
  std::optional<std::string> init_from;
  std::vector<std::string> init_except;
  std::vector<std::string> freeze;
  int64_t accumulate = 1;
  Precision precision = Precision::Float32;
  std::optional<double> clip_grad_norm;
  NonFinitePolicy non_finite = NonFinitePolicy::Stop;
  bool cuda_graph = false;
  Period eval_every{1, Period::Unit::Epochs};
  Period log_every{10, Period::Unit::Steps};
  EarlyStopConfig early_stop;
  EmaConfig ema;
  PartList<Hook> hooks{hook_registry()};
};

struct DistributedSection {
  DeviceChoice device = DeviceChoice::Auto;
  BackendChoice backend = BackendChoice::Auto;
  DataParallelConfig data_parallel;  // its keys stand in `distributed:` itself
  Duration timeout{std::chrono::minutes(30)};
  Duration step_timeout{std::chrono::minutes(10)};
  Duration hang_warning{std::chrono::seconds(3)};
};

template <class V>
void fields(V& v, DataSection& c) {
  v("train", c.train, "the dataset to train on", required());
  v("eval", c.eval,
    "the dataset to evaluate on; each sample counts exactly once, whatever the number of ranks");
  v("split", c.split, "one dataset for both");
  fields(v, c.loader);
  v("eval_batch_size", c.eval_batch_size, "samples per evaluation batch", at_least(1),
    at_most(1 << 30), needs("data.eval", "data.split.eval"));
}

template <class V>
void fields(V& v, TrainSection& c) {
  v("epochs", c.epochs, "passes over the training set", at_least(1));
  v("max_steps", c.max_steps, "stop after this many optimizer steps, if that is earlier",
    at_least(1));
  v("init_from", c.init_from,
    "a safetensors file, or the index of several, with the weights that a new run begins with, "
    "e.g. "
    "for fine-tuning");
  v("init_except", c.init_except,
    "weights, or modules, that begin as without init_from, whatever the file has, e.g. [fc] for "
    "other classes",
    needs("train.init_from"));
  v("freeze", c.freeze, "weights, or modules, that are not trained, e.g. [conv1, bn1, layer1]");
  v("accumulate", c.accumulate, "batches per optimizer step", at_least(1));
  v("precision", c.precision,
    "of the forward and backward pass; bf16, fp16: autocast, as torch.autocast: parameters, "
    "gradients and loss stay float32; fp16 scales the loss as torch.amp.GradScaler");
  v("clip_grad_norm", c.clip_grad_norm, "scale gradients down to this norm when they are longer",
    above(0));
  v("non_finite", c.non_finite,
    "when a loss, or the gradient norm where it is computed, is nan or inf: stop ends the run with "
    "exit code 78, before the next checkpoint; skip leaves out the optimizer step on all ranks and "
    "counts it (train/skipped_steps), which makes every step wait for the GPU; ignore goes on");
  v("cuda_graph", c.cuda_graph,
    "record forward and backward pass as a CUDA graph, once per shape of a batch, and replay it: "
    "the same numbers, quicker where kernels are small");
  v("eval_every", c.eval_every, "how often to evaluate; always also at the end",
    needs("data.eval", "data.split.eval"));
  v("log_every", c.log_every, "how often to record training metrics");
  v("early_stop", c.early_stop, "end when the evaluation no longer gets better",
    needs("data.eval", "data.split.eval"));
  v("ema", c.ema, "an exponential moving average of the weights, which is what is evaluated");
  v("hooks", c.hooks, "parts of plugins that are called at fixed points of the training, in order");
}

template <class V>
void fields(V& v, DistributedSection& c) {
  v("device", c.device, "where to compute; auto takes a GPU where there is one");
  v("backend", c.backend,
    "what carries gradients; auto: nccl for GPUs; for CPUs shm (shared memory) where all ranks are "
    "on one host, else gloo; hierarchical: shared memory within a host and gloo between hosts, "
    "with "
    "bits that depend on who shares a host");
  fields(v, c.data_parallel);
  v("timeout", c.timeout,
    "how long a rank waits for the others at the start, in evaluations and for checkpoints");
  v("step_timeout", c.step_timeout, "how long it waits for them in a training step");
  v("hang_warning", c.hang_warning,
    "how long ranks wait for one before `lockstep launch` says which and where it is; at least ten "
    "steps, and ten times as long outside of steps");
}

}  // namespace lockstep::trainer
