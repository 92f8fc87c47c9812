// A hook as a plugin: stops the run when an evaluation metric reaches a threshold, and records the
// elapsed time.
#include <chrono>
#include <string>

#include <lockstep/error.h>
#include <lockstep/hook.h>

namespace {

// In a run file: train: {hooks: [{name: stop_at, metric: accuracy, at_least: 0.95}]}
struct StopAtConfig {
  std::string metric = "accuracy";
  double at_least = 0;
};

template <class V>
void fields(V& v, StopAtConfig& c) {
  v("metric", c.metric, "the evaluation metric to monitor");
  v("at_least", c.at_least, "the threshold at which the run stops", lockstep::required());
}

class StopAt final : public lockstep::Hook {
 public:
  using Config = StopAtConfig;

  explicit StopAt(const Config& config) : config_(config) {}

  void before_run(lockstep::HookContext&) override { begin_ = Clock::now(); }

  void after_evaluation(lockstep::HookContext& run,
                        const lockstep::EvaluationResult& result) override {
    if (result.empty()) return;
    const auto found = result.find(config_.metric);
    if (found == result.end())
      throw lockstep::config_error("stop_at: the evaluation has no '" + config_.metric + "'");
    // The result is the same on all ranks, so all ranks stop.
    if (found->second < config_.at_least) return;
    run.stop = config_.metric + " is at least " + std::to_string(config_.at_least);
    const std::chrono::duration<double> elapsed = Clock::now() - begin_;
    run.tracker.summary("stop_at/seconds", elapsed.count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  Config config_;
  Clock::time_point begin_;
};

REGISTER_HOOK("stop_at", StopAt, "stops the run when an evaluation metric reaches a threshold");

}  // namespace
