// The interface of hooks: code that the training calls at fixed points, listed in the run file
// under train.hooks. Early stopping, the average of the weights and the recorded metrics are hooks
// too, called before those of the run file.
//
// Example:
//   struct StopAtLossConfig {
//     double loss = 0.01;
//   };
//   template <class V>
//   void fields(V& v, StopAtLossConfig& c) {
//     v("loss", c.loss, "good enough", lockstep::above(0));
//   }
//
//   class StopAtLoss final : public lockstep::Hook {
//    public:
//     using Config = StopAtLossConfig;
//     explicit StopAtLoss(const Config& config) : config_(config) {}
//     void after_evaluation(lockstep::HookContext& run,
//                           const lockstep::EvaluationResult& result) override {
//       const auto loss = result.find("loss");
//       if (loss != result.end() && loss->second <= config_.loss) run.stop = "the loss is reached";
//     }
//
//    private:
//     Config config_;
//   };
//   REGISTER_HOOK("stop_at_loss", StopAtLoss, "ends the run at an evaluation loss");
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/model.h"
#include "lockstep/record.h"
#include "lockstep/registry.h"
#include "lockstep/tracker.h"
#include "lockstep/world.h"

namespace lockstep {

// What a hook may read and use. Outlives all calls.
struct HookContext {
  World& world;
  Model& model;                   // on world.device()
  Tracker& tracker;               // does nothing on ranks that do not log (tracking.ranks)
  std::filesystem::path run_dir;  // of the job; other nodes may not see that of rank 0
  int64_t total_steps = 0;        // of the whole run
  int64_t step = 0;               // done so far
  double epoch = 0;               // done so far, with the fraction
  // Set it on all ranks alike to end the run after the current step, with a checkpoint and this
  // reason, as `stopped early`. No effect in the last step.
  std::optional<std::string> stop;
};

// Called on every rank, by the training thread, in the order of train.hooks:
//   before_run
//     before_epoch
//       before_step, after_step, and when they are due
//       before_evaluation, after_evaluation, before_checkpoint, after_checkpoint
//     after_epoch
//   after_run, or on_failure
// The last evaluation and checkpoint may come after the last after_epoch. A resumed run starts with
// before_run again; a hook keeps its state in a file of the run directory.
//
// Collectives: allowed everywhere but in on_failure, on all ranks alike. The time of before_step
// and after_step is part of the step, in which other ranks wait for this one.
//
// Errors: an exception ends the run like one of the trainer (error.h). The constructor is called
// before the ranks meet: throw config_error() there for invalid settings.
class Hook {
 public:
  virtual ~Hook() = default;

  virtual void before_run(HookContext&) {}
  // After the last checkpoint of a run that did not fail, also when it stopped before its last
  // step.
  virtual void after_run(HookContext&) {}

  // Also when a run resumes or stops in the middle of an epoch.
  virtual void before_epoch(HookContext&) {}
  virtual void after_epoch(HookContext&) {}

  // before_step: before the first batch is loaded. after_step: after the optimizer; the gradients
  // of the step are still there.
  virtual void before_step(HookContext&) {}
  virtual void after_step(HookContext&) {}

  // before_evaluation: the model has the weights that are evaluated (with train.ema, the average);
  // after_evaluation: those that are trained. `result` is empty when a stop interrupted the
  // evaluation.
  virtual void before_evaluation(HookContext&) {}
  virtual void after_evaluation(HookContext&, const EvaluationResult& /*result*/) {}

  // after_checkpoint: the state is captured; with checkpoint.async it may not be on the disk yet.
  virtual void before_checkpoint(HookContext&) {}
  virtual void after_checkpoint(HookContext&) {}

  // This rank failed, possibly before before_run. Other ranks may have failed earlier or wait for
  // it: no collectives. Exceptions of this function are ignored.
  virtual void on_failure(HookContext&, const std::exception& /*error*/) {}
};

using HookRegistry = Registry<Hook>;
HookRegistry& hook_registry();

}  // namespace lockstep

// At namespace scope, once per hook. `type`: a Hook with a Config and a constructor from it.
#define REGISTER_HOOK(name, type, help)                                                           \
  static const ::lockstep::Registration<type> registration_of_##type(::lockstep::hook_registry(), \
                                                                     name, help)
