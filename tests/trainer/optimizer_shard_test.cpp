#include "trainer/state/optimizer_shard.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "core/config/run_file.h"
#include "lockstep/error.h"
#include "lockstep/part.h"
#include "tests/data/error_of.h"
#include "tests/distributed/run_ranks.h"
#include "trainer/checkpoint/training_state.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

const std::vector<std::string> kOptimizers = {
    "{name: sgd, lr: 0.1}",
    "{name: sgd, lr: 0.1, momentum: 0.9, weight_decay: 0.01, nesterov: true}",
    "{name: adam, lr: 0.01, weight_decay: 0.1}",
    "{name: adamw, lr: 0.01, weight_decay: 0.1, weight_decay_on: matrices}",
    "{name: adamw, state: bf16}",
    "{name: lion, lr: 0.01, weight_decay: 0.1}",
    "{name: rmsprop, momentum: 0.9, centered: true}",
    "{name: adagrad, lr_decay: 0.1}",
    "{name: nadam, weight_decay: 0.1}",
    "{name: radam}"};

// Sizes around the alignment of chunks, and one that every rank has a slice of.
NamedTensors parameters_of_a_model() {
  NamedTensors parameters;
  const std::vector<std::vector<int64_t>> shapes = {{1},     {63},       {64},        {65},
                                                    {7, 13}, {131, 257}, {3, 2, 5, 5}};
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  for (size_t i = 0; i < shapes.size(); ++i) {
    auto value = at::randn(shapes[i], generator);
    if (shapes[i].size() == 4) value = value.contiguous(at::MemoryFormat::ChannelsLast);
    parameters.emplace_back("layer." + std::to_string(i), value.requires_grad_());
  }
  return parameters;
}

// With the strides of their parameters, as autograd's.
void set_gradients(NamedTensors& parameters, uint64_t step) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(100 + step);
  for (auto& [name, parameter] : parameters)
    parameter.mutable_grad() =
        at::empty_like(parameter).copy_(at::randn(parameter.sizes(), generator)).detach();
}

struct Result {
  NamedTensors parameters, state;
};

OptimizerShard make_shard(const NamedTensors& parameters, const std::string& optimizer,
                          distributed::FlatParameters* flat) {
  Part<Optimizer, const NamedTensors&> part(optimizer_registry());
  part.read(parse_config("o: " + optimizer, "test").find("o")[0], "optimizer");
  return {parameters, flat, [&](const NamedTensors& tensors) { return part.build(tensors); }};
}

// `copies`: nullopt: not sharded.
Result train(World& world, const std::string& optimizer,
             std::optional<distributed::Copies> copies = std::nullopt,
             const NamedTensors& resume_from = {}, uint64_t num_steps = 5) {
  auto parameters = parameters_of_a_model();
  std::optional<distributed::FlatParameters> flat;
  if (copies)
    flat.emplace(distributed::FlatParameters::create(world, parameters, {.copies = *copies}));
  auto shard = make_shard(parameters, optimizer, flat ? &*flat : nullptr);
  const at::NoGradGuard no_grad;
  if (!resume_from.empty()) {
    NamedTensors kept;
    std::vector<std::string> saved;
    for (const auto& [name, whole] : resume_from) {
      saved.push_back(name);
      if (const auto tensor = shard.keep(name, whole.clone()); tensor.defined())
        kept.emplace_back(name, tensor);
    }
    shard.load_state(kept, saved);
  }
  for (uint64_t step = 0; step < num_steps; ++step) {
    set_gradients(parameters, step);
    shard.step(0.01);
  }
  Result result{.parameters = parameters, .state = {}};
  if (!flat)
    for (const auto& [name, tensor] : shard.state())
      result.state.emplace_back(name, tensor.clone());
  const auto divided = shard.divided_state();
  StateStream stream(world, divided);
  for (const auto& state : divided)
    result.state.emplace_back(state.name, stream.take("optimizer", state.name));
  return result;
}

enum class Breaks { InUpdate, AfterUpdate };  // after it: while its state is described

// Updates everything, then breaks what it has and throws, in one step.
class Broken final : public Optimizer {
 public:
  Broken(std::shared_ptr<Optimizer> whole, NamedTensors parameters, int failing_step, Breaks when)
      : whole_(std::move(whole)),
        parameters_(std::move(parameters)),
        left_(failing_step),
        when_(when) {}
  double base_lr() const override { return whole_->base_lr(); }
  void step(double lr) override {
    whole_->step(lr);
    if (left_-- > 0) return;
    for (const auto& list : {parameters_, whole_->state()})
      for (const auto& [name, tensor] : list) at::Tensor(tensor).fill_(-1);
    if (when_ == Breaks::InUpdate) throw std::runtime_error("broken");
  }
  NamedTensors state() const override {
    if (left_ < 0) throw std::runtime_error("broken");
    return whole_->state();
  }
  void load_state(const NamedTensors& state) override { whole_->load_state(state); }

 private:
  std::shared_ptr<Optimizer> whole_;
  NamedTensors parameters_;
  int left_;
  Breaks when_;
};

struct Survivor {
  Checkpoint checkpoint;  // the live weights
  std::shared_ptr<const distributed::KeptShards> kept;
};

// Rank 1 breaks in a step. Returns what the others have then.
std::vector<Survivor> lose_rank_1(int num_ranks, const std::string& optimizer,
                                  distributed::Copies copies, int failing_step, Breaks when) {
  const distributed::RendezvousDirectory directory;
  std::vector<Survivor> survivors(static_cast<size_t>(num_ranks));
  distributed::run_threads(num_ranks, [&](int rank) {
    const auto connected = World::connect(distributed::rank_options(rank, num_ranks, directory));
    auto& world = *connected;
    auto parameters = parameters_of_a_model();
    auto flat = distributed::FlatParameters::create(world, parameters, {.copies = copies});
    Part<Optimizer, const NamedTensors&> part(optimizer_registry());
    part.read(parse_config("o: " + optimizer, "test").find("o")[0], "optimizer");
    OptimizerShard shard(parameters, &flat, [&](const NamedTensors& tensors) {
      auto whole = part.build(tensors);
      if (rank != 1) return whole;
      return std::shared_ptr<Optimizer>(
          std::make_shared<Broken>(whole, tensors, failing_step, when));
    });
    const at::NoGradGuard no_grad;
    shard.keep_shards();
    try {
      for (uint64_t step = 0; step < 5; ++step) {
        set_gradients(parameters, step);
        shard.step(0.01);
      }
    } catch (const PeerError&) {
      auto& survivor = survivors[static_cast<size_t>(rank)];
      for (const auto& [name, parameter] : parameters)
        survivor.checkpoint.model.emplace_back(name, parameter.detach());
      survivor.kept = shard.kept();
    }
  });
  survivors.erase(survivors.begin() + 1);
  return survivors;
}

void check_equal(const NamedTensors& found, const NamedTensors& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(expected[i].first);
    CHECK(found[i].first == expected[i].first);
    CHECK(found[i].second.sizes() == expected[i].second.sizes());
    CHECK(at::equal(found[i].second, expected[i].second));
  }
}

}  // namespace

TEST_CASE("optimizer shard: bit-identical to the unsharded optimizer on any number of ranks") {
  const auto copies = GENERATE(distributed::Copies::PerRank, distributed::Copies::PerHost);
  for (const auto& optimizer : kOptimizers) {
    CAPTURE(optimizer);
    const auto connected = World::connect({.device = DeviceChoice::Cpu});
    auto& alone = *connected;
    const auto whole = train(alone, optimizer);
    for (const int num_ranks : {2, 3, 4}) {
      CAPTURE(num_ranks);
      for (const auto& result : distributed::run_ranks(
               num_ranks, [&](World& world) { return train(world, optimizer, copies); })) {
        check_equal(result.parameters, whole.parameters);
        check_equal(result.state, whole.state);
      }
    }
  }
}

TEST_CASE(
    "optimizer shard: a state is resumed on another number of ranks, and by the whole optimizer") {
  for (const auto& optimizer : kOptimizers) {
    CAPTURE(optimizer);
    const auto connected = World::connect({.device = DeviceChoice::Cpu});
    auto& alone = *connected;
    const auto first = train(alone, optimizer);
    if (first.state.empty()) continue;
    const auto whole = train(alone, optimizer, std::nullopt, first.state);
    for (const auto& result : distributed::run_ranks(3, [&](World& world) {
           return train(world, optimizer, distributed::Copies::PerRank, first.state);
         })) {
      check_equal(result.parameters, whole.parameters);
      check_equal(result.state, whole.state);
    }
  }
}

TEST_CASE("optimizer shard: what was frozen in a checkpoint begins with new state") {
  for (const auto& optimizer : kOptimizers) {
    CAPTURE(optimizer);
    const auto connected = World::connect({.device = DeviceChoice::Cpu});
    auto& alone = *connected;
    auto saved = train(alone, optimizer).state;
    if (saved.empty()) continue;
    // The largest: there are ranks that have nothing else.
    std::erase_if(saved, [](const auto& item) { return item.first.ends_with(".layer.5"); });
    const auto whole = train(alone, optimizer, std::nullopt, saved);
    const auto fresh = train(alone, optimizer);
    CHECK(at::equal(whole.parameters[5].second, fresh.parameters[5].second));
    CHECK_FALSE(at::equal(whole.parameters[4].second, fresh.parameters[4].second));
    for (const auto& result : distributed::run_ranks(3, [&](World& world) {
           return train(world, optimizer, distributed::Copies::PerRank, saved);
         })) {
      check_equal(result.parameters, whole.parameters);
      check_equal(result.state, whole.state);
    }
  }
}

TEST_CASE("optimizer shard: each rank stores its shard of the state, even if it has no parameter") {
  const auto bytes = distributed::run_ranks(4, [&](World& world) {
    NamedTensors parameters = {{"w", at::ones({40}).requires_grad_()}};
    size_t own = 0;
    Part<Optimizer, const NamedTensors&> part(optimizer_registry());
    part.read(parse_config("o: {name: adam}", "test").find("o")[0], "optimizer");
    auto flat = distributed::FlatParameters::create(world, parameters, {});
    OptimizerShard shard(parameters, &flat, [&](const NamedTensors& tensors) {
      for (const auto& [name, tensor] : tensors) own += tensor.nbytes();
      return part.build(tensors);
    });
    parameters[0].second.mutable_grad() = at::ones({40});
    const at::NoGradGuard no_grad;
    shard.step(0.5);
    return std::pair(own, parameters[0].second.detach().clone());
  });
  CHECK(bytes[0].first == 160);
  for (size_t rank = 1; rank < bytes.size(); ++rank) {
    CHECK(bytes[rank].first == 0);
    CHECK(at::equal(bytes[rank].second, bytes[0].second));
  }
}

TEST_CASE("optimizer shard: what a rank had outlives it, as it was before an incomplete update") {
  const auto copies = GENERATE(distributed::Copies::PerRank, distributed::Copies::PerHost);
  const auto when = GENERATE(Breaks::InUpdate, Breaks::AfterUpdate);
  const auto by_name = [](NamedTensors tensors) {
    std::ranges::sort(tensors, {}, &NamedTensors::value_type::first);
    return tensors;
  };
  for (const auto& optimizer : kOptimizers)
    for (const int failing_step : {0, 1, 3}) {
      CAPTURE(optimizer, failing_step);
      const auto alone = World::connect({.device = DeviceChoice::Cpu});
      const auto whole =
          train(*alone, optimizer, std::nullopt, {}, static_cast<uint64_t>(failing_step));
      for (auto& [checkpoint, kept] : lose_rank_1(3, optimizer, copies, failing_step, when)) {
        REQUIRE(kept != nullptr);
        add_kept_shards(checkpoint, *kept);
        check_equal(checkpoint.model, whole.parameters);
        check_equal(by_name(checkpoint.optimizer), by_name(whole.state));
      }
    }
}

namespace {

// With its parameters as state, as a view.
class Aliasing final : public Optimizer {
 public:
  explicit Aliasing(NamedTensors parameters, std::string prefix = "y.")
      : parameters_(std::move(parameters)), prefix_(std::move(prefix)) {}
  double base_lr() const override { return 0; }
  void step(double /*lr*/) override {}
  NamedTensors state() const override {
    NamedTensors state;
    for (const auto& [name, parameter] : parameters_)
      state.emplace_back(prefix_ + name, parameter.detach());
    return state;
  }
  void load_state(const NamedTensors& /*state*/) override {}

 private:
  NamedTensors parameters_;
  std::string prefix_;
};

}  // namespace

TEST_CASE("optimizer shard: state in the memory of a parameter cannot outlive a rank") {
  distributed::run_ranks(2, [&](World& world) {
    auto parameters = parameters_of_a_model();
    auto flat = distributed::FlatParameters::create(world, parameters,
                                                    {.copies = distributed::Copies::PerHost});
    OptimizerShard shard(parameters, &flat, [&](const NamedTensors& tensors) {
      return std::make_shared<Aliasing>(tensors);
    });
    const auto* const data = parameters.front().second.const_data_ptr();
    CHECK_THROWS_WITH(shard.keep_shards(),
                      Catch::Contains("' is in the memory of its parameter; return a copy"));
    CHECK(parameters.front().second.const_data_ptr() == data);
    return 0;
  });
}

TEST_CASE(
    "optimizer shard: state that is not called '<kind>.<parameter>' is an error of the input") {
  const auto errors = distributed::run_ranks(2, [](World& world) {
    auto parameters = parameters_of_a_model();
    auto flat = distributed::FlatParameters::create(world, parameters,
                                                    {.copies = distributed::Copies::PerHost});
    OptimizerShard shard(parameters, &flat, [&](const NamedTensors& tensors) {
      return std::make_shared<Aliasing>(tensors, "");
    });
    return error_of([&] { shard.divided_state(); });
  });
  for (const auto& error : errors)
    CHECK_THAT(error, Catch::StartsWith("config: the optimizer's state 'layer.") &&
                          Catch::EndsWith("' is not called '<kind>.<parameter>'"));
}
