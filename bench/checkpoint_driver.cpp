// What bench/checkpoint.py runs: an MLP trained with AdamW on noise, and checkpoints of it.
//   lockstep_bench_checkpoint DIRECTORY WIDTH STEPS ROUNDS background|waiting
// One checkpoint after every STEPS steps, ROUNDS times. Prints one line of JSON: the state's bytes,
// how long training stood still for each save, from each save until it was on the disk, and the
// steps: beside writing, and without.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <iostream>

#include "core/part.h"
#include "trainer/saving.h"

using namespace lockstep;

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class Training {
 public:
  explicit Training(int64_t width) {
    const auto text = fmt::format("{{name: mlp, inputs: 784, hidden: [{0}, {0}]}}", width);
    Part<Model> model_part(model_registry());
    model_part.read(parse_config("m: " + text, "bench").find("m")[0], "model");
    model_ = model_part.build();
    NamedTensors parameters;
    for (const auto& item : model_->named_parameters())
      parameters.emplace_back(item.key(), item.value());
    Part<Optimizer, const NamedTensors&> part(optimizer_registry());
    part.read(parse_config("o: {name: adamw}", "bench").find("o")[0], "optimizer");
    optimizer_ = part.build(parameters);
    parallel_ = std::make_unique<DataParallel>(world, *model_, DataParallelConfig{});
    batch_.indices = at::arange(4, at::kLong);
    batch_.fields = {{"image", at::rand({4, 1, 28, 28})}, {"label", at::arange(4, at::kLong)}};
  }

  // Returns its milliseconds.
  double step() {
    const auto begin = Clock::now();
    parallel_->zero_gradients();
    parallel_->before_forward(true);
    parallel_->backward(model_->forward(batch_).loss, true);
    const at::NoGradGuard no_grad;
    optimizer_->step(1e-3);
    ++head_.position.step;
    return ms_since(begin);
  }

  TrainingState state() { return {*model_, *optimizer_, *parallel_, head_}; }

  size_t bytes() const {
    size_t sum = 0;
    for (const auto& list : {tensors_of(*model_), optimizer_->state()})
      for (const auto& [name, tensor] : list) sum += tensor.nbytes();
    return sum;
  }

  World world{{.device = "cpu"}};
  Tracker tracker;

 private:
  std::shared_ptr<Model> model_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<DataParallel> parallel_;
  Batch batch_;
  CheckpointHead head_;
};

nlohmann::json measure(Training& training, const SavingOptions& options, int steps, int rounds) {
  Saving saving(training.world, training.tracker, options);
  training.step();
  saving.prepare(training.state());
  nlohmann::json result = {{"bytes", training.bytes()}};
  for (int i = 0; i < steps; ++i) result["idle_step_ms"].push_back(training.step());
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    saving.save(training.state(), std::nullopt, false);
    result["stall_ms"].push_back(ms_since(begin));
    double written_ms = ms_since(begin);
    for (int i = 0; i < steps; ++i) {
      const bool was_writing = saving.is_busy();
      const auto step_ms = training.step();
      const bool is_writing = saving.is_busy();
      if (was_writing && is_writing) result["writing_step_ms"].push_back(step_ms);
      if (!was_writing) result["idle_step_ms"].push_back(step_ms);
      if (was_writing) written_ms = ms_since(begin);  // to the end of that step
    }
    const bool is_late = saving.is_busy();
    saving.finish();
    if (is_late) written_ms = ms_since(begin);
    result["written_ms"].push_back(written_ms);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: lockstep_bench_checkpoint DIRECTORY WIDTH STEPS ROUNDS "
                 "background|waiting\n";
    return 78;
  }
  Training training(std::stoll(argv[2]));
  const SavingOptions options{.checkpoints = std::filesystem::path(argv[1]) / "checkpoints",
                              .keep_last = 1,
                              .in_background = std::string(argv[5]) == "background"};
  std::cout << measure(training, options, std::stoi(argv[3]), std::stoi(argv[4])).dump() << "\n";
  return 0;
}
