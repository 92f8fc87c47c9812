#include "trainer/commands/first_batch.h"

#include "data/loader/loader.h"
#include "data/sampling/sampling.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep {

void write_first_batch(const RunConfig& config, RankCounts ranks,
                       const std::filesystem::path& path) {
  const auto [train_set, eval_set] =
      build_datasets(config.data.train, config.data.eval, config.data.split);
  const auto plan = plan_batches(config.data.loader, train_set->size(), ranks);
  const auto seed = static_cast<uint64_t>(config.run.seed);
  DistributedSampler sampler(train_set->size(), {0, ranks.world},
                             sampler_options(config.data.loader, *train_set, seed, plan.rule));
  sampler.set_epoch(0, config.data.loader.shuffle_lanes);
  Loader loader(*train_set, sampler.sequence(),
                {.batch_size = plan.per_rank_batch_size, .seed = seed, .name = "data.train"});
  NamedTensors fields;
  const auto batch = loader.next().value();
  for (const auto& [name, tensor] : batch.fields) fields.emplace_back(name, tensor);
  write_safetensors(path, fields);
}

}  // namespace lockstep
