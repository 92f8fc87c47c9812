#include "trainer/trainer.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "data/sampling.h"
#include "distributed/counters.h"
#include "tracking/run_directory.h"
#include "tracking/stop_request.h"
#include "trainer/evaluation.h"
#include "trainer/gradients.h"
#include "trainer/publishing.h"
#include "trainer/training_state.h"

namespace lockstep {
namespace {

// How often the main rank looks for a stop request.
constexpr auto kAskEvery = std::chrono::seconds(1);

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::shared_ptr<Model> place_model(const TrainerParts& parts) {
  const auto& model = parts.model;
  model->to(parts.world.device());
  model->train();
  // From here on ranks draw different numbers (dropout), each reproducibly.
  at::manual_seed(static_cast<uint64_t>(parts.config.run.seed + 1 + parts.world.rank()));
  return model;
}

NamedTensors trainable_parameters(const Model& model) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters())
    if (item.value().requires_grad()) parameters.emplace_back(item.key(), item.value());
  return parameters;
}

BatchPlan plan(const TrainerParts& parts) {
  return plan_batches(parts.config.data.loader, parts.train_set.size(),
                      {parts.world.world_size(), parts.world.local_world_size()});
}

SamplerOptions order_of_samples(const TrainerParts& parts, const BatchPlan& plan) {
  return sampler_options(parts.config.data.loader, parts.train_set,
                         static_cast<uint64_t>(parts.config.run.seed), plan.global_batch_size);
}

int64_t count_steps(const RunConfig& config, int64_t steps_per_epoch) {
  const auto steps = steps_per_epoch * config.train.epochs;
  return std::min(steps, config.train.max_steps.value_or(steps));
}

}  // namespace

Trainer::Trainer(const TrainerParts& parts)
    : parts_(parts),
      plan_(plan(parts)),
      steps_per_epoch_(ceil_divide(plan_.batches_per_epoch, parts.config.train.accumulate)),
      total_steps_(count_steps(parts.config, steps_per_epoch_)),
      model_(place_model(parts)),
      parameters_(trainable_parameters(*model_)),
      optimizer_(parts.config.optimizer.build(parameters_)),
      schedule_(parts.config.schedule.build({total_steps_, steps_per_epoch_})),
      parallel_(parts.world, *model_, parts.config.distributed.data_parallel),
      sampler_(parts.train_set.size(), {parts.world.rank(), parts.world.world_size()},
               order_of_samples(parts, plan_)),
      log_due_(parts.world, parts.config.train.log_every),
      eval_due_(parts.world, parts.config.train.eval_every),
      save_due_(parts.world, parts.config.checkpoint.every),
      clock_(parts.world.progress()),
      vote_(parts.world),
      early_stop_(parts.config.train.early_stop) {}

int64_t Trainer::resume() {
  const TrainingState state{*model_, *optimizer_, position_};
  warnings_ = restore_state(parts_.world, state, checkpoints_path(parts_.run_dir));
  saved_step_ = position_.step;
  return position_.step;
}

EvaluationResult Trainer::run() {
  for (const auto& line : warnings_) parts_.tracker.text(TextLevel::Warning, line);
  logged_at_ = std::chrono::steady_clock::now();
  parts_.world.progress().set_step(position_.step, total_steps_);
  use_timeout_of(Phase::Building);  // the first step is a part of it
  while (!is_finished() && !votes_) train_epoch();
  if (parts_.eval_set && evaluated_step_ != position_.step && !votes_) evaluate_now();
  if (saved_step_ != position_.step) save_now();
  return evaluation_;
}

// What this rank brings to the vote of the step that begins.
uint32_t Trainer::own_flags() {
  uint32_t flags = 0;
  if (const auto signal = parts_.interruption ? parts_.interruption->signal() : std::nullopt)
    flags |= flag_of_signal(*signal);
  const auto now = std::chrono::steady_clock::now();
  if (is_main(parts_.world.rank()) && now - asked_at_ >= kAskEvery) {
    asked_at_ = now;
    if (read_stop_request(parts_.run_dir)) flags |= kStopRequest;
  }
  return flags;
}

// Checkpoints and evaluations may take long; a step that does is a rank that hangs.
void Trainer::use_timeout_of(Phase phase) {
  clock_.enter(phase);
  const auto& config = parts_.config.distributed;
  const auto timeout = is_stepping(phase) ? config.step_timeout.value : config.timeout.value;
  parts_.world.set_timeout(timeout);
  parts_.world.progress().set_limits(config.hang_warning.value, timeout);
}

bool Trainer::is_finished() const {
  return position_.step >= total_steps_ || position_.epoch >= parts_.config.train.epochs;
}

double Trainer::epoch_fraction() const {
  return static_cast<double>(position_.epoch) +
         static_cast<double>(position_.samples) /
             static_cast<double>(plan_.batches_per_epoch * plan_.global_batch_size);
}

void Trainer::train_epoch() {
  if (position_.samples == 0) position_.lanes = parts_.world.world_size();
  sampler_.set_epoch(position_.epoch, position_.lanes);
  Loader loader(parts_.train_set, sampler_.indices(position_.samples),
                {.batch_size = plan_.per_rank_batch_size,
                 .drop_last = parts_.config.data.loader.drop_last,
                 .workers = plan_.workers_per_rank,
                 .prefetch = parts_.config.data.loader.prefetch,
                 .seed = static_cast<uint64_t>(parts_.config.run.seed),
                 .epoch = position_.epoch,
                 .device = parts_.world.device(),
                 .name = "data.train"});
  // A run that was stopped with another batch size may have left less than one of today's.
  if (loader.num_batches() == 0) {
    position_ = {position_.step, position_.epoch + 1, 0};
    return;
  }
  const auto epoch = position_.epoch;
  while (position_.epoch == epoch && !is_finished() && !votes_) {
    train_step(loader);
    data_stats_ += loader.take_stats();
    const bool epoch_ended = loader.position() == loader.num_batches();
    if (epoch_ended) position_ = {position_.step, position_.epoch + 1, 0};
    after_step(epoch_ended);
  }
}

void Trainer::train_step(Loader& loader) {
  const auto num_batches =
      std::min(parts_.config.train.accumulate, loader.num_batches() - loader.position());
  const auto counts =
      batch_counts(loader.num_samples(), plan_.per_rank_batch_size, loader.position(), num_batches);
  clock_.enter(Phase::Voting);
  vote_.begin(own_flags());
  clock_.enter(Phase::Optimizer);
  parallel_.zero_gradients();
  for (int64_t i = 0; i < num_batches; ++i) {
    clock_.enter(Phase::DataWait);
    const auto batch = loader.next();
    check(batch.has_value(), "the loader ended before the plan did");
    const bool synchronize = i + 1 == num_batches;
    clock_.enter(Phase::Forward);
    parallel_.before_forward(synchronize);
    const bool compiled = model_->has_backward();
    const auto outputs =
        compiled ? pass_compiled(*batch, weighted_loss(at::ones({}), counts, i), synchronize)
                 : model_->forward(*batch);
    check(outputs.loss.defined() && outputs.count == batch->size(),
          "a model in training must return the mean loss over the samples of its batch");
    clock_.enter(Phase::Backward);
    if (!compiled) parallel_.backward(weighted_loss(outputs.loss, counts, i), synchronize);
    if (synchronize) clock_.add_communication(parallel_.exposed_wait());
    meter_.add(outputs);
    position_.samples =
        std::min(position_.samples + plan_.global_batch_size, parts_.train_set.size());
  }
  clock_.enter(Phase::Optimizer);
  optimize();
  ++position_.step;
  clock_.enter(Phase::Voting);
  votes_ = vote_.finish();
  clock_.end_step(position_.step, total_steps_);
}

Outputs Trainer::pass_compiled(const Batch& batch, const at::Tensor& weight, bool synchronize) {
  auto step = model_->forward_backward(batch, weight.to(parts_.world.device()));
  clock_.enter(Phase::Backward);
  parallel_.add_gradients(std::move(step.gradients), synchronize);
  return step.outputs;
}

void Trainer::optimize() {
  const at::NoGradGuard no_grad;
  last_lr_ = optimizer_->base_lr() * schedule_->factor(position_.step);
  if (const auto limit = parts_.config.train.clip_grad_norm)
    last_grad_norm_ = clip_gradients(parameters_, *limit);
  optimizer_->step(last_lr_);
}

void Trainer::after_step(bool epoch_ended) {
  if (is_finished()) votes_ = 0;  // it ends anyway
  if (!has_stepped_) use_timeout_of(Phase::Logging);
  has_stepped_ = true;
  if (log_due_.due(position_, epoch_ended) || is_finished() || votes_) log_training();
  const bool eval_is_due = parts_.eval_set && eval_due_.due(position_, epoch_ended);
  if (!votes_ && (eval_is_due || (parts_.eval_set && is_finished()))) evaluate_now();
  if (save_due_.due(position_, epoch_ended) || is_finished() || votes_) save_now();
}

void Trainer::log_training() {
  const auto times = clock_.take();
  const auto local = meter_.take();
  const auto global = merge_counters(parts_.world, local);
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> elapsed = now - logged_at_;
  logged_at_ = now;
  NamedValues values;
  for (const auto& [name, counter] : global) values.emplace_back("train/" + name, counter.mean());
  if (parts_.config.tracking.ranks.kind != RankSelection::Kind::Main) {
    for (const auto& [name, counter] : local) values.emplace_back("rank/" + name, counter.mean());
    values.emplace_back("rank/step_time_s", times.own());
  }
  const auto step_times = gather_step_times(parts_.world, times);
  values.insert(values.end(), step_times.begin(), step_times.end());
  values.emplace_back("train/lr", last_lr_);
  if (last_grad_norm_) values.emplace_back("train/grad_norm", *last_grad_norm_);
  if (elapsed.count() > 0)
    values.emplace_back("train/samples_per_s", global.at("loss").count / elapsed.count());
  const auto data = std::exchange(data_stats_, {});
  values.emplace_back("data/wait_s", data.wait_s);
  values.emplace_back("data/ready",
                      static_cast<double>(data.ready) / static_cast<double>(data.batches));
  record(values);
}

void Trainer::record(const NamedValues& values) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : values) metrics.push_back({name, value});
  parts_.tracker.log(position_.step, epoch_fraction(), metrics);
}

void Trainer::evaluate_now() {
  const auto begin = std::chrono::steady_clock::now();
  use_timeout_of(Phase::Evaluating);
  parallel_.broadcast_buffers();
  const auto result = evaluate(parts_.world, *model_, *parts_.eval_set,
                               {.batch_size = parts_.config.data.eval_batch_size,
                                .workers = plan_.workers_per_rank,
                                .should_stop = [this] {
                                  vote_.begin(own_flags());
                                  return (votes_ = vote_.finish()) != 0;
                                }});
  if (result.empty()) return;
  evaluation_ = result;
  evaluated_step_ = position_.step;
  early_stop_.add(evaluation_);
  if (early_stop_.is_due() && !is_finished()) votes_ |= kEarlyStop;  // the same on every rank
  NamedValues values;
  for (const auto& [name, value] : evaluation_) values.emplace_back("eval/" + name, value);
  record(values);
  use_timeout_of(Phase::Logging);
  logged_at_ +=
      std::chrono::steady_clock::now() - begin;  // evaluation is not part of the training speed
}

void Trainer::save_now() {
  const auto begin = std::chrono::steady_clock::now();
  use_timeout_of(Phase::Saving);
  save_state(parts_.world, {*model_, *optimizer_, position_}, checkpoints_path(parts_.run_dir),
             parts_.config.checkpoint.keep_last);
  saved_step_ = position_.step;
  publish_saved();
  use_timeout_of(Phase::Logging);
  logged_at_ += std::chrono::steady_clock::now() - begin;
}

// The save ended with a barrier: the checkpoint is whole.
void Trainer::publish_saved() {
  const auto& which = parts_.config.tracking.checkpoints;
  const bool wanted = which == "all" || (which == "last" && is_finished());
  if (!wanted || !is_main(parts_.world.rank())) return;
  CheckpointToPublish checkpoint{
      .run_dir = parts_.run_dir, .run_name = parts_.config.run.name, .position = position_};
  if (evaluated_step_ == position_.step) checkpoint.evaluation = evaluation_;
  publish_checkpoint(checkpoint, parts_.tracker);
}

}  // namespace lockstep
