// The training loop: epochs of steps, with metrics, evaluations and checkpoints when they are due.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader/loader.h"
#include "data/sampling/sampler.h"
#include "distributed/step_vote.h"
#include "lockstep/tracker.h"
#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/config/non_finite.h"
#include "trainer/config/run_length.h"
#include "trainer/config/trigger.h"
#include "trainer/loop/evaluation_media.h"
#include "trainer/loop/graphed_passes.h"
#include "trainer/loop/handed_over.h"
#include "trainer/loop/shared_model.h"
#include "trainer/loop/step_batches.h"
#include "trainer/loop/stop_controller.h"
#include "trainer/prepared/run_hooks.h"
#include "trainer/prepared/virtual_shards.h"
#include "trainer/state/early_stop.h"
#include "trainer/state/gradient_audit.h"
#include "trainer/state/loss_scaler.h"
#include "trainer/state/step_gradients.h"
#include "trainer/state/weight_average.h"

namespace lockstep::trainer {

class Trainer {
 public:
  // Collective: broadcasts rank 0's model. Throws Config or PeerError.
  static std::unique_ptr<Trainer> create(const TrainerParts& parts);

  // Collective: resumes from the run's last good checkpoint, if it has one. Returns its step, or 0.
  int64_t resume();
  // Collective: loads the initial weights of a new run (train.init_from). May throw Config.
  void start_new();
  // Collective: evaluates a few samples, to find problems before the run is recorded. Throws Config.
  void try_model();

  // Collective: trains to the end, evaluates and saves; or saves after the step at which all ranks
  // stop. Throws what its parts throw.
  EvaluationResult run();
  // With change_group. hand_over(): after a PeerError or GroupChange of run(), returns the state after
  // the last complete step; destroy this trainer next. take_over(): collective, instead of resume():
  // with the state of rank 0. `takes_log`: another process has written the event log until now.
  HandedOver hand_over();
  void take_over(const HandedOver& state, bool takes_log);
  // Notifies the hooks that the run fails with `error`.
  void report_failure(const std::exception& error) noexcept;
  const StopController& stop() const { return stop_; }
  int64_t step() const { return position_.step; }
  int64_t total_steps() const { return length_.total_steps; }  // of the whole run

 private:
  Trainer(const TrainerParts& parts, SharedModel shared, std::optional<WeightAverage> average);

  HookContext& context();
  template <class Function, class... Arguments>
  void call(Function function, const Arguments&... arguments) {
    for (auto* hook : hooks_)
      in_hook(run_, *hook, [&] { (hook->*function)(context(), arguments...); });
    stop_if_requested();
  }
  void stop_if_requested();
  void train_epoch();
  void train_step(data::Loader& loader, const data::BatchShares& shares);
  Outputs pass(const Batch& batch, const StepBatches& batches, bool synchronize);
  Outputs unguarded_pass(const Batch& batch, const StepBatches& batches, bool synchronize);
  GradientAudit::Recompute recompute_of(const StepBatches& step);
  void vote_on_step();
  void verify_finite();
  StepGradients step_gradients();
  void optimize();
  void after_step(bool epoch_ended);
  void change_group_if_leaving();
  void find_length();
  void restore_head(const CheckpointHead& head);
  void log_training();
  std::optional<int64_t> take_skipped();
  EvaluationResult evaluate_now();         // empty if a stop interrupted it
  EvaluationResult evaluate_on_request();  // by a hook
  void save_on_request();
  void sample_now();
  void find_references();
  std::unique_ptr<EvaluationMedia> next_media();
  Moment moment() { return {.step = context().step, .epoch = context().epoch}; }
  void save_now();
  std::optional<CheckpointToPublish> checkpoint_to_publish() const;
  uint32_t step_flags();
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }
  void enter_phase(Phase phase);
  bool is_finished() const;
  bool ends() const { return is_finished() || stop_.is_stopping(); }  // after this step

  World& world_;
  const PreparedRun& run_;
  Tracker& tracker_;
  const std::filesystem::path run_dir_;
  const RunConfig& config_;
  const data::BatchPlan& plan_;
  ScheduleSpan length_;            // known when the training state is, as is schedule_
  const std::string model_title_;  // for messages
  std::shared_ptr<Model> model_;
  NamedTensors parameters_;
  std::unique_ptr<DataParallel> parallel_;
  std::unique_ptr<BlockUnits> units_;
  OptimizerShard optimizer_;
  std::shared_ptr<Schedule> schedule_;
  std::optional<WeightAverage> average_;  // with train.ema
  VirtualShards shards_;
  std::optional<GradientAudit> audit_;       // with train.audit.gradients_every
  std::optional<WeightAudit> weight_audit_;  // with train.audit.every
  data::DistributedSampler sampler_;
  Trigger log_due_, eval_due_, save_due_, sample_due_;
  Position position_;
  MetricsReporter metrics_;
  StopController stop_;
  double last_lr_ = 0;
  at::Tensor last_grad_norm_;             // undefined: not measured
  std::optional<LossScaler> scaler_;      // with fp16
  std::optional<GraphedPasses> graphed_;  // with train.cuda_graph
  StepClock clock_;
  distributed::StepVote vote_;
  decltype(TrainerParts::change_group) change_group_;
  std::optional<StepUndo> undo_;    // with change_group_
  std::optional<bool> after_step_;  // as in HandedOver
  bool has_stepped_ = false;
  uint32_t flags_ = 0;  // of the last vote of a step
  SavingVote saving_;   // in the last vote
  EarlyStop early_stop_;
  HookContext context_;       // of the last call; see context()
  std::vector<Hook*> hooks_;  // the trainer's own first
  NonFiniteWatch non_finite_;
  std::vector<std::string> warnings_;  // of resume(), logged by run()
  int64_t num_evaluations_ = 0;        // begun by this process
  int64_t logged_step_ = -1, evaluated_step_ = -1, saved_step_ = -1;
  EvaluationResult evaluation_;
  BaseWeights base_;                          // what checkpoints refer to
  bool evaluation_is_due_ = false;            // at this step, and not done yet
  std::unique_ptr<CheckpointMirror> mirror_;  // null: none, or this rank uploads nothing
  CheckpointSaver saver_;  // last: destroyed first, since it may be reading the other members
};

}  // namespace lockstep::trainer
