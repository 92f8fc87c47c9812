#include "distributed/gradients/gradient_synchronizer.h"

#include <algorithm>

#include "distributed/backends/process_groups.h"
#include "distributed/gradients/local_gradients.h"
#include "distributed/gradients/reducer_gradients.h"
#include "distributed/gradients/shared_memory_gradients.h"

namespace lockstep::distributed {
namespace {

bool can_share_gradients(World& world, const NamedTensors& parameters,
                         const DataParallelConfig& config) {
  if (!world.groups().shared || config.find_unused_parameters || config.static_graph ||
      config.gradient_as_bucket_view || config.gradient_compression != GradientCompression::None)
    return false;
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
                                                                 const DataParallelConfig& config) {
  if (!world.is_distributed()) return std::make_unique<LocalGradients>(std::move(parameters));
  if (can_share_gradients(world, parameters, config))
    return std::make_unique<SharedMemoryGradients>(world, std::move(parameters),
                                                   bucket_caps(config));
  return std::make_unique<ReducerGradients>(world, std::move(parameters), config);
}

}  // namespace lockstep::distributed
