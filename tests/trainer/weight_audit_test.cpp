#include "trainer/state/weight_audit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/config/run_file.h"
#include "lockstep/error.h"
#include "lockstep/part.h"
#include "tests/distributed/run_ranks.h"
#include "trainer/state/optimizer_shard.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

// What the audit after one step reports on a rank, if rank 1 changes a bit of `flipped` after it.
std::string audited(World& world, const std::string& flipped) {
  Part<Model> model_part(model_registry());
  model_part.read(
      parse_config("m: {name: mlp, inputs: 3, hidden: [4], classes: 2}", "test").find("m")[0],
      "model");
  const auto model = model_part.build();
  Part<Optimizer, const NamedTensors&> optimizer_part(optimizer_registry());
  optimizer_part.read(parse_config("o: {name: adamw}", "test").find("o")[0], "optimizer");
  NamedTensors parameters;
  const at::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
    item.value().fill_(0.5);
    parameters.back().second.mutable_grad() = at::ones_like(item.value());
  }
  OptimizerShard optimizer(parameters, nullptr, [&](const NamedTensors& tensors) {
    return optimizer_part.build(tensors);
  });
  optimizer.step(0.1);
  auto tensors = optimizer.state();
  tensors.insert(tensors.end(), parameters.begin(), parameters.end());
  for (const auto& [name, values] : tensors)
    if (world.rank() == 1 && name == flipped) values.view(at::kInt).flatten()[-1].bitwise_xor_(1);
  Tracker tracker;
  HookContext context{world, *model, tracker, {}};
  context.step = 1;
  WeightAudit audit({.every = 1}, optimizer);
  try {
    audit.after_step(context);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("weight audit: one bit of a weight or of the optimizer's state", "[ranks]") {
  for (const std::string flipped : {"layers.0.weight", "exp_avg.layers.0.weight",
                                    "exp_avg_sq.layers.0.bias", "step.layers.0.bias", "none"}) {
    INFO(flipped);
    const auto texts =
        distributed::run_ranks(3, [&](World& world) { return audited(world, flipped); });
    const auto what = flipped.starts_with("layers.") ? "weights" : "optimizer states";
    const auto expected = std::string("train.audit: the ") + what +
                          " of the ranks differ after step 1: rank 1 differs from the others; "
                          "first tensor: " +
                          flipped + ". The last checkpoint is not affected";
    for (const auto& text : texts) CHECK(text == (flipped == "none" ? "" : expected));
  }
}
