// Communication in a step does not allocate memory, apart from LibTorch's autograd.
#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <catch2/catch.hpp>

#include "distributed/collectives.h"
#include "distributed/step_vote.h"
#include "lockstep/data_parallel.h"
#include "tests/counted_allocations.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

struct Product : torch::nn::Module {
  explicit Product(int64_t width) : weight(register_parameter("weight", at::ones({2, width}))) {}
  at::Tensor loss() const { return (weight * 0.5).sum(); }
  at::Tensor weight;
};

struct Counts {
  uint64_t vote, zero, before_forward, backward, bare_backward, all_reduce;
};

Counts count_step(World& world, int64_t width) {
  Product product(width), bare(width);
  const auto parallel = DataParallel::create(world, product, {});
  StepVote vote(world);
  auto tensor = at::ones({100});
  Counts counts{};
  for (int step = 0; step < 5; ++step) {  // the last one counts
    counts.vote = allocations_of([&] {
      vote.begin(0);
      vote.finish();
    });
    counts.zero = allocations_of([&] { parallel->zero_gradients(); });
    counts.before_forward = allocations_of([&] { parallel->before_forward(true); });
    const auto loss = product.loss(), bare_loss = bare.loss();
    counts.backward = allocations_of([&] { parallel->backward(loss, true); });
    bare.weight.mutable_grad().reset();
    counts.bare_backward = allocations_of([&] { bare_loss.backward(); });
    counts.all_reduce = allocations_of(
        [&] { all_reduce(world, tensor, ReduceOp::Sum, "a name too long for SSO buffers"); });
  }
  return counts;
}

}  // namespace

TEST_CASE("allocations: ranks that share memory allocate nothing for communication in a step") {
  for (const int64_t width : {int64_t{10}, int64_t{200'003}})  // through slots, and in place
    for (const auto& counts :
         run_ranks(2, [&](World& world) { return count_step(world, width); })) {
      CHECK(counts.vote == 0);
      CHECK(counts.zero == 0);
      CHECK(counts.before_forward == 0);
      CHECK(counts.bare_backward > 0);  // the counting works
      CHECK(counts.backward == counts.bare_backward);
      CHECK(counts.all_reduce == 0);
    }
}
