// What a Trainer does between steps: metrics, evaluations, generated texts and checkpoints.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/trainer.h"
#include "trainer/loop/trial.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {
namespace {

// The checkpoint of a resumed run was written before this evaluation, and may be the best. A failure
// does not stop training.
void complete_checkpoint(const std::filesystem::path& run_dir, const CheckpointHead& head,
                         Tracker& tracker) {
  try {
    add_evaluation(tracking::checkpoints_path(run_dir), head);
  } catch (const Error& error) {
    tracker.text(TextLevel::Warning,
                 fmt::format("the evaluation was not added to its checkpoint: {}", error.what()));
  }
}

}  // namespace

void Trainer::try_model() {
  parallel_->gather_weights();
  trainer::try_model(run_, world_.device());
  parallel_->release_weights();
}

// For the evaluation that begins; null: it records metrics only.
std::unique_ptr<EvaluationMedia> Trainer::next_media() {
  const auto& config = config_.tracking.media;
  if (++num_evaluations_ % config.every != 0) return nullptr;
  if (config.histograms) record_histograms(world_, tracker_, moment(), parameters_);
  if (!config.confusion && config.worst_samples == 0) return nullptr;
  return std::make_unique<EvaluationMedia>(config, world_, *run_.data.eval);
}

EvaluationResult Trainer::evaluate_now() {
  verify_finite();
  const auto begin = std::chrono::steady_clock::now();
  enter_phase(Phase::Evaluating);
  const auto media = next_media();
  parallel_->broadcast_buffers();
  call(&Hook::before_evaluation);
  if (average_) parallel_->broadcast_buffers();  // the averages of buffers too
  EvaluationMetrics metrics(config_.train.eval_metrics, *run_.data.eval,
                            media && config_.tracking.media.confusion);
  EvaluationOptions options{.model = model_title_,
                            .batch_size = config_.data.eval_batch_size,
                            .workers = plan_.workers_per_rank,
                            .precision = config_.train.precision,
                            .bad_samples = metrics_.bad_eval(),
                            .metrics = &metrics,
                            .is_collective = parallel_->gathers_weights()};
  if (media)
    options.on_batch = [&](const auto& batch, const auto& outputs) {
      media->add_batch(batch, outputs);
    };
  options.should_stop = [this] {
    vote_.begin(step_flags());
    stop_.agree(vote_.finish());
    return stop_.is_stopping();
  };
  optimizer_.use_evaluation_weights();
  parallel_->gather_weights();
  const auto result = evaluate(world_, *model_, *run_.data.eval, options);
  parallel_->release_weights();
  optimizer_.use_training_weights();
  const bool is_first = evaluated_step_ != position_.step;  // at this step
  if (!result.empty()) {
    evaluation_ = result;
    evaluated_step_ = position_.step;
    evaluation_is_due_ = false;
  }
  call(&Hook::after_evaluation, result);
  if (result.empty()) return {};
  if (const auto& best = config_.checkpoint.keep_best; best.count)
    metric_of(evaluation_, best.metric, "checkpoint.keep_best.metric");
  if (media) media->record(tracker_, moment(), metrics.confusion());
  const bool is_resumed = !has_stepped_ && position_.step > 0 && saved_step_ == position_.step;
  if (is_first && is_resumed && tracking::is_main(world_.rank()))
    complete_checkpoint(
        run_dir_,
        {.position = position_, .early_stop = early_stop_.state(), .evaluation = evaluation_},
        tracker_);
  enter_phase(Phase::Logging);
  metrics_.exclude(std::chrono::steady_clock::now() - begin);
  return result;
}

// Ranks that do not log wait for those that do.
void Trainer::sample_now() {
  verify_finite();
  const auto begin = std::chrono::steady_clock::now();
  enter_phase(Phase::Evaluating);
  parallel_->gather_weights();
  in_model(model_title_, nullptr, [&] {
    run_.samples->record(*model_, world_.device(), tracker_, moment(),
                         parallel_->gathers_weights());
  });
  parallel_->release_weights();
  distributed::barrier(world_, "texts of train.samples");
  enter_phase(Phase::Logging);
  metrics_.exclude(std::chrono::steady_clock::now() - begin);
}

// Collective: what the initial weights predict, computed once and stored with the run.
void Trainer::find_references() {
  auto* const train = run_.train_references.get();
  auto* const eval = run_.eval_references.get();
  if (!train) return;
  enter_phase(Phase::Evaluating);
  const auto file = reference_path(run_dir_);
  const auto on_main = [&](const std::function<void()>& act) {
    distributed::act_on_main(world_, "references", [&] {
      act();
      return nlohmann::json();
    });
  };
  const bool is_new = position_.step == 0;
  if (!is_new) on_main([&] { load_references(file, *train, eval); });
  for (auto* data : {train, eval}) {
    if (!data) continue;
    auto values =
        is_new || !data->values().defined() ? at::zeros({data->size(), 2}) : data->values();
    if (is_new) {
      parallel_->gather_weights();
      const auto batch_size = std::max<int64_t>(1, plan_.global_batch_size / world_.world_size());
      evaluate(world_, *model_, *data,
               {.model = model_title_,
                .batch_size = batch_size,
                .workers = plan_.workers_per_rank,
                .precision = config_.train.precision,
                .on_batch =
                    [&](const Batch& batch, const Outputs& outputs) {
                      values.index_copy_(0, batch.indices.to(at::kCPU),
                                         outputs.predictions.to(at::kCPU, at::kFloat));
                    },
                .is_collective = parallel_->gathers_weights()});
      parallel_->release_weights();
      all_reduce(world_, values, distributed::ReduceOp::Sum, "references");
    } else {
      distributed::broadcast(world_, values, 0, "references");
    }
    data->set(values);
  }
  if (is_new) on_main([&] { save_references(file, *train, eval); });
}

// By a hook, before a step.
EvaluationResult Trainer::evaluate_on_request() {
  if (!run_.data.eval)
    throw config_error("an evaluation was requested, but the run file has no data.eval");
  return evaluate_now();
}

// Returns nullopt if steps cannot be skipped.
std::optional<int64_t> Trainer::take_skipped() {
  if (!scaler_ && !non_finite_.skips()) return std::nullopt;
  const auto count = non_finite_.take_skipped();
  if (count > 0)
    metrics_.warn(
        fmt::format("train.non_finite: {} steps up to step {} were skipped because a loss or a "
                    "gradient was not finite",
                    count, position_.step));
  return count + (scaler_ ? scaler_->take_skipped() : 0);
}

void Trainer::log_training() {
  OptimizerReport optimizer{
      .lr = last_lr_, .grad_norm = last_grad_norm_, .num_skipped = take_skipped()};
  if (scaler_) optimizer.loss_scale = scaler_->state().scale;
  if (run_.dropout) optimizer.dropout_factor = run_.dropout->factor(position_.step - 1);
  if (const auto reason = graphed_ ? graphed_->take_reason() : std::nullopt)
    metrics_.warn("train.cuda_graph: steps continue without a graph: " + *reason);
  auto clock = clock_;
  const auto summary = metrics_.log(context(), clock.take(), optimizer, model_->target_name());
  clock_.take();
  logged_step_ = position_.step;
  if (summary.ranks) stop_.note_times(*summary.ranks);
  if (!non_finite_.stops() || std::isfinite(summary.global_loss)) return;
  non_finite_.note("loss", summary.local_loss, position_.step);
  non_finite_.stop(world_);
}

void Trainer::save_on_request() {
  if (saved_step_ == position_.step && position_.step > 0) return;
  if (!has_stepped_)
    throw config_error(
        "a checkpoint was requested before the first step: there is nothing to save");
  save_now();
}

void Trainer::save_now() {
  if (!parallel_->gathers_weights()) non_finite_.observe_weights(parameters_, position_.step);
  verify_finite();
  const auto begin = std::chrono::steady_clock::now();
  enter_phase(Phase::Saving);
  call(&Hook::before_checkpoint);
  CheckpointHead head{.position = position_,
                      .early_stop = early_stop_.state(),
                      .evaluation_is_due = evaluation_is_due_,
                      .base = base_};
  if (scaler_) head.loss_scale = scaler_->state();
  if (evaluated_step_ == position_.step) head.evaluation = evaluation_;
  optimizer_.use_evaluation_weights();
  saver_.save({*model_, optimizer_, *parallel_, head, average()}, checkpoint_to_publish(), ends());
  optimizer_.use_training_weights();
  saved_step_ = position_.step;
  call(&Hook::after_checkpoint);
  enter_phase(Phase::Logging);
  metrics_.exclude(std::chrono::steady_clock::now() - begin);
}

std::optional<CheckpointToPublish> Trainer::checkpoint_to_publish() const {
  const auto which = config_.tracking.checkpoints;
  if (which == tracking::PublishedCheckpoints::None ||
      (which == tracking::PublishedCheckpoints::Last && !is_finished()))
    return std::nullopt;
  return CheckpointToPublish{run_dir_, config_.run.name, position_,
                             evaluated_step_ == position_.step ? evaluation_ : EvaluationResult()};
}

}  // namespace lockstep::trainer
