// Snippets that belong inside a function, with the declarations that they assume. They are compiled,
// not linked.
#include <ATen/ATen.h>

#include <filesystem>
#include <functional>

#include "data/loader/loader.h"
#include "distributed/counters.h"
#include "distributed/step_vote.h"
#include "lockstep/data_parallel.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "lockstep/session.h"
#include "lockstep/world.h"
#include "tracking/artifacts/store.h"

// clang-format off
namespace lockstep {

at::Tensor loss_of(const Batch& batch);
std::vector<at::Tensor> zeros_of(const NamedTensors& parameters);

void artifacts(const std::filesystem::path& checkpoint, const std::string& run_id) {
#include "artifacts_1.inc"
}

void loop(World& world, data::Loader& loader, DataParallel& parallel, Optimizer& optimizer,
          const NamedTensors& parameters, double weight, double lr) {
#include "distributed_1.inc"
}

void one_step(Model& model, const at::Tensor& loss, int rank, double sum, double count) {
#include "distributed_2.inc"
}

void embed(const SessionOptions& options, const std::function<Batch(int64_t)>& simulate) {
#include "howto_embed_1.inc"
}

}  // namespace lockstep
