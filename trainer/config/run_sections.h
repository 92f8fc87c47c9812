// The sections of a run file that belong to the trainer itself; parts define their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/launch_sections.h"
#include "core/config/period.h"
#include "data/mixed_images.h"
#include "data/sampling/batch_plan.h"
#include "data/sampling/split.h"
#include "lockstep/dataset.h"
#include "lockstep/hook.h"
#include "lockstep/part.h"
#include "trainer/config/eval_metrics.h"
#include "trainer/config/non_finite.h"
#include "trainer/config/object_cache_config.h"
#include "trainer/config/precision.h"
#include "trainer/config/profile_config.h"
#include "trainer/config/recompute.h"
#include "trainer/config/samples_config.h"
#include "trainer/state/dropout_schedule.h"
#include "trainer/state/early_stop.h"
#include "trainer/state/weight_audit.h"
#include "trainer/state/weight_average.h"

namespace lockstep::trainer {

struct DataSection {
  Part<Dataset> train{dataset_registry()};
  Part<Dataset> eval{dataset_registry()};  // optional
  data::SplitConfig split;                 // with neither: no evaluation
  data::MixConfig mix;
  data::LoaderConfig loader;  // its keys are in `data:` itself
  int64_t eval_batch_size = 500;
  ObjectCacheConfig object_cache;
};

struct TrainSection {
  std::optional<int64_t> epochs;  // see num_epochs()
  std::optional<int64_t> max_steps;
  std::optional<std::string> init_from;
  std::vector<std::string> init_except;
  std::vector<std::string> freeze;
  int64_t accumulate = 1;
  Precision precision = Precision::Float32;
  Matmul matmul = Matmul::Torch;
  std::optional<double> clip_grad_norm;
  NonFinitePolicy non_finite = NonFinitePolicy::Stop;
  bool cuda_graph = false;
  bool deterministic = false;
  Recompute recompute;
  DropoutConfig dropout;
  Period eval_every{1, Period::Unit::Epochs};
  std::vector<EvalMetric> eval_metrics;
  Period log_every{10, Period::Unit::Steps};
  std::optional<double> peak_flops;
  ProfileConfig profile;
  EarlyStopConfig early_stop;
  EmaConfig ema;
  AuditConfig audit;
  SamplesConfig samples;
  PartList<Hook> hooks{hook_registry()};

  // nullopt: as many as max_steps takes.
  std::optional<int64_t> num_epochs() const {
    return epochs || max_steps ? epochs : std::optional<int64_t>(1);
  }
};

template <class V>
void fields(V& v, DataSection& c) {
  v("train", c.train, "the dataset to train on", required());
  v("eval", c.eval,
    "the dataset to evaluate on; each sample counts exactly once, for any number of ranks");
  v("split", c.split, "splits data.train into training and evaluation data");
  v("mix", c.mix, "mixes training images with each other");
  fields(v, c.loader);
  v("eval_batch_size", c.eval_batch_size, "samples per evaluation batch", at_least(1),
    at_most(1 << 30), needs("data.eval", "data.split.eval"));
  v("object_cache", c.object_cache,
    "local copies of data in buckets and of web servers (s3://, gs://, abfss://, https://, hf://), "
    "shared by all processes of a host");
}

template <class V>
void fields(V& v, TrainSection& c) {
  v("epochs", c.epochs,
    "passes over the training set; default: as many as max_steps needs, or 1 without max_steps",
    at_least(1), at_most(1e9));
  v("max_steps", c.max_steps,
    "stop after this many optimizer steps, or after epochs, whichever comes first", at_least(1),
    at_most(1e9));
  v("init_from", c.init_from,
    "a safetensors file, or the index of several, with the initial weights of a new run, e.g. for "
    "fine-tuning");
  v("init_except", c.init_except,
    "weights or modules that are not loaded from init_from, e.g. [fc] for a different number of "
    "classes",
    needs("train.init_from"));
  v("freeze", c.freeze, "weights or modules that are not trained, e.g. [conv1, bn1, layer1]");
  v("accumulate", c.accumulate, "batches per optimizer step (gradient accumulation)", at_least(1));
  v("precision", c.precision,
    "number format of the forward and backward pass; bf16, fp16: mixed precision as with "
    "torch.autocast: parameters, gradients and loss stay float32; fp16 scales the loss like "
    "torch.amp.GradScaler");
  v("matmul", c.matmul,
    "the library of large fp32 matrix products on CPUs; torch: the one that LibTorch uses, with "
    "the bits of PyTorch; onednn: on AMD processors with AVX-512 about twice as fast, from 64 "
    "rows; the results differ by rounding");
  v("clip_grad_norm", c.clip_grad_norm, "clip gradients to this norm, over all parameters",
    above(0));
  v("non_finite", c.non_finite,
    "when a loss, or the gradient norm where it is computed, is nan or inf: stop ends the run with "
    "exit code 78, before the next checkpoint; skip skips the optimizer step on all ranks and "
    "counts it (train/skipped_steps), which makes every step wait for the GPU; ignore continues");
  v("cuda_graph", c.cuda_graph,
    "capture the forward and backward pass as a CUDA graph, once per batch shape, and replay it: "
    "same results, faster where kernels are small");
  v("deterministic", c.deterministic,
    "on a GPU, use only operators that give the same bits each time, which can be slower: a run "
    "that is repeated or resumed is then bit-identical with convolutions and 16-bit attention too; "
    "a model with an operator that has no such form is an error (as "
    "torch.use_deterministic_algorithms); CPUs always do this");
  v("recompute", c.recompute,
    "activation checkpointing: blocks whose activations are recomputed in the backward pass: less "
    "memory, about a third more computation, bit-identical results; blocks: all of them, or a list "
    "of names, e.g. [transformer.h.0]");
  v("dropout", c.dropout, "changes the dropout of the model over the steps");
  v("eval_every", c.eval_every, "evaluation interval; an evaluation also runs at the end",
    needs("data.eval", "data.split.eval"));
  v("eval_metrics", c.eval_metrics, kEvalMetricsHelp, needs("data.eval", "data.split.eval"));
  v("log_every", c.log_every, "interval at which training metrics are recorded");
  v("peak_flops", c.peak_flops,
    "floating-point operations per second that the device of a rank can do at most, e.g. 9.89e14, "
    "for train/mfu; default: that of the GPU for this precision, if it is known",
    above(0));
  v("profile", c.profile, "records the operators of some steps, as a trace for Perfetto");
  v("early_stop", c.early_stop, "stop when an evaluation metric no longer improves",
    needs("data.eval", "data.split.eval"));
  v("ema", c.ema, "exponential moving average of the weights, which evaluations then use");
  v("audit", c.audit, "finds ranks that compute wrongly");
  v("samples", c.samples, "texts that a language model generates while it is trained");
  v("hooks", c.hooks, "hooks of plugins, called at fixed points of the training, in this order");
}

}  // namespace lockstep::trainer
