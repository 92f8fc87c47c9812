#include "trainer/loop/trainer.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/sampling/sampling.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/initial_weights.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/config/precision.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/gradients.h"
#include "trainer/loop/model_faults.h"

namespace lockstep {
namespace {

std::shared_ptr<Model> place_model(const TrainerParts& parts) {
  const auto& model = parts.model;
  model->to(parts.world.device());
  model->train();
  // From here on ranks draw different numbers (dropout), each reproducibly.
  at::manual_seed(static_cast<uint64_t>(parts.config.run.seed + 1 + parts.world.rank()));
  return model;
}

BatchPlan plan(const TrainerParts& parts) {
  return plan_batches(parts.config.data.loader, parts.train_set.size(),
                      {parts.world.world_size(), parts.world.local_world_size()});
}

SamplerOptions order_of_samples(const TrainerParts& parts, const BatchPlan& plan) {
  return sampler_options(parts.config.data.loader, parts.train_set,
                         static_cast<uint64_t>(parts.config.run.seed), plan.rule);
}

SavingOptions saving_options(const TrainerParts& parts) {
  return {.checkpoints = checkpoints_path(parts.run_dir),
          .keep = {parts.config.checkpoint.keep_last, parts.config.checkpoint.keep_best,
                   parts.config.checkpoint.keep_every},
          .in_background = parts.config.checkpoint.async,
          .all_write = parts.config.checkpoint.writers == WritingRanks::All};
}

}  // namespace

Trainer::Trainer(const TrainerParts& parts)
    : parts_(parts),
      plan_(plan(parts)),
      length_(length_of_run(parts.config.train, plan_)),
      model_title_(fmt::format("model '{}'", parts.config.model.name())),
      model_(place_model(parts)),
      parameters_(trainable_parameters(*model_)),
      optimizer_(parts.config.optimizer.build(parameters_)),
      schedule_(parts.config.schedule.build(length_)),
      parallel_(parts.world, *model_, parts.config.distributed.data_parallel),
      sampler_(parts.train_set.size(), {parts.world.rank(), parts.world.world_size()},
               order_of_samples(parts, plan_)),
      log_due_(parts.world, parts.config.train.log_every),
      eval_due_(parts.world, parts.config.train.eval_every),
      save_due_(parts.world, parts.config.checkpoint.every),
      metrics_(parts.world, parts.tracker, parts.config),
      stop_(parts.world, parts.run_dir, parts.interruption),
      clock_(parts.world.progress()),
      vote_(parts.world),
      early_stop_(parts.config.train.early_stop),
      non_finite_(parts.config.train.non_finite),
      saving_(parts.world, parts.tracker, saving_options(parts)) {
  if (parts.config.train.precision == Precision::Float16) scaler_.emplace();
  if (parts.config.train.cuda_graph)
    graphed_.emplace(*model_, GraphedPassesOptions{parts.config.train.precision,
                                                   parts.config.train.accumulate > 1});
  if (parts.config.train.ema.decay) average_.emplace(parts.config.train.ema, *model_);
}

int64_t Trainer::resume() {
  CheckpointHead head;
  warnings_ = restore_state(parts_.world, {*model_, *optimizer_, parallel_, head, average()},
                            checkpoints_path(parts_.run_dir));
  position_ = head.position;
  early_stop_.restore(head.early_stop);
  if (scaler_ && head.loss_scale) scaler_->restore(*head.loss_scale);
  evaluation_is_due_ = head.evaluation_is_due;
  saved_step_ = position_.step;
  if (!head.evaluation.empty()) {
    evaluation_ = head.evaluation;
    evaluated_step_ = position_.step;
  }
  return position_.step;
}

void Trainer::load_initial_weights() {
  if (const auto& path = parts_.config.train.init_from)
    lockstep::load_initial_weights(parts_.world, *model_, *path, parts_.config.train.init_except);
}

EvaluationResult Trainer::run() {
  for (const auto& line : warnings_) parts_.tracker.text(TextLevel::Warning, line);
  metrics_.start();
  parts_.world.progress().set_step(position_.step, length_.total_steps);
  if (evaluation_is_due_ && parts_.eval_set) evaluate_now();
  if (early_stop_.is_due() && !is_finished()) stop_.stop_early();  // as the run that stopped there
  enter_phase(Phase::Building);                                    // the first step is a part of it
  while (!is_finished() && !stop_.is_stopping()) train_epoch();
  if (parts_.eval_set && evaluated_step_ != position_.step && !stop_.is_stopping()) evaluate_now();
  if (saved_step_ != position_.step) save_now();
  enter_phase(Phase::Saving);
  saving_.finish();
  return evaluation_;
}

// What this rank brings to the vote of the step that begins.
uint32_t Trainer::step_flags() {
  uint32_t flags = stop_.poll();
  if (saving_.is_busy()) flags |= kSaving;
  if (saving_.has_checkpoint() && is_main(parts_.world.rank())) flags |= kSaved;
  if (non_finite_.has_news()) flags |= kNonFinite;
  return flags;
}

// Checkpoints and evaluations may take long; a step that does is a rank that hangs.
void Trainer::enter_phase(Phase phase) {
  clock_.enter(phase);
  const auto& config = parts_.config.distributed;
  const auto timeout = is_stepping(phase) ? config.step_timeout.value : config.timeout.value;
  parts_.world.set_timeout(timeout);
  parts_.world.progress().set_limits(config.hang_warning.value, timeout);
}

bool Trainer::is_finished() const {
  return position_.step >= length_.total_steps || position_.epoch >= parts_.config.train.epochs;
}

double Trainer::epoch_fraction() const {
  return static_cast<double>(position_.epoch) +
         static_cast<double>(position_.samples) /
             static_cast<double>(plan_.batches_per_epoch * plan_.global_batch_size);
}

void Trainer::train_epoch() {
  if (position_.lanes == 0)
    position_.lanes = parts_.config.data.loader.shuffle_lanes.value_or(parts_.world.world_size());
  sampler_.set_epoch(position_.epoch, position_.lanes);
  const auto shares = sampler_.shares(position_.samples);
  Loader loader(parts_.train_set, sampler_.sequence(position_.samples),
                {.batch_size = shares.batch_size(),
                 .workers = plan_.workers_per_rank,
                 .prefetch = parts_.config.data.loader.prefetch,
                 .seed = static_cast<uint64_t>(parts_.config.run.seed),
                 .epoch = position_.epoch,
                 .device = parts_.world.device(),
                 .name = "data.train",
                 .bad_samples = metrics_.bad_train()});
  // A run that was stopped with another batch size may have left less than one of today's.
  if (loader.num_batches() == 0) {
    position_ = {position_.step, position_.epoch + 1, 0, position_.lanes};
    return;
  }
  const auto epoch = position_.epoch;
  while (position_.epoch == epoch && !is_finished() && !stop_.is_stopping()) {
    train_step(loader, shares);
    metrics_.add_loading(loader.take_stats());
    const bool epoch_ended = loader.position() == loader.num_batches();
    if (epoch_ended) position_ = {position_.step, position_.epoch + 1, 0, position_.lanes};
    after_step(epoch_ended);
  }
}

void Trainer::train_step(Loader& loader, const BatchShares& shares) {
  const bool votes_last = non_finite_.skips();
  clock_.enter(Phase::Voting);
  if (!votes_last) vote_.begin(step_flags());
  clock_.enter(Phase::Optimizer);
  parallel_.zero_gradients();
  clock_.enter(Phase::DataWait);
  StepBatches batches(parts_.world, *model_, loader,
                      {parts_.config.train.accumulate, shares,
                       parts_.config.data.loader.max_bad_samples > 0, model_title_});
  while (!batches.is_last()) {
    clock_.enter(Phase::DataWait);
    const auto batch = batches.next();
    const bool synchronize = batches.is_last();
    clock_.enter(Phase::Forward);
    parallel_.before_forward(synchronize);
    const auto outputs = pass(batch, batches, synchronize);
    if (synchronize) clock_.add_communication(parallel_.exposed_wait());
    const bool is_usable = non_finite_.look("loss", outputs.loss, position_.step + 1);
    if (is_usable || !votes_last) metrics_.meter().add(outputs, batches.counts());
    position_.samples =
        std::min(position_.samples + plan_.global_batch_size, parts_.train_set.size());
  }
  if (votes_last) vote_on_step();
  clock_.enter(Phase::Optimizer);
  optimize();
  ++position_.step;
  if (average_) average_->after_step(position_.step);
  clock_.enter(Phase::Voting);
  if (!votes_last) flags_ = vote_.finish();
  if ((flags_ & kNonFinite) && non_finite_.stops()) non_finite_.stop(parts_.world);
  stop_.agree(flags_);
  none_is_saving_ = !(flags_ & kSaving);
  is_saved_ = flags_ & kSaved;
  clock_.end_step(position_.step, length_.total_steps);
}

// With train.non_finite: skip, before the optimizer: whether any rank saw a value that is not
// finite. The gradients are the same on all ranks.
void Trainer::vote_on_step() {
  clock_.enter(Phase::Optimizer);
  if (!scaler_) non_finite_.look_at_gradients(parameters_, position_.step + 1);
  clock_.enter(Phase::Voting);
  vote_.begin(step_flags());
  flags_ = vote_.finish();
}

// Collective, before what relies on the weights: with train.non_finite: stop, ends the run if a
// value since the last vote was not finite.
void Trainer::verify_finite() {
  if (!non_finite_.stops()) return;
  non_finite_.note("loss", metrics_.meter().loss(), position_.step);
  vote_.begin(step_flags());
  if (vote_.finish() & kNonFinite) non_finite_.stop(parts_.world);
}

// Forward and backward.
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
    const auto weight = weighted(at::ones({}, parts_.world.device()));
    if (graphed_) step = graphed_->pass(batch, weight);
    if (!step && model_->has_backward()) step = model_->forward_backward(batch, weight);
  }
  const auto outputs =
      step ? step->outputs : forward_in(parts_.config.train.precision, *model_, batch);
  batches.verify(batch, outputs, /*has_gradient=*/!step);
  clock_.enter(Phase::Backward);
  if (step)
    parallel_.add_gradients(std::move(step->gradients), synchronize,
                            std::move(step->remaining_segments));
  else
    parallel_.backward(weighted(outputs.loss), synchronize);
  return outputs;
}

void Trainer::optimize() {
  const at::NoGradGuard no_grad;
  last_lr_ = optimizer_->base_lr() * schedule_->factor(position_.step);
  if (scaler_ && !scaler_->unscale(parameters_)) return non_finite_.forget();
  if (non_finite_.skips() && (flags_ & kNonFinite))
    return non_finite_.count_skipped(position_.step + 1);
  non_finite_.count_taken();
  if (const auto limit = parts_.config.train.clip_grad_norm)
    last_grad_norm_ = clip_gradients(parameters_, *limit);
  if (non_finite_.stops()) non_finite_.look("gradient norm", last_grad_norm_, position_.step + 1);
  optimizer_->step(last_lr_);
}

void Trainer::after_step(bool epoch_ended) {
  if (is_finished()) stop_.complete();
  if (!has_stepped_) {
    enter_phase(Phase::Logging);
    CheckpointHead head;
    saving_.prepare({*model_, *optimizer_, parallel_, head, average()});  // all of it is there now
  }
  has_stepped_ = true;
  saving_.look(none_is_saving_, is_saved_);
  if (log_due_.due(position_, epoch_ended) || is_finished() || stop_.is_stopping()) log_training();
  evaluation_is_due_ = parts_.eval_set && eval_due_.due(position_, epoch_ended);
  if (!stop_.is_stopping() && (evaluation_is_due_ || (parts_.eval_set && is_finished())))
    evaluate_now();
  if (save_due_.due(position_, epoch_ended) || is_finished() || stop_.is_stopping()) save_now();
}

void Trainer::log_training() {
  OptimizerReport optimizer{
      .lr = last_lr_, .grad_norm = last_grad_norm_, .num_skipped = take_skipped()};
  if (scaler_) optimizer.loss_scale = scaler_->state().scale;
  if (const auto reason = graphed_ ? graphed_->take_reason() : std::nullopt)
    metrics_.warn("train.cuda_graph: steps go on without a graph: " + *reason);
  const auto losses = metrics_.log(moment(), clock_.take(), optimizer, model_->target_name());
  if (!non_finite_.stops() || std::isfinite(losses.global)) return;
  non_finite_.note("loss", losses.local, position_.step);
  non_finite_.stop(parts_.world);
}

// None: no step can be skipped.
std::optional<int64_t> Trainer::take_skipped() {
  if (!scaler_ && !non_finite_.skips()) return std::nullopt;
  const auto count = non_finite_.take_skipped();
  if (count > 0)
    metrics_.warn(
        fmt::format("train.non_finite: {} steps up to step {} were skipped: a loss or a gradient "
                    "was not finite",
                    count, position_.step));
  return count + (scaler_ ? scaler_->take_skipped() : 0);
}

Moment Trainer::moment() const { return {.step = position_.step, .epoch = epoch_fraction()}; }

// For the evaluation that begins; none: it shows numbers alone.
std::unique_ptr<EvaluationMedia> Trainer::next_media() {
  const auto& config = parts_.config.tracking.media;
  if (++num_evaluations_ % config.every != 0) return nullptr;
  if (config.histograms) record_histograms(parts_.world, parts_.tracker, moment(), parameters_);
  if (!config.confusion && config.worst_samples == 0) return nullptr;
  return std::make_unique<EvaluationMedia>(config, parts_.world, *parts_.eval_set);
}

void Trainer::evaluate_now() {
  verify_finite();
  const auto begin = std::chrono::steady_clock::now();
  enter_phase(Phase::Evaluating);
  const auto media = next_media();
  parallel_.broadcast_buffers();
  const AveragedWeights averaged(average());
  if (average_) parallel_.broadcast_buffers();  // the averages of buffers too
  const auto result = evaluate(parts_.world, *model_, *parts_.eval_set,
                               {.batch_size = parts_.config.data.eval_batch_size,
                                .workers = plan_.workers_per_rank,
                                .precision = parts_.config.train.precision,
                                .bad_samples = metrics_.bad_eval(),
                                .look =
                                    [&](const Batch& batch, const Outputs& outputs) {
                                      if (media) media->look(batch, outputs);
                                    },
                                .should_stop =
                                    [this] {
                                      vote_.begin(step_flags());
                                      stop_.agree(vote_.finish());
                                      return stop_.is_stopping();
                                    }});
  if (result.empty()) return;
  evaluation_ = result;
  evaluated_step_ = position_.step;
  evaluation_is_due_ = false;
  early_stop_.add(evaluation_);
  if (const auto& best = parts_.config.checkpoint.keep_best; best.count)
    metric_of(evaluation_, best.metric, "checkpoint.keep_best.metric");
  if (early_stop_.is_due() && !is_finished()) stop_.stop_early();
  NamedValues values;
  for (const auto& [name, value] : evaluation_) values.emplace_back("eval/" + name, value);
  metrics_.record(moment(), values);
  if (media) media->record(parts_.tracker, moment());
  enter_phase(Phase::Logging);
  metrics_.exclude(std::chrono::steady_clock::now() - begin);
}

void Trainer::save_now() {
  verify_finite();
  const auto begin = std::chrono::steady_clock::now();
  enter_phase(Phase::Saving);
  CheckpointHead head{.position = position_,
                      .early_stop = early_stop_.state(),
                      .evaluation_is_due = evaluation_is_due_};
  if (scaler_) head.loss_scale = scaler_->state();
  if (evaluated_step_ == position_.step) head.evaluation = evaluation_;
  saving_.save({*model_, *optimizer_, parallel_, head, average()}, checkpoint_to_publish(),
               stop_.is_stopping() || is_finished());
  saved_step_ = position_.step;
  enter_phase(Phase::Logging);
  metrics_.exclude(std::chrono::steady_clock::now() - begin);
}

std::optional<CheckpointToPublish> Trainer::checkpoint_to_publish() const {
  const auto which = parts_.config.tracking.checkpoints;
  const bool is_wanted =
      which == PublishedCheckpoints::All || (which == PublishedCheckpoints::Last && is_finished());
  if (!is_wanted) return std::nullopt;
  CheckpointToPublish checkpoint{
      .run_dir = parts_.run_dir, .run_name = parts_.config.run.name, .position = position_};
  if (evaluated_step_ == position_.step) checkpoint.evaluation = evaluation_;
  return checkpoint;
}

}  // namespace lockstep
