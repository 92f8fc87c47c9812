#include "distributed/step_vote.h"

#include <catch2/catch.hpp>

#include "distributed/collectives.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;

TEST_CASE("step vote: what one rank brings all ranks get, step by step") {
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

TEST_CASE("step vote: flags of several ranks meet, also beside other collectives") {
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

TEST_CASE("progress: collectives are counted alike on all ranks, gradients by bucket") {
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
