#include "distributed/gradients/gradient_synchronizer.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <catch2/catch.hpp>
#include <type_traits>

#include "distributed/collectives.h"
#include "distributed/gradients/exchanged_gradients.h"
#include "distributed/gradients/local_gradients.h"
#include "distributed/gradients/per_host_gradients.h"
#include "distributed/gradients/reducer_gradients.h"
#include "distributed/gradients/shared_memory_gradients.h"
#include "distributed/sharding/shard_strategy.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

struct Weights : torch::nn::Module {
  Weights() {
    frozen = register_parameter("frozen", at::ones({2}), /*requires_grad=*/false);
    first = register_parameter("first", at::ones({3}));
    second = register_parameter("second", at::ones({4}));
  }
  at::Tensor frozen, first, second;
};

// The implementation chosen for gradients of `world`.
std::string chosen_for(World& world, const DataParallelConfig& config) {
  barrier(world, "connected");  // else a rank that throws ends the connecting of the others
  Weights weights;
  const auto sharding = world.is_distributed() ? shard_model(world, weights, config) : nullptr;
  const auto made =
      make_gradient_synchronizer(world, trainable_parameters(weights), config, sharding.get());
  if (dynamic_cast<const PerHostGradients*>(made.get())) return "per host";
  if (dynamic_cast<const ExchangedGradients*>(made.get())) return "exchanged";
  if (dynamic_cast<const LocalGradients*>(made.get())) return "local";
  if (dynamic_cast<const SharedMemoryGradients*>(made.get())) return "shared memory";
  return dynamic_cast<const ReducerGradients*>(made.get()) ? "reducer" : "another";
}

std::vector<std::string> chosen_by_two(BackendChoice backend, const DataParallelConfig& config) {
  return run_ranks(
      2, [&](World& world) { return chosen_for(world, config); }, backend);
}

}  // namespace

// What communicates is a function with a name, create(), not a constructor.
template <class Gradients, class Last>
constexpr bool is_built_by_create =
    !std::is_constructible_v<Gradients, World&, NamedTensors, const Last&>;
static_assert(is_built_by_create<ReducerGradients, DataParallelConfig>);
static_assert(is_built_by_create<SharedMemoryGradients, BucketCaps>);

TEST_CASE("trainable parameters: one that a module has under two names counts once") {
  torch::nn::Module module;
  const auto tied = at::ones({2});
  module.register_parameter("a", tied);
  module.register_parameter("b", tied);
  module.register_parameter("c", at::ones({2}));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : trainable_parameters(module)) names.push_back(name);
  CHECK(names == std::vector<std::string>{"a", "c"});
}

TEST_CASE("gradient synchronizer: shared memory if ranks share it, else the Reducer") {
  const std::vector<std::string> shared(2, "shared memory"), reducer(2, "reducer");
  CHECK(chosen_by_two(BackendChoice::Shm, {}) == shared);
  CHECK(chosen_by_two(BackendChoice::Gloo, {}) == reducer);
}

TEST_CASE("gradient synchronizer: sharded gradients exist once per host, or on their owner") {
  const std::vector<std::string> per_host(2, "per host"), shared(2, "shared memory");
  CHECK(chosen_by_two(BackendChoice::Shm, {.shard = ShardStrategy::Optimizer}) == shared);
  CHECK(chosen_by_two(BackendChoice::Shm, {.shard = ShardStrategy::Gradients}) == per_host);
  CHECK(chosen_by_two(BackendChoice::Shm, {.shard = ShardStrategy::Full}) == per_host);
  const std::vector<std::string> exchanged(2, "exchanged");
  CHECK(chosen_by_two(BackendChoice::Gloo, {.shard = ShardStrategy::Gradients}) == exchanged);
  CHECK_THROWS_WITH(chosen_by_two(BackendChoice::Gloo, {.shard = ShardStrategy::Full}),
                    "distributed.shard: full: the model has no blocks (lockstep::Block) whose "
                    "weights can be gathered one at a time; use distributed.shard: gradients");
  CHECK_THROWS_WITH(chosen_by_two(BackendChoice::Shm, {.find_unused_parameters = true,
                                                       .shard = ShardStrategy::Gradients}),
                    "distributed.shard: gradients: distributed.find_unused_parameters is not "
                    "supported with it; use distributed.shard: optimizer");
}

TEST_CASE("gradient synchronizer: options of the Reducer select it even with shared memory") {
  const std::vector<std::string> reducer(2, "reducer");
  CHECK(chosen_by_two(BackendChoice::Shm, {.find_unused_parameters = true}) == reducer);
  CHECK(chosen_by_two(BackendChoice::Shm, {.static_graph = true}) == reducer);
  CHECK(chosen_by_two(BackendChoice::Shm, {.gradient_as_bucket_view = true}) == reducer);
  CHECK(chosen_by_two(BackendChoice::Shm, {.gradient_compression = GradientCompression::Bf16}) ==
        reducer);
}

TEST_CASE("gradient synchronizer: gradients of a single rank are unchanged") {
  const auto connected = World::connect({.device = DeviceChoice::Cpu});
  auto& world = *connected;
  CHECK(chosen_for(world, {.static_graph = true}) == "local");
  const Weights weights;
  const auto made = make_gradient_synchronizer(world, trainable_parameters(weights), {});
  made->before_forward();
  made->backward((weights.first * 3).sum() + (weights.second * 5).sum(), true);
  CHECK(at::equal(weights.first.grad(), at::full({3}, 3.0)));
  CHECK(at::equal(weights.second.grad(), at::full({4}, 5.0)));
  CHECK(made->exposed_wait().count() == 0);
  CHECK(made->order().empty());
  made->zero_gradients();
  CHECK_FALSE(weights.first.grad().defined());
  CHECK_FALSE(weights.second.grad().defined());
}

TEST_CASE("gradient synchronizer: trainable parameters have names and the module's order") {
  const Weights weights;
  const auto parameters = trainable_parameters(weights);
  REQUIRE(parameters.size() == 2);
  CHECK(parameters[0].first == "first");
  CHECK(parameters[1].first == "second");
  CHECK(parameters[1].second.is_same(weights.second));
}
