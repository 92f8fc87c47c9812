// Driver of bench/checkpoint.py: trains an MLP with AdamW on noise and saves checkpoints.
//   lockstep_bench_checkpoint DIRECTORY WIDTH STEPS ROUNDS background|waiting|shares
// Saves after every STEPS steps, ROUNDS times. Prints one line of JSON: bytes of the state, stall
// per save, time from each save until it is on disk, and step times while writing and while idle.
// With several ranks (`lockstep launch`): those of rank 0. shares: in the background, each rank
// writes its share.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "distributed/collectives.h"
#include "lockstep/part.h"
#include "lockstep/rank_env.h"
#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/handshake.h"

using namespace lockstep;

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class Training {
  std::unique_ptr<World> connected_;

 public:
  explicit Training(int64_t width)
      : connected_(World::connect(
            trainer::world_options(read_rank_env(), {.device = DeviceChoice::Cpu}, nullptr))),
        world(*connected_) {
    const auto text = fmt::format("{{name: mlp, inputs: 784, hidden: [{0}, {0}]}}", width);
    Part<Model> model_part(model_registry());
    model_part.read(parse_config("m: " + text, "bench").find("m")[0], "model");
    model_ = model_part.build();
    NamedTensors parameters;
    for (const auto& item : model_->named_parameters())
      parameters.emplace_back(item.key(), item.value());
    Part<Optimizer, const NamedTensors&> part(optimizer_registry());
    part.read(parse_config("o: {name: adamw}", "bench").find("o")[0], "optimizer");
    optimizer_.emplace(parameters, nullptr,
                       [&](const NamedTensors& tensors) { return part.build(tensors); });
    parallel_ = DataParallel::create(world, *model_, {});
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

  trainer::TrainingState state() { return {*model_, *optimizer_, *parallel_, head_}; }

  size_t bytes() {
    size_t sum = 0;
    for (const auto& list : {tensors_of(*model_), optimizer_->state()})
      for (const auto& [name, tensor] : list) sum += tensor.nbytes();
    return sum;
  }

  // Whether any rank is writing in the background; replaces the vote of a step.
  bool is_any_rank_writing(const trainer::CheckpointSaver& saving) {
    auto busy = at::full({1}, saving.is_busy() ? 1 : 0, at::kLong);
    if (world.is_distributed()) all_reduce(world, busy, distributed::ReduceOp::Max, "busy");
    return busy.item<int64_t>() != 0;
  }

  int64_t num_steps() const { return head_.position.step; }

  World& world;
  Tracker tracker;

 private:
  std::shared_ptr<Model> model_;
  std::optional<trainer::OptimizerShard> optimizer_;
  std::unique_ptr<DataParallel> parallel_;
  Batch batch_;
  trainer::CheckpointHead head_;
};

nlohmann::json measure(Training& training, const trainer::SavingOptions& options, int steps,
                       int rounds) {
  trainer::CheckpointSaver saving(training.world, training.tracker, options);
  training.step();
  saving.prepare(training.state());
  nlohmann::json result = {{"bytes", training.bytes()}};
  for (int i = 0; i < steps; ++i) result["idle_step_ms"].push_back(training.step());
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    saving.save(training.state(), std::nullopt, false);
    result["stall_ms"].push_back(ms_since(begin));
    const auto number = training.num_steps();
    const auto is_there = [&] {
      return std::ranges::count(trainer::list_checkpoints(options.checkpoints), number) > 0;
    };
    std::optional<double> written_ms;
    if (is_there()) written_ms = ms_since(begin);
    for (int i = 0; i < steps; ++i) {
      const bool was_writing = training.is_any_rank_writing(saving);
      saving.poll({.none_is_busy = !was_writing});
      const auto step_ms = training.step();
      const bool is_writing = training.is_any_rank_writing(saving);
      if (was_writing && is_writing) result["writing_step_ms"].push_back(step_ms);
      if (!was_writing && !is_writing && written_ms) result["idle_step_ms"].push_back(step_ms);
      if (!written_ms && is_there()) written_ms = ms_since(begin);  // to the end of that step
    }
    saving.finish();
    result["written_ms"].push_back(written_ms.value_or(ms_since(begin)));
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: lockstep_bench_checkpoint DIRECTORY WIDTH STEPS ROUNDS "
                 "background|waiting|shares\n";
    return 78;
  }
  Training training(std::stoll(argv[2]));
  const trainer::SavingOptions options{
      .checkpoints = std::filesystem::path(argv[1]) / "checkpoints",
      .keep = {.last = 1},
      .in_background = std::string(argv[5]) != "waiting",
      .all_write = std::string(argv[5]) == "shares"};
  const auto result = measure(training, options, std::stoi(argv[3]), std::stoi(argv[4]));
  if (training.world.rank() == 0) std::cout << result.dump() << "\n";
  training.world.finish();
  return 0;
}
