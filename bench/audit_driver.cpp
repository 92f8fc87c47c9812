// Driver of bench/audit.py, started by `lockstep launch`: an MLP with AdamW, whose weights, optimizer
// state and gradients are audited in every step.
//   lockstep_bench_audit FLIPS STEPS SEED
// Flips FLIPS random bits, one after another, each on one rank, in a weight, in the optimizer's state
// or in a gradient of an audited virtual shard: the audit that follows must fail on all ranks, and
// name that rank and tensor; the bit is then flipped back. Before that, trains STEPS steps without.
// Prints one line of JSON on rank 0.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <iostream>
#include <optional>
#include <random>

#include "distributed/collectives.h"
#include "lockstep/error.h"
#include "lockstep/part.h"
#include "lockstep/rank_env.h"
#include "trainer/handshake.h"
#include "trainer/state/gradient_audit.h"
#include "trainer/state/optimizer_shard.h"
#include "trainer/state/weight_audit.h"

using namespace lockstep;

namespace {

constexpr int64_t kSamples = 4;  // of a virtual shard; there is one on each rank

enum Kind { Weight, State, Gradient };
constexpr std::array kKindNames = {"weights", "optimizer_state", "gradients"};

struct Flip {
  Kind kind;
  int64_t rank;
  size_t tensor;
  int64_t element;
  int bit;

  void apply(const at::Tensor& values) const {
    const at::NoGradGuard no_grad;
    auto bits = values.view(at::kInt).flatten();
    bits[element].bitwise_xor_(static_cast<int32_t>(uint32_t{1} << bit));
  }
};

class AuditedTraining {
  std::unique_ptr<World> connected_;

 public:
  explicit AuditedTraining(RankEnv ranks)
      : connected_(
            World::connect(trainer::world_options(ranks, {.device = DeviceChoice::Cpu}, nullptr))),
        world(*connected_) {
    at::manual_seed(1);  // the same weights on all ranks
    Part<Model> model_part(model_registry());
    model_part.read(
        parse_config("m: {name: mlp, inputs: 24, hidden: [16, 16, 16], classes: 4}", "bench")
            .find("m")[0],
        "model");
    model_ = model_part.build();
    for (const auto& item : model_->named_parameters())
      parameters_.emplace_back(item.key(), item.value());
    Part<Optimizer, const NamedTensors&> part(optimizer_registry());
    part.read(parse_config("o: {name: adamw}", "bench").find("o")[0], "optimizer");
    optimizer_.emplace(parameters_, nullptr,
                       [&](const NamedTensors& tensors) { return part.build(tensors); });
    gradient_audit_.emplace(1, world.world_size(), world, parameters_);
    weight_audit_.emplace(trainer::AuditConfig{.every = 1}, *optimizer_);
    context_.emplace(HookContext{world, *model_, tracker_, {}});
  }

  // Throws what the audits throw.
  void step(const std::optional<Flip>& flip = std::nullopt) {
    const auto number = context_->step + 1;
    const auto recompute = [&](int64_t, const std::vector<int64_t>& samples) {
      compute_gradients(samples);
      return gradient_audit_->checksums();
    };
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < kSamples; ++i)
      samples.push_back((number * world.world_size() + world.rank()) * kSamples + i);
    gradient_audit_->begin_step(
        number, [&](auto) { return samples; }, recompute);
    compute_gradients(samples);
    if (flip && flip->rank == world.rank()) flip->apply(parameters_[flip->tensor].second.grad());
    gradient_audit_->end_part(0);
    num_comparisons_ += world.world_size() * num_tensors(Gradient);
    gradient_audit_->end_step(recompute);
    for (auto& [name, parameter] : parameters_)
      distributed::all_reduce(world, parameter.mutable_grad(), distributed::ReduceOp::Sum, name);
    {
      const at::NoGradGuard no_grad;
      optimizer_->step(1e-3);
    }
    ++context_->step;
    audit();
  }

  // Of weights and optimizer state.
  void audit() {
    num_comparisons_ += (world.world_size() - 1) * (num_tensors(Weight) + num_tensors(State));
    weight_audit_->after_step(*context_);
  }

  NamedTensors tensors(Kind kind) const {
    return kind == State ? optimizer_->state() : parameters_;
  }
  int64_t num_tensors(Kind kind) const { return static_cast<int64_t>(tensors(kind).size()); }
  int64_t num_comparisons() const { return num_comparisons_; }

  World& world;

 private:
  void compute_gradients(const std::vector<int64_t>& samples) {
    auto images = at::empty({kSamples, 24});
    for (int64_t i = 0; i < kSamples; ++i)
      images[i] = at::rand({24}, at::make_generator<at::CPUGeneratorImpl>(
                                     static_cast<uint64_t>(samples[static_cast<size_t>(i)])));
    Batch batch;
    batch.indices = at::tensor(samples);
    batch.fields = {{"image", images}, {"label", batch.indices % 4}};
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
    model_->forward(batch).loss.backward();
  }

  Tracker tracker_;
  std::shared_ptr<Model> model_;
  NamedTensors parameters_;
  std::optional<trainer::OptimizerShard> optimizer_;
  std::optional<trainer::GradientAudit> gradient_audit_;
  std::optional<trainer::WeightAudit> weight_audit_;
  std::optional<HookContext> context_;
  int64_t num_comparisons_ = 0;
};

// The same on all ranks.
Flip next_flip(std::mt19937_64& random, const AuditedTraining& training) {
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  Flip flip{.kind = static_cast<Kind>(below(3)), .rank = below(training.world.world_size())};
  const auto tensors = training.tensors(flip.kind);
  flip.tensor = static_cast<size_t>(below(static_cast<int64_t>(tensors.size())));
  flip.element = below(tensors[flip.tensor].second.numel());
  flip.bit = static_cast<int>(below(32));
  return flip;
}

// What the audit reports on this rank; empty: nothing.
std::string text_of_audit(AuditedTraining& training, const Flip& flip) {
  const auto tensors = training.tensors(flip.kind);
  const bool is_here = flip.rank == training.world.rank();
  std::string text;
  try {
    if (flip.kind == Gradient) {
      training.step(flip);
    } else {
      if (is_here) flip.apply(tensors[flip.tensor].second);
      training.audit();
    }
  } catch (const Error& error) {
    text = error.what();
  }
  if (is_here && flip.kind != Gradient) flip.apply(tensors[flip.tensor].second);
  return text;
}

bool is_named(const std::string& text, const AuditedTraining& training, const Flip& flip) {
  const auto rank = fmt::format(": rank {} {}", flip.rank,
                                flip.kind == Gradient ? "is wrong, " : "differs from the others; ");
  const auto tensor =
      fmt::format("; first tensor: {}. ", training.tensors(flip.kind)[flip.tensor].first);
  return text.find(rank) != std::string::npos && text.find(tensor) != std::string::npos;
}

nlohmann::json flip_bits(AuditedTraining& training, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  // By kind: flips, and those that were found, and named, on all ranks.
  auto counts = at::zeros({3, 3}, at::kLong);
  for (int i = 0; i < count; ++i) {
    const auto flip = next_flip(random, training);
    const auto text = text_of_audit(training, flip);
    auto success = at::zeros({2}, at::kLong);
    success[0] = !text.empty();
    success[1] = is_named(text, training, flip);
    distributed::all_reduce(training.world, success, distributed::ReduceOp::Min, "flip");
    counts[flip.kind][0] += 1;
    counts[flip.kind].narrow(0, 1, 2) += success;
  }
  nlohmann::json result;
  for (const auto kind : {Weight, State, Gradient})
    result[kKindNames[kind]] = {{"flips", counts[kind][0].item<int64_t>()},
                                {"found", counts[kind][1].item<int64_t>()},
                                {"named", counts[kind][2].item<int64_t>()}};
  return result;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) return 64;
  AuditedTraining training(read_rank_env());
  int64_t num_false_alarms = 0;
  for (int i = 0; i < std::stoi(argv[2]); ++i) {
    try {
      training.step();
    } catch (const Error&) {
      ++num_false_alarms;
    }
  }
  const auto num_comparisons = training.num_comparisons();
  const auto flips = flip_bits(training, std::stoi(argv[1]), std::stoull(argv[3]));
  if (training.world.rank() == 0)
    std::cout << nlohmann::json{{"flips", flips},
                                {"comparisons", num_comparisons},
                                {"false_alarms", num_false_alarms}}
              << std::endl;
  training.world.finish();
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
