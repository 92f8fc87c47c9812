#include "trainer/loop/metrics_reporter.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "distributed/cuda/cuda.h"
#include "formats/store/process_cache.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/metrics/device_peak.h"

namespace lockstep::trainer {
namespace {

// Adds nothing if there was no target: the mean is undefined.
void add_means(NamedValues& values, const std::string& prefix, const Measured& measured) {
  if (measured.targets == 0) return;
  for (const auto& [name, counter] : measured.counters)
    values.emplace_back(prefix + name, counter.mean());
}

void add_all(NamedValues& values, const NamedValues& more) {
  values.insert(values.end(), more.begin(), more.end());
}

}  // namespace

MetricsReporter::MetricsReporter(World& world, Tracker& tracker, const RunConfig& config)
    : world_(world),
      tracker_(tracker),
      per_rank_(config.tracking.ranks.kind != tracking::RankSelection::Kind::Main),
      records_modules_(config.tracking.modules && tracking::is_main(world.rank())),
      bad_train_(data::tolerated(config.data.loader.max_bad_samples)),
      bad_eval_(data::tolerated(config.data.loader.max_bad_samples)),
      precision_(config.train.precision),
      peak_flops_(config.train.peak_flops) {}

void MetricsReporter::before_run(HookContext& run) {
  if (logged_at_ != decltype(logged_at_)()) return;
  logged_at_ = std::chrono::steady_clock::now();
  logged_step_ = run.step;
  if (peak_flops_ || !world_.device().is_cuda()) return;
  const bool is_half = precision_ != Precision::Float32 || run.model.compute_type() != at::kFloat;
  peak_flops_ = peak_flops_of_gpu(distributed::gpu_name(world_.device().index()), is_half);
}

void MetricsReporter::begin_step(Model& model) {
  if (flops_) return;
  costs_.reset();  // of a step that was undone
  costs_ = std::make_unique<ModuleCosts>(model, world_.device(), records_modules_);
}

void MetricsReporter::count_flops_later() { costs_.reset(); }

void MetricsReporter::after_step(HookContext& run) {
  if (!costs_) return;
  flops_ = costs_->flops();
  if (records_modules_)
    tracker_.table(costs_->table({.name = {}, .step = run.step, .time = 0, .epoch = run.epoch}));
  costs_.reset();
}

void MetricsReporter::after_evaluation(HookContext& run, const EvaluationResult& result) {
  NamedValues values;
  for (const auto& [name, value] : result) values.emplace_back("eval/" + name, value);
  if (!values.empty()) record(run, values);
}

MetricsReporter::Summary MetricsReporter::log(const HookContext& run, const StepTimes& times,
                                              const OptimizerReport& optimizer,
                                              const std::string& target_name) {
  auto meter = meter_;  // if a rank is lost meanwhile, all of this is logged again
  const auto local = meter.take();
  const auto [global, rows] = merge_measured(world_, local, as_row(times));
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> elapsed = now - logged_at_;
  NamedValues values;
  add_means(values, "train/", global);
  if (per_rank_) {
    add_means(values, "rank/", local);
    add_all(values, rank_step_times(times));
  }
  const auto of_ranks = compare_step_times(rows, run.step);
  add_all(values, of_ranks.metrics);
  add_optimizer(values, optimizer);
  if (elapsed.count() > 0) {
    values.emplace_back("train/samples_per_s", global.samples / elapsed.count());
    if (!target_name.empty())
      values.emplace_back(fmt::format("train/{}_per_s", target_name),
                          global.targets / elapsed.count());
  }
  add_flops(values, run.step - logged_step_, elapsed.count());
  add_loading_to(values);
  meter_ = std::move(meter);
  loading_ = {};
  logged_at_ = now;
  logged_step_ = run.step;
  record(run, values);
  return {local.loss(), global.loss(), of_ranks.ranks};
}

// The first call after a step is collective.
void MetricsReporter::add_flops(NamedValues& values, int64_t steps, double seconds) {
  const bool is_first = !all_flops_;
  if (is_first && !flops_) return;  // logged again after the loss of a rank
  if (is_first)
    all_flops_ = distributed::merge_counters(
                     world_, {{"flops", {static_cast<double>(flops_.value_or(0)), 1}}})
                     .at("flops")
                     .sum;
  if (*all_flops_ == 0) return;  // a compiled package without counts
  if (is_first) values.emplace_back("train/flops_per_step", *all_flops_);
  if (!peak_flops_ || seconds <= 0) return;
  const auto per_rank = *all_flops_ / static_cast<double>(world_.world_size());
  values.emplace_back("train/mfu", per_rank * static_cast<double>(steps) / seconds / *peak_flops_);
}

void MetricsReporter::add_optimizer(NamedValues& values, const OptimizerReport& optimizer) {
  values.emplace_back("train/lr", optimizer.lr);
  if (optimizer.grad_norm.defined())
    values.emplace_back("train/grad_norm", optimizer.grad_norm.item<double>());
  if (optimizer.loss_scale) values.emplace_back("train/loss_scale", *optimizer.loss_scale);
  if (optimizer.dropout_factor)
    values.emplace_back("train/dropout_factor", *optimizer.dropout_factor);
  if (optimizer.num_skipped)
    values.emplace_back("train/skipped_steps", static_cast<double>(*optimizer.num_skipped));
}

// Collective: the number of bad samples over all ranks; each rank reports its own first ones.
void MetricsReporter::add_loading_to(NamedValues& values) {
  values.emplace_back("data/wait_s", loading_.wait_s);
  values.emplace_back("data/ready",
                      static_cast<double>(loading_.ready) / static_cast<double>(loading_.batches));
  add_store_to(values);
  if (!bad_train_) return;
  for (const auto& [name, bad] : {std::pair{"data.train", bad_train_}, {"data.eval", bad_eval_}})
    for (const auto& line : bad->take_warnings()) warn(fmt::format("{}: {}", name, line));
  const auto own = static_cast<double>(bad_train_->count() + bad_eval_->count());
  const auto all = distributed::merge_counters(world_, {{"bad_samples", {own, 1}}});
  values.emplace_back("data/bad_samples", all.at("bad_samples").sum);
}

// Of this rank, since the last record.
void MetricsReporter::add_store_to(NamedValues& values) {
  const auto now = formats::store_stats();
  const auto before = std::exchange(store_, now);
  if (now.requests == 0) return;
  const auto add = [&](const char* name, int64_t change) {
    values.emplace_back(name, static_cast<double>(change));
  };
  add("data/store_bytes", now.bytes - before.bytes);
  add("data/store_requests", now.requests - before.requests);
  add("data/store_retries", now.retries - before.retries);
  add("data/store_hedged", now.hedged - before.hedged);
  add("data/store_hits", now.hits - before.hits);
  values.emplace_back("data/store_wait_s", now.wait_s - before.wait_s);
}

void MetricsReporter::record(const HookContext& run, const NamedValues& values) {
  if (last_.step != run.step) last_.recorded.clear();
  last_.step = run.step;
  last_.epoch = run.epoch;
  add_all(last_.recorded, values);
  log_values(run.step, run.epoch, values);
}

void MetricsReporter::log_values(int64_t step, double epoch, const NamedValues& values) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : values) metrics.push_back({name, value});
  tracker_.log(step, epoch, metrics);
}

MetricsWindow MetricsReporter::window() const {
  auto window = last_;
  window.meter = meter_;
  window.loading = loading_;
  window.begin = logged_at_;
  window.begin_step = logged_step_;
  return window;
}

void MetricsReporter::resume(const MetricsWindow& window, bool records) {
  last_ = window;
  meter_ = window.meter;
  loading_ = window.loading;
  logged_at_ = window.begin;
  logged_step_ = window.begin_step;
  if (records && !last_.recorded.empty()) log_values(last_.step, last_.epoch, last_.recorded);
}

}  // namespace lockstep::trainer
