// Sharding with a hierarchical backend: divided between the ranks of a host, replicated between
// hosts.
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include <catch2/catch.hpp>

#include "distributed/collectives.h"
#include "distributed/sharding/shard_strategy.h"
#include "lockstep/data_parallel.h"
#include "lockstep/error.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

using HostNames = std::vector<std::string>;

struct TwoLayers : torch::nn::Module {
  explicit TwoLayers(int64_t width)
      : first(register_module("first", torch::nn::Linear(width, 2))),
        second(register_module("second", torch::nn::Linear(2, 3))) {}
  at::Tensor loss(const at::Tensor& x) { return second->forward(first->forward(x)).pow(2).mean(); }
  void fill(double value) {
    const at::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.fill_(value);
  }
  torch::nn::Linear first, second;
};

// Values whose sum depends on the order of summation.
at::Tensor sines(int rank, int step, int64_t width) {
  return (at::arange(2 * width, at::kFloat).view({2, width}) * (0.37 * (rank + 1) + step)).sin();
}

DataParallelConfig bucketed(ShardStrategy strategy) {
  return {.bucket_cap_mb = 0.001, .shard = strategy};  // several buckets, so that the order matters
}

// The gradients of each rank in a few steps, the second of which accumulates.
std::vector<std::vector<at::Tensor>> gradients_on(const HostNames& hosts, int64_t width,
                                                  ShardStrategy strategy) {
  return run_ranks_of_hosts(hosts, [&](World& world) {
    TwoLayers net(width);
    net.fill(0.25);
    const auto parallel = DataParallel::create(world, net, bucketed(strategy));
    std::vector<at::Tensor> seen;
    for (int step = 0; step < 4; ++step) {
      if (step != 2) parallel->zero_gradients();
      const bool synchronize = step != 1;
      parallel->before_forward(synchronize);
      parallel->backward(net.loss(sines(world.rank(), step, width)), synchronize);
      for (const auto& parameter : net.parameters()) seen.push_back(parameter.grad().clone());
    }
    return seen;
  });
}

}  // namespace

TEST_CASE("hybrid sharding: gradients have the bits of the hierarchical all-reduce") {
  const auto hosts =
      GENERATE(HostNames{"a", "a", "b", "b"}, HostNames{"a", "b", "a", "b"},
               HostNames{"a", "a", "b", "b", "c", "c"}, HostNames{"a", "b", "c", "c", "b", "a"},
               HostNames{"a", "a", "a"}, HostNames{"a", "a", "b", "b", "c", "c", "d", "d"});
  for (const int64_t width : {5, 4001, 200'003}) {
    CAPTURE(hosts, width);
    const auto expected = gradients_on(hosts, width, ShardStrategy::None);
    for (const auto strategy : {ShardStrategy::Gradients, ShardStrategy::Full}) {
      CAPTURE(name_of(strategy));
      const auto found = gradients_on(hosts, width, strategy);
      for (size_t rank = 0; rank < hosts.size(); ++rank)
        for (size_t i = 0; i < found[rank].size(); ++i)
          CHECK(at::equal(found[rank][i], expected[rank][i]));
    }
  }
}

TEST_CASE("hybrid sharding: each host has one copy of rank 0's weights, which its ranks divide") {
  for (const auto& hosts : {HostNames{"a", "a", "b", "b"}, HostNames{"b", "a", "a", "b"}}) {
    const auto results = run_ranks_of_hosts(hosts, [](World& world) {
      TwoLayers net(1000);
      net.fill(world.rank() == 0 ? 0.5 : 9);
      const auto parallel = DataParallel::create(world, net, bucketed(ShardStrategy::Full));
      int64_t own = 0;
      for (const auto& slice : parallel->sharding()->trained->slices()) own += slice.numel;
      const auto sum = net.first->weight.sum().item<double>();
      auto& ranks = parallel->sharding()->ranks();
      barrier(world, "test");
      if (ranks.rank() == 0) {
        const at::NoGradGuard no_grad;
        net.first->bias.fill_(world.rank());
      }
      barrier(world, "test");
      return std::tuple{ranks.world_size(), own, sum, net.first->bias.sum().item<double>()};
    });
    int64_t all = 0;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      const auto& [num_ranks, own, sum, bias] = results[rank];
      const auto leader = std::ranges::find(hosts, hosts[rank]) - hosts.begin();
      CHECK(num_ranks == 2);
      CHECK(sum == 1000);
      CHECK(bias == 2 * static_cast<double>(leader));  // written by one rank, seen by the host
      all += own;
    }
    CHECK(all == 2 * (2 * 1000 + 2 + 3 * 2 + 3));
  }
}

TEST_CASE("hybrid sharding: hosts that cannot divide the same state are refused on all ranks") {
  const auto refuse = [](const HostNames& hosts) {
    for (const auto& text : run_ranks_of_hosts(hosts, [](World& world) {
           TwoLayers net(4);
           try {
             DataParallel::create(world, net, bucketed(ShardStrategy::Gradients));
           } catch (const Error& error) {
             return std::string(error.kind() == ErrorKind::Config ? error.what() : "");
           }
           return std::string();
         }))
      CHECK_THAT(text,
                 Catch::StartsWith("distributed.shard: with distributed.backend: hierarchical") &&
                     Catch::EndsWith("use distributed.shard: optimizer"));
  };
  refuse({"a", "a", "b"});
  refuse({"a", "b", "b", "a", "a"});
  refuse({"a", "b", "c"});
}

TEST_CASE("hybrid sharding: a missing rank is an error on every rank, not a hang") {
  const auto texts = run_ranks_of_hosts({"a", "a", "b", "b"}, [](World& world) {
    TwoLayers net(4);
    const auto parallel = DataParallel::create(world, net, bucketed(ShardStrategy::Gradients));
    world.set_timeout(std::chrono::milliseconds(300));
    std::string text;
    if (world.rank() != 1) try {
        parallel->before_forward(true);
        parallel->backward(net.loss(sines(0, 0, 4)), true);
      } catch (const PeerError& error) {
        text = error.what();
      }
    world.set_timeout(std::chrono::seconds(20));
    return text;
  });
  CHECK(texts[1].empty());
  CHECK_THAT(texts[0],
             Catch::StartsWith("gradient reduce_scatter: rank 0 of 2 on this host waited"));
  for (const int rank : {2, 3}) {
    CAPTURE(rank);
    CHECK_THAT(texts[static_cast<size_t>(rank)], Catch::Contains("for its peers"));
  }
}
