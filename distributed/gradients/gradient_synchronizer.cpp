#include "distributed/gradients/gradient_synchronizer.h"

#include <algorithm>

#include "distributed/backends/process_groups.h"
#include "distributed/gradients/exchanged_gradients.h"
#include "distributed/gradients/local_gradients.h"
#include "distributed/gradients/per_host_gradients.h"
#include "distributed/gradients/reducer_gradients.h"
#include "distributed/gradients/shared_memory_gradients.h"
#include "distributed/sharding/shard_strategy.h"

namespace lockstep::distributed {
namespace {

bool can_share_gradients(World& world, const NamedTensors& parameters,
                         const DataParallelConfig& config) {
  if (!world.groups().shared || reducer_option(config)) return false;
  return std::ranges::all_of(parameters, [](const auto& item) {
    return item.second.is_cpu() && item.second.is_floating_point();
  });
}

}  // namespace

void GradientSynchronizer::zero_gradients() {
  for (const auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
}

std::unique_ptr<GradientSynchronizer> make_gradient_synchronizer(World& world,
                                                                 NamedTensors parameters,
                                                                 const DataParallelConfig& config,
                                                                 Sharding* sharding) {
  if (!world.is_distributed()) return std::make_unique<LocalGradients>(std::move(parameters));
  if (sharding && sharding->has_shared_gradients)
    return std::make_unique<PerHostGradients>(world, std::move(parameters),
                                              sharding->trained->allocate_per_host(), config);
  if (sharding && sharding->trained->has_own_gradients())
    return std::make_unique<ExchangedGradients>(world, *sharding->trained, sharding->weights.get(),
                                                config);
  if (can_share_gradients(world, parameters, config))
    return SharedMemoryGradients::create(world, std::move(parameters), config);
  return ReducerGradients::create(world, std::move(parameters), config);
}

}  // namespace lockstep::distributed
