// What a Trainer records while it trains.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "trainer/loop/trainer.h"

namespace lockstep {
namespace {

// Nothing where there was no target: a mean over nothing is no number.
void add_means(std::vector<std::pair<std::string, double>>& values, const std::string& prefix,
               const Measured& measured) {
  if (measured.targets == 0) return;
  for (const auto& [name, counter] : measured.counters)
    values.emplace_back(prefix + name, counter.mean());
}

}  // namespace

void Trainer::log_training() {
  const auto times = clock_.take();
  const auto local = meter_.take();
  const auto global = merge_measured(parts_.world, local);
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> elapsed = now - logged_at_;
  logged_at_ = now;
  NamedValues values;
  add_means(values, "train/", global);
  if (parts_.config.tracking.ranks.kind != RankSelection::Kind::Main) {
    add_means(values, "rank/", local);
    for (auto& value : rank_step_times(times)) values.push_back(std::move(value));
  }
  const auto step_times = gather_step_times(parts_.world, times);
  values.insert(values.end(), step_times.begin(), step_times.end());
  values.emplace_back("train/lr", last_lr_);
  if (last_grad_norm_.defined())
    values.emplace_back("train/grad_norm", last_grad_norm_.item<double>());
  if (scaler_) {
    values.emplace_back("train/loss_scale", scaler_->state().scale);
  }
  tell_skipped(values);
  if (elapsed.count() > 0) {
    values.emplace_back("train/samples_per_s", global.samples / elapsed.count());
    if (const auto name = model_->target_name(); !name.empty())
      values.emplace_back(fmt::format("train/{}_per_s", name), global.targets / elapsed.count());
  }
  const auto data = std::exchange(data_stats_, {});
  values.emplace_back("data/wait_s", data.wait_s);
  values.emplace_back("data/ready",
                      static_cast<double>(data.ready) / static_cast<double>(data.batches));
  tell_bad_samples(values);
  if (const auto reason = graphed_ ? graphed_->take_reason() : std::nullopt)
    parts_.tracker.text(TextLevel::Warning,
                        "train.cuda_graph: steps go on without a graph: " + *reason);
  record(values);
  if (!non_finite_.stops() || std::isfinite(global.loss())) return;
  non_finite_.note("loss", local.loss(), position_.step);
  non_finite_.stop(parts_.world);
}

void Trainer::tell_skipped(NamedValues& values) {
  if (!scaler_ && !non_finite_.skips()) return;
  const auto count = non_finite_.take_skipped();
  const auto by_scaler = scaler_ ? scaler_->take_skipped() : 0;
  values.emplace_back("train/skipped_steps", static_cast<double>(count + by_scaler));
  if (count > 0)
    parts_.tracker.text(
        TextLevel::Warning,
        fmt::format("train.non_finite: {} steps up to step {} were skipped: a loss or a gradient "
                    "was not finite",
                    count, position_.step));
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

// Collective: their number over all ranks; each rank names its own first ones.
void Trainer::tell_bad_samples(NamedValues& values) {
  if (parts_.config.data.loader.max_bad_samples == 0) return;
  for (const auto& [name, bad] : {std::pair{"data.train", &bad_train_}, {"data.eval", &bad_eval_}})
    for (const auto& line : bad->take_news())
      parts_.tracker.text(TextLevel::Warning, fmt::format("{}: {}", name, line));
  const auto own = static_cast<double>(bad_train_.count() + bad_eval_.count());
  const auto all = merge_counters(parts_.world, {{"bad_samples", {own, 1}}});
  values.emplace_back("data/bad_samples", all.at("bad_samples").sum);
}

void Trainer::record(const NamedValues& values) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : values) metrics.push_back({name, value});
  parts_.tracker.log(position_.step, epoch_fraction(), metrics);
}

}  // namespace lockstep
