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

using Hosts = std::vector<std::string>;

struct Net : torch::nn::Module {
  explicit Net(int64_t width)
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
at::Tensor waves(int rank, int step, int64_t width) {
  return (at::arange(2 * width, at::kFloat).view({2, width}) * (0.37 * (rank + 1) + step)).sin();
}

DataParallelConfig with(ShardStrategy strategy) {
  return {.bucket_cap_mb = 0.001, .shard = strategy};  // several buckets, so that the order matters
}

// The gradients of each rank in a few steps, the second of which accumulates.
std::vector<std::vector<at::Tensor>> gradients_of(const Hosts& hosts, int64_t width,
                                                  ShardStrategy strategy) {
  return run_ranks_of_hosts(hosts, [&](World& world) {
    Net net(width);
    net.fill(0.25);
    const auto parallel = DataParallel::create(world, net, with(strategy));
    std::vector<at::Tensor> seen;
    for (int step = 0; step < 4; ++step) {
      if (step != 2) parallel->zero_gradients();
      const bool synchronize = step != 1;
      parallel->before_forward(synchronize);
      parallel->backward(net.loss(waves(world.rank(), step, width)), synchronize);
      for (const auto& parameter : net.parameters()) seen.push_back(parameter.grad().clone());
    }
    return seen;
  });
}

}  // namespace

TEST_CASE("hybrid sharding: gradients have the bits of the hierarchical all-reduce") {
  const auto hosts =
      GENERATE(Hosts{"a", "a", "b", "b"}, Hosts{"a", "b", "a", "b"},
               Hosts{"a", "a", "b", "b", "c", "c"}, Hosts{"a", "b", "c", "c", "b", "a"},
               Hosts{"a", "a", "a"}, Hosts{"a", "a", "b", "b", "c", "c", "d", "d"});
  for (const int64_t width : {5, 4001, 200'003}) {
    CAPTURE(hosts, width);
    const auto expected = gradients_of(hosts, width, ShardStrategy::None);
    for (const auto strategy : {ShardStrategy::Gradients, ShardStrategy::Full}) {
      CAPTURE(name_of(strategy));
      const auto found = gradients_of(hosts, width, strategy);
      for (size_t rank = 0; rank < hosts.size(); ++rank)
        for (size_t i = 0; i < found[rank].size(); ++i)
          CHECK(at::equal(found[rank][i], expected[rank][i]));
    }
  }
}

TEST_CASE("hybrid sharding: each host has one copy of rank 0's weights, which its ranks divide") {
  for (const auto& hosts : {Hosts{"a", "a", "b", "b"}, Hosts{"b", "a", "a", "b"}}) {
    const auto results = run_ranks_of_hosts(hosts, [](World& world) {
      Net net(1000);
      net.fill(world.rank() == 0 ? 0.5 : 9);
      const auto parallel = DataParallel::create(world, net, with(ShardStrategy::Full));
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
  const auto refuse = [](const Hosts& hosts) {
    for (const auto& text : run_ranks_of_hosts(hosts, [](World& world) {
           Net net(4);
           try {
             DataParallel::create(world, net, with(ShardStrategy::Gradients));
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
    Net net(4);
    const auto parallel = DataParallel::create(world, net, with(ShardStrategy::Gradients));
    world.set_timeout(std::chrono::milliseconds(300));
    std::string text;
    if (world.rank() != 1) try {
        parallel->before_forward(true);
        parallel->backward(net.loss(waves(0, 0, 4)), true);
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
