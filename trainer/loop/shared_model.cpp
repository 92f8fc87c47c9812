#include "trainer/loop/shared_model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <utility>

#include "distributed/objects.h"
#include "distributed/sharding/shard_strategy.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {

SharedModel share_model(World& world, const PreparedRun& run) {
  const auto& config = run.config;
  auto model = run.model;
  in_gpu_memory(run.model_title(), [&] { model->to(world.device()); });
  model->train();
  at::manual_seed(static_cast<uint64_t>(config.run.seed + 1 + world.rank()));
  auto parameters = trainable_parameters(*model);
  const auto units = shard_units(*model);
  const bool has_values =
      distributed::broadcast_object(world, !run.deferred, 0, "initial weights").get<bool>();
  auto parallel = in_gpu_memory(run.model_title(), [&] {
    return DataParallel::create(world, *model, config.distributed.data_parallel, units, has_values);
  });
  auto observer =
      parallel->gathers_weights() ? std::make_unique<BlockUnits>(units, *parallel) : nullptr;
  OptimizerShard optimizer(parameters,
                           parallel->sharding() ? parallel->sharding()->trained.get() : nullptr,
                           [&](const auto& tensors) { return config.optimizer.build(tensors); });
  return {std::move(model), std::move(parameters), std::move(parallel), std::move(observer),
          std::move(optimizer)};
}

}  // namespace lockstep::trainer
