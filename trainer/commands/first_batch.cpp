#include "trainer/commands/first_batch.h"

#include <fmt/format.h>

#include "data/loader/loader.h"
#include "lockstep/error.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {

void write_first_batch(const PreparedRun& run, const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    throw config_error(fmt::format("--first-batch {}: exists already", path.string()));
  const auto& train_set = *run.data.train;
  data::DistributedSampler sampler(train_set.size(), {0, run.ranks.world_size}, run.order);
  sampler.set_epoch(0, run.config.data.loader.shuffle_lanes);
  data::Loader loader(
      train_set, sampler.sequence(),
      {.batch_size = run.plan.per_rank_batch_size, .seed = run.order.seed, .name = "data.train"});
  NamedTensors fields;
  const auto batch = loader.next().value();
  for (const auto& [name, tensor] : batch.fields) fields.emplace_back(name, tensor);
  write_safetensors(path, fields);
}

}  // namespace lockstep::trainer
