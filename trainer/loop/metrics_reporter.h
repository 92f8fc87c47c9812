// Training metrics: accumulates what steps report, and records it when logging is due.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/loader/bad_samples.h"
#include "data/loader/loader_options.h"
#include "formats/store/object_cache.h"
#include "lockstep/hook.h"
#include "lockstep/tracker.h"
#include "lockstep/world.h"
#include "trainer/config/precision.h"
#include "trainer/config/run_config.h"
#include "trainer/loop/module_costs.h"
#include "trainer/loop/step_times.h"
#include "trainer/state/meter.h"

namespace lockstep::trainer {

using NamedValues = std::vector<std::pair<std::string, double>>;

// What the optimizer did in the last step.
struct OptimizerReport {
  double lr = 0;
  at::Tensor grad_norm;                  // undefined: not measured
  std::optional<double> loss_scale;      // with fp16
  std::optional<double> dropout_factor;  // with train.dropout
  std::optional<int64_t> num_skipped;  // steps since the last report; none: no step can be skipped
};

// What was measured and not recorded yet, and what was recorded last.
struct MetricsWindow {
  Meter meter;
  data::LoaderStats loading;
  std::chrono::steady_clock::time_point begin;
  int64_t begin_step = 0;
  int64_t step = -1;  // of `recorded`
  double epoch = 0;
  NamedValues recorded;  // all values of that step
};

// Thread: the training thread.
class MetricsReporter final : public Hook {
 public:
  // The arguments outlive this.
  MetricsReporter(World& world, Tracker& tracker, const RunConfig& config);

  // Starts the clock of samples per second, unless it was resumed.
  void before_run(HookContext& run) override;
  // Ends counting; with tracking.modules, records the table model/modules.
  void after_step(HookContext& run) override;
  // Records the result.
  void after_evaluation(HookContext& run, const EvaluationResult& result) override;

  // Called when the hooks have been called before a step: counts the operations of the first one.
  void begin_step(Model& model);
  // In a step that computes more than its passes: a later one is counted.
  void count_flops_later();

  // Excludes time from the training throughput: evaluation, checkpoints.
  void exclude(std::chrono::steady_clock::duration time) { logged_at_ += time; }

  // Accumulates losses and other sums of the batches.
  Meter& meter() { return meter_; }
  void add_loading(const data::LoaderStats& stats) { loading_ += stats; }
  // Bad samples of the training and the evaluation loader; null: none are tolerated.
  std::shared_ptr<data::BadSamples> bad_train() { return bad_train_; }
  std::shared_ptr<data::BadSamples> bad_eval() { return bad_eval_; }

  struct Summary {
    double local_loss = 0, global_loss = 0;    // sums
    std::optional<tracking::RankTimes> ranks;  // nullopt: there is one
  };
  // Collective: merges the values of all ranks since the last call and records them.
  // `target_name`: of the model; may be empty.
  Summary log(const HookContext& run, const StepTimes& times, const OptimizerReport& optimizer,
              const std::string& target_name);

  // For the reporter of the next trainer in this process. resume(): if `records`, records again what
  // was recorded last, for an event log that another process may have left incomplete.
  MetricsWindow window() const;
  void resume(const MetricsWindow& window, bool records);

  void warn(const std::string& line) { tracker_.text(TextLevel::Warning, line); }

 private:
  void record(const HookContext& run, const NamedValues& values);
  void log_values(int64_t step, double epoch, const NamedValues& values);
  static void add_optimizer(NamedValues& values, const OptimizerReport& optimizer);
  void add_loading_to(NamedValues& values);
  void add_flops(NamedValues& values, int64_t steps, double seconds);
  void add_store_to(NamedValues& values);

  World& world_;
  Tracker& tracker_;
  const bool per_rank_;  // also record metrics of this rank
  const bool records_modules_;
  Meter meter_;
  data::LoaderStats loading_;  // since the last logging
  formats::StoreStats store_;  // at the last logging
  const std::shared_ptr<data::BadSamples> bad_train_, bad_eval_;
  std::chrono::steady_clock::time_point logged_at_;
  MetricsWindow last_;  // its step, epoch and recorded values
  int64_t logged_step_ = 0;
  std::unique_ptr<ModuleCosts> costs_;  // in the first step
  std::optional<int64_t> flops_;        // of this rank in that step
  std::optional<double> all_flops_;     // of all ranks
  const Precision precision_;
  std::optional<double> peak_flops_;  // of a rank's device; nullopt: unknown
};

}  // namespace lockstep::trainer
