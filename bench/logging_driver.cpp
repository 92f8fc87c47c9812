// Measures the cost of logging in training: alternates blocks of MLP steps with and without logging
// four scalars per step, so that other load affects both.
//   lockstep_bench_logging RUN_DIR NUM_SCALARS
// Prints one JSON object: µs per step of each kind of block (medians), the median overhead in %
// over pairs of adjacent blocks, µs per scalar in the calls, and the number of dropped scalars.
// The caller verifies that the event log is complete.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>

#include "lockstep/data_parallel.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "lockstep/part.h"
#include "lockstep/tracker.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;

namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kPerStep = 4, kStepsOfBlock = 50;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Training {
 public:
  Training() {
    Part<Model> model(model_registry());
    model.read(
        parse_config("m: {name: mlp, inputs: 64, hidden: [64, 64, 64]}", "bench").find("m")[0],
        "model");
    model_ = model.build();
    NamedTensors parameters;
    for (const auto& item : model_->named_parameters())
      parameters.emplace_back(item.key(), item.value());
    Part<Optimizer, const NamedTensors&> optimizer(optimizer_registry());
    optimizer.read(parse_config("o: {name: sgd}", "bench").find("o")[0], "optimizer");
    optimizer_ = optimizer.build(parameters);
    parallel_ = DataParallel::create(*world_, *model_, {});
    batch_.indices = at::arange(32, at::kLong);
    batch_.fields = {{"image", at::rand({32, 1, 8, 8})}, {"label", batch_.indices % 10}};
  }

  double step() {
    parallel_->zero_gradients();
    parallel_->before_forward(true);
    const auto loss = model_->forward(batch_).loss;
    parallel_->backward(loss, true);
    const at::NoGradGuard no_grad;
    optimizer_->step(1e-3);
    return loss.item<double>();
  }

 private:
  std::unique_ptr<World> world_ = World::connect({.device = DeviceChoice::Cpu});
  std::shared_ptr<Model> model_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<DataParallel> parallel_;
  Batch batch_;
};

class Logging {
 public:
  explicit Logging(const std::filesystem::path& run_dir) {
    const RunInfo process{.id = "bench", .name = "bench", .job_id = "bench"};
    create_run_directory(run_dir, process, Json::object());
    tracker_ =
        open_tracker({.run_dir = run_dir, .process = process, .console = {.out = &console_}});
    for (int64_t i = 0; i < kPerStep; ++i) names_.push_back("train/metric-" + std::to_string(i));
    for (const auto& name : names_) metrics_.push_back({name, 0});
  }

  void log(int64_t step, double value) {
    const auto begin = Clock::now();
    for (auto& metric : metrics_) metric.value = value;
    tracker_.log(step, 0, metrics_);
    spent_us_ += us_since(begin);
  }

  double spent_us() const { return spent_us_; }
  uint64_t finish() { return tracker_.finish({.state = RunState::Finished}).num_dropped; }

 private:
  std::ofstream console_{"/dev/null"};
  Tracker tracker_;
  std::vector<std::string> names_;
  std::vector<Metric> metrics_;  // refer to the names
  double spent_us_ = 0;
};

Json measure(const std::filesystem::path& run_dir, int64_t num_scalars) {
  Training training;
  Logging logging(run_dir);
  for (int i = 0; i < 200; ++i) training.step();
  const auto num_steps = num_scalars / kPerStep;
  std::vector<double> silent, logged, added;
  for (int64_t step = 0; step < num_steps; step += kStepsOfBlock) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < kStepsOfBlock; ++i) training.step();
    silent.push_back(us_since(begin) / kStepsOfBlock);
    const auto middle = Clock::now();
    const auto end = std::min(num_steps, step + kStepsOfBlock);
    for (int64_t i = step; i < end; ++i) logging.log(i, training.step());
    logged.push_back(us_since(middle) / static_cast<double>(end - step));
    added.push_back(100 * (logged.back() / silent.back() - 1));
  }
  const auto spent = logging.spent_us() / static_cast<double>(num_steps * kPerStep);
  return {{"scalars", num_steps * kPerStep},
          {"silent_us", median(silent)},
          {"logged_us", median(logged)},
          {"added_percent", median(added)},
          {"scalar_us", spent},
          {"dropped", logging.finish()}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  at::set_num_threads(1);
  std::cout << measure(argv[1], std::stoll(argv[2])).dump() << "\n";
}
