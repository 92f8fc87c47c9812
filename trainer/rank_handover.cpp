// Trainer::hand_over() and take_over(): a trainer continues from the state in memory of another one,
// after a loss or, with change_group_if_leaving(), when a rank leaves or joins.

#include <ATen/core/grad_mode.h>

#include "distributed/objects.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/loop/trainer.h"

namespace lockstep::trainer {
namespace {

// What all ranks must agree on besides the checkpoint.
nlohmann::json describe_progress(const HandedOver& state) {
  nlohmann::json after_step = nullptr;
  if (state.after_step) after_step = *state.after_step;
  return {{"after_step", after_step},
          {"logged_step", state.logged_step},
          {"saved_step", state.saved_step},
          {"num_evaluations", state.num_evaluations},
          {"metrics", state.metrics.meter.names()},
          {"last_lr", state.last_lr}};
}

}  // namespace

StepUndo::StepUndo(const Model& model, LossScaler* scaler) : scaler_(scaler) {
  for (const auto& buffer : model.buffers()) buffers_.push_back(buffer.detach());
}

void StepUndo::begin(const Position& position, const Meter& meter) {
  position_ = position;
  meter_ = meter;
  if (scaler_) scale_ = scaler_->state();
  begun_.clear();
  for (const auto& buffer : buffers_) begun_.push_back(buffer.clone());
  is_pending_ = true;
}

void StepUndo::undo(Position& position, Meter& meter) {
  if (!std::exchange(is_pending_, false)) return;
  position = position_;
  meter = meter_;
  if (scaler_) scaler_->restore(scale_);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(begun_[i]);
}

// Collective, between two steps. Returns if no rank is to leave or join, or if the group stays as it is.
void Trainer::change_group_if_leaving() {
  if (!stop_.is_leaving() || is_finished()) return;
  saver_.complete();  // the next group knows nothing of a pending checkpoint
  if (change_group_(position_.step, stop_.departure())) throw GroupChange();
  stop_.stay();
  if (has_stepped_ && stop_.is_stopping()) after_step(/*epoch_ended=*/false);
}

HandedOver Trainer::hand_over() {
  saver_.end_writing();  // while the others wait: in a new group, this rank must connect at once
  undo_->undo(position_, metrics_.meter());
  optimizer_.use_training_weights();
  if (average_) average_->use_training_weights();
  // Gradients may be in memory of the group.
  for (const auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
  if (after_step_ == true && position_.samples > 0)
    position_ = {position_.step, position_.epoch + 1, 0, position_.lanes};
  CheckpointHead head{.position = position_,
                      .early_stop = early_stop_.state(),
                      .evaluation_is_due = evaluation_is_due_};
  if (scaler_) head.loss_scale = scaler_->state();
  if (evaluated_step_ == position_.step) head.evaluation = evaluation_;
  HandedOver state{
      .checkpoint = live_state({*model_, optimizer_, *parallel_, head, average()}),
      .kept = optimizer_.kept(),
      .after_step = after_step_,
      .logged_step = logged_step_,
      .saved_step = saved_step_,
      .num_evaluations = num_evaluations_,
      .last_lr = last_lr_,
      .last_grad_norm = last_grad_norm_,
      .clock = clock_,
      .metrics = metrics_.window(),
  };
  state.checkpoint.head.base = base_;
  return state;
}

void Trainer::take_over(const HandedOver& state, bool takes_log) {
  CheckpointHead head;
  auto checkpoint = state.checkpoint;
  if (state.kept && tracking::is_main(world_.rank())) add_kept_shards(checkpoint, *state.kept);
  spread_state(world_, {*model_, optimizer_, *parallel_, head, average()}, std::move(checkpoint));
  restore_head(head);
  optimizer_.keep_shards();
  const auto progress =
      distributed::broadcast_object(world_, describe_progress(state), 0, "training state");
  if (!progress["after_step"].is_null()) after_step_ = progress["after_step"].get<bool>();
  logged_step_ = progress["logged_step"];
  saved_step_ = progress["saved_step"];
  num_evaluations_ = progress["num_evaluations"];
  last_lr_ = progress["last_lr"];
  last_grad_norm_ = state.last_grad_norm;
  // What a rank that has waited measured before belongs to steps that are logged already.
  const bool is_current = state.clock && state.checkpoint.head.position.step == position_.step;
  if (is_current) {
    clock_.continue_from(*state.clock);
    // Ranks have met since an earlier step was recorded, so its record is complete.
    metrics_.resume(state.metrics, takes_log && state.metrics.step == position_.step);
  }
  metrics_.meter().add_names(progress["metrics"]);
}

}  // namespace lockstep::trainer
