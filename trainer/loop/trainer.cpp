#include "trainer/loop/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/config/precision.h"
#include "trainer/loop/gradients.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {
namespace {

// Null on ranks that write no checkpoints.
std::unique_ptr<CheckpointMirror> open_mirror(const TrainerParts& parts) {
  const auto& config = parts.run.config;
  const bool writes =
      config.checkpoint.writers == WritingRanks::All || tracking::is_main(parts.world.rank());
  if (!config.checkpoint.mirror || !writes) return nullptr;
  return std::make_unique<CheckpointMirror>(
      mirror_of_run(*config.checkpoint.mirror, parts.run_dir.filename(),
                    config.data.object_cache.timeout.value),
      tracking::checkpoints_path(parts.run_dir));
}

SavingOptions saving_options(const TrainerParts& parts, CheckpointMirror* mirror) {
  const auto& config = parts.run.config.checkpoint;
  return {.checkpoints = tracking::checkpoints_path(parts.run_dir),
          .keep = {config.keep_last, config.keep_best, config.keep_every},
          .in_background = config.async,
          .all_write = config.writers == WritingRanks::All,
          .exported = parts.run.model->exported_files(),
          .is_mirrored = config.mirror.has_value(),
          .mirror = mirror};
}

}  // namespace

std::unique_ptr<Trainer> Trainer::create(const TrainerParts& parts) {
  auto shared = share_model(parts.world, parts.run);
  std::optional<WeightAverage> average;
  if (const auto& ema = parts.run.config.train.ema; ema.decay) {
    const auto* const sharding = shared.parallel->sharding();
    average.emplace(ema, *shared.model, sharding, shared_averages(sharding));
  }
  return std::unique_ptr<Trainer>(new Trainer(parts, std::move(shared), std::move(average)));
}

Trainer::Trainer(const TrainerParts& parts, SharedModel shared,
                 std::optional<WeightAverage> average)
    : world_(parts.world),
      run_(parts.run),
      tracker_(parts.tracker),
      run_dir_(parts.run_dir),
      config_(parts.run.config),
      plan_(parts.run.plan),
      model_title_(parts.run.model_title()),
      model_(std::move(shared.model)),
      parameters_(std::move(shared.parameters)),
      parallel_(std::move(shared.parallel)),
      units_(std::move(shared.units)),
      optimizer_(std::move(shared.optimizer)),
      average_(std::move(average)),
      shards_(config_.distributed.data_parallel.virtual_shards.value_or(0), config_.run.seed,
              parts.world, *model_),
      sampler_(run_.data.train->size(), {parts.world.rank(), parts.world.world_size()},
               std::move(parts.run.order)),
      log_due_(parts.world, config_.train.log_every),
      eval_due_(parts.world, config_.train.eval_every),
      save_due_(parts.world, config_.checkpoint.every),
      sample_due_(parts.world, config_.train.samples.every),
      metrics_(parts.world, parts.tracker, config_),
      stop_(parts.world, parts.run_dir, parts.stop_signals, parts.change_group != nullptr,
            config_.distributed.slow_ranks, parts.is_invited),
      clock_(parts.world.progress()),
      vote_(parts.world),
      change_group_(parts.change_group),
      early_stop_(config_.train.early_stop),
      context_{parts.world, *model_, parts.tracker, parts.run_dir},
      non_finite_(config_.train.non_finite),
      mirror_(open_mirror(parts)),
      saver_(parts.world, parts.tracker, saving_options(parts, mirror_.get())) {
  if (config_.train.precision == Precision::Float16) scaler_.emplace();
  if (config_.train.cuda_graph)
    graphed_.emplace(*model_,
                     GraphedPassesOptions{config_.train.precision, config_.train.accumulate > 1});
  if (const auto every = config_.train.audit.gradients_every)
    audit_.emplace(*every, *config_.distributed.data_parallel.virtual_shards, world_, parameters_);
  if (change_group_) undo_.emplace(*model_, scaler_ ? &*scaler_ : nullptr);
  if (average_) hooks_.push_back(&*average_);
  hooks_.insert(hooks_.end(), {&early_stop_, &metrics_});
  if (run_.dropout) hooks_.push_back(run_.dropout.get());
  for (const auto& hook : parts.run.hooks) hooks_.push_back(hook.get());
  if (const auto& audit = config_.train.audit; audit.every)
    hooks_.push_back(&weight_audit_.emplace(audit, optimizer_));
  context_.evaluate = [this] { return evaluate_on_request(); };
  context_.save = [this] { save_on_request(); };
}

HookContext& Trainer::context() {
  context_.step = position_.step;
  context_.epoch = static_cast<double>(position_.epoch) +
                   static_cast<double>(position_.samples) /
                       static_cast<double>(plan_.batches_per_epoch * plan_.global_batch_size);
  return context_;
}

// By a hook.
void Trainer::stop_if_requested() {
  const auto reason = std::exchange(context_.stop, std::nullopt);
  if (reason && !is_finished()) stop_.stop_early(*reason);
}

int64_t Trainer::resume() {
  CheckpointHead head;
  warnings_ =
      restore_state(world_, {*model_, optimizer_, *parallel_, head, average(), run_.weights.file},
                    tracking::checkpoints_path(run_dir_));
  restore_head(head);
  if (run_.deferred && position_.step > 0) run_.deferred->discard();
  if (change_group_) optimizer_.keep_shards();
  return saved_step_ = position_.step;
}

// The steps until position_ may have had other sizes.
void Trainer::find_length() {
  length_ = length_of_run(config_.train, plan_, position_);
  schedule_ = config_.schedule.build(length_);
  context_.total_steps = length_.total_steps;
}

void Trainer::restore_head(const CheckpointHead& head) {
  position_ = head.position;
  find_length();
  base_ = head.base;
  early_stop_.restore(head.early_stop);
  if (scaler_ && head.loss_scale) scaler_->restore(*head.loss_scale);
  evaluation_is_due_ = head.evaluation_is_due;
  if (!head.evaluation.empty()) {
    evaluation_ = head.evaluation;
    evaluated_step_ = position_.step;
  }
}

void Trainer::start_new() {
  find_length();
  base_ = load_initial_weights(world_, run_, parallel_->sharding());
  if (change_group_) optimizer_.keep_shards();
}

EvaluationResult Trainer::run() {
  world_.progress().set_step(position_.step,
                             length_.total_steps);  // from now on, ranks can be lost
  for (const auto& line : warnings_) tracker_.text(TextLevel::Warning, line);
  find_references();
  call(&Hook::before_run);
  if (evaluation_is_due_ && run_.data.eval && !after_step_) evaluate_now();
  enter_phase(Phase::Building);  // the first step is a part of it
  if (after_step_) after_step(*after_step_);
  while (!is_finished() && !stop_.is_stopping()) {
    call(&Hook::before_epoch);
    if (!stop_.is_stopping()) train_epoch();
    call(&Hook::after_epoch);
    change_group_if_leaving();
  }
  if (run_.data.eval && evaluated_step_ != position_.step && !stop_.is_stopping()) evaluate_now();
  if (saved_step_ != position_.step && has_stepped_) save_now();
  enter_phase(Phase::Saving);
  saver_.finish();
  call(&Hook::after_run);
  return evaluation_;
}

void Trainer::report_failure(const std::exception& error) noexcept {
  for (auto* hook : hooks_) try {
      hook->on_failure(context(), error);
    } catch (...) {
      // The first failure is the one to report.
    }
}

// This rank's flags for the vote of the step that begins.
uint32_t Trainer::step_flags() {
  uint32_t flags = stop_.poll();
  if (saver_.is_busy()) flags |= kSaving;
  if (saver_.is_uploading()) flags |= kUploading;
  if (saver_.has_checkpoint() && tracking::is_main(world_.rank())) flags |= kSaved;
  if (non_finite_.has_observed()) flags |= kNonFinite;
  return flags;
}

// Checkpoints and evaluations may take long; a step that takes as long is a hang.
void Trainer::enter_phase(Phase phase) {
  clock_.enter(phase);
  const auto& config = config_.distributed;
  const auto timeout = is_stepping(phase) ? config.step_timeout.value : config.timeout.value;
  world_.set_timeout(timeout);
  world_.progress().set_limits(config.hang_warning.value, timeout);
}

bool Trainer::is_finished() const {
  const auto epochs = config_.train.num_epochs();
  return position_.step >= length_.total_steps || (epochs && position_.epoch >= *epochs);
}

void Trainer::train_epoch() {
  if (position_.lanes == 0)
    position_.lanes = config_.data.loader.shuffle_lanes.value_or(
        config_.distributed.data_parallel.virtual_shards.value_or(world_.world_size()));
  sampler_.set_epoch(position_.epoch, position_.lanes);
  const auto shares = sampler_.shares(position_.samples);
  data::Loader loader(*run_.data.train, sampler_.sequence(position_.samples),
                      {.batch_size = shares.batch_size(),
                       .group = shares.parts_per_rank(),
                       .workers = plan_.workers_per_rank,
                       .prefetch = config_.data.loader.prefetch,
                       .seed = static_cast<uint64_t>(config_.run.seed),
                       .epoch = position_.epoch,
                       .device = world_.device(),
                       .name = "data.train",
                       .bad_samples = metrics_.bad_train()});
  // A run that was stopped with another batch size may have left less than one batch.
  if (loader.num_batches() == 0) {
    position_ = {position_.step, position_.epoch + 1, 0, position_.lanes};
    return;
  }
  const auto epoch = position_.epoch;
  while (position_.epoch == epoch && !is_finished() && !stop_.is_stopping()) {
    clock_.enter(Phase::Optimizer);
    call(&Hook::before_step);
    if (const auto reason = std::exchange(context_.stop_now, std::nullopt)) {
      stop_.stop_early(*reason);
      if (has_stepped_) after_step(/*epoch_ended=*/false);
      return;
    }
    train_step(loader, shares);
    metrics_.add_loading(loader.take_stats());
    const bool epoch_ended = loader.position() == loader.num_batches();
    if (epoch_ended) position_ = {position_.step, position_.epoch + 1, 0, position_.lanes};
    after_step(epoch_ended);
    if (!epoch_ended) change_group_if_leaving();
  }
}

void Trainer::train_step(data::Loader& loader, const data::BatchShares& shares) {
  const bool votes_last = non_finite_.skips();
  const bool audits = audit_ && audit_->is_due(position_.step + 1);
  const bool adds_parts = shards_.adds_parts() || audits;
  metrics_.begin_step(*model_);
  clock_.enter(Phase::Voting);
  if (!votes_last) vote_.begin(step_flags());
  clock_.enter(Phase::Optimizer);
  parallel_->zero_gradients();
  if (undo_) undo_->begin(position_, metrics_.meter());
  clock_.enter(Phase::DataWait);
  StepBatches batches(
      *model_, loader,
      {config_.train.accumulate, shares, config_.data.loader.max_bad_samples > 0, model_title_});
  batches.agree_on_weights(world_);
  const auto recompute = recompute_of(batches);
  if (audits) {
    metrics_.count_flops_later();
    audit_->begin_step(
        position_.step + 1, [&](auto part) { return batches.samples_of(part); }, recompute);
  }
  while (!batches.is_last()) {
    clock_.enter(Phase::DataWait);
    const auto batch = batches.next();
    const bool synchronize = batches.is_last();
    clock_.enter(Phase::Forward);
    parallel_->before_forward(synchronize);
    if (batches.begins_part()) shards_.begin_part(position_.step, batches.part());
    const auto outputs = pass(batch, batches, synchronize && !adds_parts);
    if (audits && batches.ends_part()) audit_->end_part(batches.part());
    if (adds_parts && batches.ends_part()) parallel_->end_part(synchronize);
    if (synchronize) clock_.add_communication(parallel_->exposed_wait());
    const bool is_usable = non_finite_.observe("loss", outputs.loss, position_.step + 1, [&] {
      return cause_of_loss(batch, parallel_->gathers_weights() ? NamedTensors() : parameters_);
    });
    if (is_usable || !votes_last) metrics_.meter().add(outputs, batches.counts());
    if (!run_.hooks.empty()) context_.loss = outputs.loss.detach();
    if (batches.part() == 0)
      position_.samples =
          std::min(position_.samples + plan_.global_batch_size, run_.data.train->size());
  }
  shards_.end_step();
  clock_.enter(Phase::Voting);
  if (audits) audit_->end_step(recompute);
  if (votes_last) vote_on_step();
  if (undo_) parallel_->broadcast_buffers();  // if rank 0 is lost, the others have them
  if (!votes_last) flags_ = vote_.finish();   // before the optimizer, which completes the step
  clock_.enter(Phase::Optimizer);
  optimize();
  if (undo_) undo_->commit();
  ++position_.step;
  after_step_ = loader.position() == loader.num_batches();
  clock_.enter(Phase::Voting);
  if ((flags_ & kNonFinite) && non_finite_.stops()) non_finite_.stop(world_);
  stop_.agree(flags_);
  saving_ = {!(flags_ & kSaving), !(flags_ & kUploading), (flags_ & kSaved) != 0};
  clock_.enter(Phase::Optimizer);
  call(&Hook::after_step);
  clock_.end_step(position_.step, length_.total_steps);
}

// With train.non_finite: skip, called before the optimizer: agrees on whether any rank observed a
// value that is not finite. The gradients are the same on all ranks.
void Trainer::vote_on_step() {
  clock_.enter(Phase::Optimizer);
  if (!scaler_) non_finite_.observe_gradients(step_gradients().own(), position_.step + 1);
  clock_.enter(Phase::Voting);
  vote_.begin(step_flags());
  flags_ = vote_.finish();
}

// Collective, called before the weights are evaluated or saved: with train.non_finite: stop, throws
// if a value since the last vote was not finite.
void Trainer::verify_finite() {
  if (!non_finite_.stops()) return;
  non_finite_.note("loss", metrics_.meter().loss(), position_.step);
  vote_.begin(step_flags());
  if (vote_.finish() & kNonFinite) non_finite_.stop(world_);
}

// Forward and backward pass.
Outputs Trainer::pass(const Batch& batch, const StepBatches& batches, bool synchronize) {
  return in_model(model_title_, &batch,
                  [&] { return unguarded_pass(batch, batches, synchronize); });
}

Outputs Trainer::unguarded_pass(const Batch& batch, const StepBatches& batches, bool synchronize) {
  const auto weighted = [&](const at::Tensor& loss) {
    return scaler_ ? scaler_->scaled(batches.weighted(loss)) : batches.weighted(loss);
  };
  std::optional<StepOutputs> step;
  if (graphed_ || model_->has_backward()) {
    const auto weight = weighted(at::ones({}, world_.device()));
    if (graphed_) step = graphed_->pass(batch, weight);
    if (!step && model_->has_backward()) step = model_->forward_backward(batch, weight);
  }
  const auto outputs = step ? step->outputs : forward_in(config_.train.precision, *model_, batch);
  batches.verify(batch, outputs, /*has_gradient=*/!step);
  clock_.enter(Phase::Backward);
  if (step)
    parallel_->add_gradients(std::move(step->gradients), synchronize,
                             std::move(step->remaining_segments));
  else
    parallel_->backward(weighted(outputs.loss), synchronize);
  return outputs;
}

StepGradients Trainer::step_gradients() { return {parameters_, parallel_->sharding()}; }

void Trainer::optimize() {
  const at::NoGradGuard no_grad;
  last_lr_ = optimizer_.base_lr() * schedule_->factor(position_.step);
  if (non_finite_.skips() && (flags_ & kNonFinite))
    return non_finite_.count_skipped(position_.step + 1);
  if (scaler_ && !scaler_->unscale(step_gradients())) return;
  non_finite_.count_taken();
  if (const auto limit = config_.train.clip_grad_norm)
    last_grad_norm_ = clip_gradients(step_gradients(), *limit);
  if (non_finite_.stops())
    non_finite_.observe("gradient norm", last_grad_norm_, position_.step + 1);
  in_part("optimizer", config_.optimizer.name(),
          [&] { in_gpu_memory(model_title_, [&] { optimizer_.step(last_lr_); }); });
}

void Trainer::after_step(bool epoch_ended) {
  if (is_finished()) stop_.complete();
  if (!has_stepped_) {
    enter_phase(Phase::Logging);
    CheckpointHead head{.base = base_};
    saver_.prepare({*model_, optimizer_, *parallel_, head, average()});  // optimizer state exists
  }
  has_stepped_ = true;
  saver_.poll(std::exchange(saving_, {}));  // the ranks agreed on what is true at one time
  const auto is_done = [this](int64_t step) { return step == position_.step; };
  if ((log_due_.due(position_, epoch_ended) || ends()) && !is_done(logged_step_)) log_training();
  const bool was_due = evaluation_is_due_;  // when a rank was lost: see hand_over()
  evaluation_is_due_ = run_.data.eval && (eval_due_.due(position_, epoch_ended) || was_due) &&
                       !is_done(evaluated_step_);
  if (!stop_.is_stopping() && run_.data.eval && !is_done(evaluated_step_) &&
      (evaluation_is_due_ || is_finished()))
    evaluate_now();
  const bool may_sample = !stop_.is_stopping() || stop_.reason() == StopReason::EarlyStop;
  if (run_.samples && may_sample && (sample_due_.due(position_, epoch_ended) || ends()))
    sample_now();
  if (ends() && !is_done(logged_step_)) log_training();  // the evaluation has stopped the run
  if ((save_due_.due(position_, epoch_ended) || ends()) && !is_done(saved_step_)) save_now();
  after_step_.reset();
}

}  // namespace lockstep::trainer
