// The interface of hooks: code that the training loop calls at fixed points, listed in the run file
// under train.hooks. Early stopping, weight averaging and metric recording are built-in hooks,
// which are called before those of the run file.
//
// Example:
//   struct StopAtLossConfig {
//     double loss = 0.01;
//   };
//   template <class V>
//   void fields(V& v, StopAtLossConfig& c) {
//     v("loss", c.loss, "evaluation loss at which to stop", lockstep::above(0));
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
//   REGISTER_HOOK("stop_at_loss", StopAtLoss, "stops at a target evaluation loss");
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/model.h"
#include "lockstep/record.h"
#include "lockstep/registry.h"
#include "lockstep/tracker.h"
#include "lockstep/world.h"

namespace lockstep {

// The state that a hook can use. Outlives all calls.
struct HookContext {
  World& world;
  Model& model;                   // on world.device()
  Tracker& tracker;               // a no-op on ranks that do not log (tracking.ranks)
  std::filesystem::path run_dir;  // of the job; may not be shared between nodes
  int64_t total_steps = 0;        // of the whole run
  int64_t step = 0;               // done so far
  double epoch = 0;               // done so far, with the fraction
  // Set this to a reason, on all ranks, to stop the run after the current step with a checkpoint;
  // the run is then reported as `stopped early`. No effect in the last step.
  std::optional<std::string> stop;
  std::optional<std::string> stop_now;  // as stop, in before_step: this step is not trained
  at::Tensor
      loss;  // of the last batch of this rank, on its device; undefined before the first step
  // For before_step, on all ranks: evaluates on data.eval, or saves a checkpoint, whether or not it is
  // due. Throw Config without data.eval, or before the first step. The result is empty if a stop
  // request interrupted the evaluation.
  std::function<EvaluationResult()> evaluate;
  std::function<void()> save;
};

// Called on every rank, by the training thread, in the order of train.hooks:
//   before_run
//     before_epoch
//       before_step, after_step, and when due
//       before_evaluation, after_evaluation, before_checkpoint, after_checkpoint
//     after_epoch
//   after_run, or on_failure
// The final evaluation and checkpoint may follow the last after_epoch. A resumed run calls
// before_run again; a hook that has state must save it in a file in the run directory.
//
// Collectives: allowed in all functions except on_failure, in the same order on all ranks.
// before_step and after_step count towards the step time; other ranks wait for this one.
//
// Errors: an exception fails the run, like one of the trainer (error.h); others than Error are reported
// as invalid input, with the hook's name if it is in train.hooks. The constructor is called
// before the ranks connect: throw config_error() there for invalid settings.
class Hook {
 public:
  virtual ~Hook() = default;

  virtual void before_run(HookContext&) {}
  // Called after the last checkpoint of a run that did not fail, even if it stopped early.
  virtual void after_run(HookContext&) {}

  // Also called when a run resumes or stops in the middle of an epoch.
  virtual void before_epoch(HookContext&) {}
  virtual void after_epoch(HookContext&) {}

  // before_step: before the first batch is loaded. after_step: after the optimizer; the gradients
  // of the step are still available.
  virtual void before_step(HookContext&) {}
  virtual void after_step(HookContext&) {}

  // In before_evaluation the model has the evaluated weights (with train.ema: the average), in
  // after_evaluation the trained ones. `result` is empty if a stop request interrupted the
  // evaluation.
  virtual void before_evaluation(HookContext&) {}
  virtual void after_evaluation(HookContext&, const EvaluationResult& /*result*/) {}

  // after_checkpoint: the state is captured; with checkpoint.async it may not be on disk yet.
  virtual void before_checkpoint(HookContext&) {}
  virtual void after_checkpoint(HookContext&) {}

  // This rank failed, possibly before before_run. Do not call collectives: other ranks may have
  // failed already. Exceptions are ignored.
  virtual void on_failure(HookContext&, const std::exception& /*error*/) {}
};

using HookRegistry = Registry<Hook>;
HookRegistry& hook_registry();

}  // namespace lockstep

// Registers a hook. Use at namespace scope. `type`: a Hook with a member type Config and a
// constructor from it.
#define REGISTER_HOOK(name, type, help)                                                           \
  static const ::lockstep::Registration<type> registration_of_##type(::lockstep::hook_registry(), \
                                                                     name, help)
