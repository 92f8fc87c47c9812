#include "distributed/step_vote.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <catch2/catch.hpp>

#include "core/system/progress_page.h"
#include "distributed/collectives.h"
#include "lockstep/data_parallel.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

constexpr uint32_t kHasData = 1;
constexpr int kUnevenRanks = 3;

int batches_of(int rank) { return 2 * rank + 1; }
at::Tensor uneven_batch(int rank, int number) {
  return at::tensor({1.0F + static_cast<float>(rank), static_cast<float>(number)}).view({1, 2});
}

// A custom training loop: while any rank has data, all participate; ranks without data contribute
// zero gradients. Returns the steps and the weights.
std::pair<int, at::Tensor> train_unevenly(World& world) {
  torch::nn::Linear layer(torch::nn::LinearOptions(2, 1).bias(false));
  {
    const at::NoGradGuard no_grad;
    layer->weight.zero_();
  }
  const auto parallel = DataParallel::create(world, *layer, {});
  StepVote vote(world);
  for (int step = 0;; ++step) {
    const bool has_data = step < batches_of(world.rank());
    vote.begin(has_data ? kHasData : 0);
    if (!(vote.finish() & kHasData)) return {step, layer->weight.detach().clone()};
    auto samples = at::tensor({has_data ? 1.0 : 0.0});
    all_reduce(world, samples, ReduceOp::Sum, "samples of the step");
    const auto weight = world.world_size() / samples.item<double>();
    parallel->zero_gradients();
    parallel->before_forward(true);
    if (has_data)
      parallel->backward(layer->forward(uneven_batch(world.rank(), step)).sum() * weight, true);
    else
      parallel->add_gradients({at::zeros_like(layer->weight)}, true);
    const at::NoGradGuard no_grad;
    layer->weight.sub_(layer->weight.grad());
  }
}

}  // namespace

TEST_CASE("step vote: ranks with uneven data end at the same step, and every sample counts") {
  auto expected = at::zeros({1, 2});
  for (int step = 0; step < batches_of(kUnevenRanks - 1); ++step) {
    std::vector<at::Tensor> seen;
    for (int rank = 0; rank < kUnevenRanks; ++rank)
      if (step < batches_of(rank)) seen.push_back(uneven_batch(rank, step));
    expected -= at::stack(seen).mean(0);
  }
  for (const auto backend : {BackendChoice::Shm, BackendChoice::Gloo})
    for (const auto& [steps, weights] : run_ranks(kUnevenRanks, train_unevenly, backend)) {
      CHECK(steps == batches_of(kUnevenRanks - 1));
      CHECK(at::allclose(weights, expected, 1e-5, 1e-6));
    }
}

TEST_CASE("step vote: a flag of one rank reaches all ranks in the same step") {
  for (const int world_size : {1, 2, 3}) {
    const auto results = run_ranks(world_size, [](World& world) {
      StepVote vote(world);
      std::vector<uint32_t> seen;
      for (int step = 0; step < 20; ++step) {
        const bool is_mine = step % world.world_size() == world.rank();
        vote.begin(is_mine ? 1u << (step % 8) : 0u);
        seen.push_back(vote.finish());
      }
      return seen;
    });
    for (const auto& seen : results)
      for (size_t step = 0; step < seen.size(); ++step) CHECK(seen[step] == 1u << (step % 8));
  }
}

TEST_CASE("step vote: flags of several ranks are combined, also with other collectives between") {
  const auto results = run_ranks(3, [](World& world) {
    StepVote vote(world);
    vote.begin(1u << world.rank());
    auto sum = at::ones({1000});
    all_reduce(world, sum, ReduceOp::Sum, "work of the step");
    return std::pair(vote.finish(), sum.sum().item<double>());
  });
  for (const auto& [flags, sum] : results) {
    CHECK(flags == 7);
    CHECK(sum == 3000);
  }
}

TEST_CASE("progress: all ranks count the same collectives, and gradients by bucket") {
  const auto results = run_ranks(2, [](World& world) {
    const auto before = world.progress().snapshot().operations;
    auto value = at::ones({4});
    all_reduce(world, value, ReduceOp::Sum, "loss");
    const auto seen = world.progress().snapshot();
    return std::tuple(seen.operations - before, seen.operation, seen.detail, seen.in_operation);
  });
  for (const auto& result : results)
    CHECK(result == std::tuple(uint64_t{1}, std::string("all_reduce 'loss'"),
                               std::string("Float [4]"), false));
}
