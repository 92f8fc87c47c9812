#include "trainer/state/optimizer_shard.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <catch2/catch.hpp>

#include "core/config/run_file.h"
#include "lockstep/error.h"
#include "lockstep/part.h"
#include "tests/distributed/run_ranks.h"

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
             const NamedTensors& resume_from = {}) {
  auto parameters = parameters_of_a_model();
  std::optional<distributed::FlatParameters> flat;
  if (copies)
    flat.emplace(distributed::FlatParameters::create(world, parameters, {.copies = *copies}));
  auto shard = make_shard(parameters, optimizer, flat ? &*flat : nullptr);
  const at::NoGradGuard no_grad;
  if (!resume_from.empty()) {
    NamedTensors kept;
    for (const auto& [name, whole] : resume_from)
      if (const auto tensor = shard.keep(name, whole.clone()); tensor.defined())
        kept.emplace_back(name, tensor);
    shard.load_state(kept);
  }
  for (uint64_t step = 0; step < 5; ++step) {
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
