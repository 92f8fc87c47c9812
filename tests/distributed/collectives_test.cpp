#include "distributed/collectives.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "distributed/cuda/cuda.h"
#include "lockstep/error.h"
#include "tests/distributed/run_ranks.h"
#include "tests/launch/environment_guard.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

const std::vector<std::pair<int, BackendChoice>> kGroups = {{1, BackendChoice::Auto},
                                                            {2, BackendChoice::Shm},
                                                            {3, BackendChoice::Shm},
                                                            {2, BackendChoice::Gloo},
                                                            {3, BackendChoice::Gloo}};

}  // namespace

TEST_CASE("collectives: all_reduce computes sum, minimum and maximum on every rank") {
  for (const auto& [world_size, backend] : kGroups) {
    const auto results = run_ranks(
        world_size,
        [](World& world) {
          auto sum = at::full({3}, world.rank() + 1, at::kDouble), least = sum.clone(),
               greatest = sum.clone();
          all_reduce(world, sum, ReduceOp::Sum, "sum");
          all_reduce(world, least, ReduceOp::Min, "least");
          all_reduce(world, greatest, ReduceOp::Max, "greatest");
          return std::array{sum[2].item<double>(), least[0].item<double>(),
                            greatest[1].item<double>()};
        },
        backend);
    for (const auto& [sum, least, greatest] : results) {
      CHECK(sum == world_size * (world_size + 1) / 2);
      CHECK(least == 1);
      CHECK(greatest == world_size);
    }
  }
}

TEST_CASE("collectives: a sum has the same bits over Gloo and in shared memory") {
  constexpr int kSmall = 1000, kLarge = 20'000;
  for (const auto count : {kSmall, kLarge}) {
    const auto sum_by = [&](BackendChoice backend) {
      return run_ranks(
          3,
          [&](World& world) {
            auto sum = at::arange(count, at::kFloat).add(world.rank()).sin();
            all_reduce(world, sum, ReduceOp::Sum, "sum");
            return sum;
          },
          backend);
    };
    const auto over_gloo = sum_by(BackendChoice::Gloo);
    for (const auto& sum : sum_by(BackendChoice::Shm)) CHECK(at::equal(sum, over_gloo[0]));
    for (const auto& sum : over_gloo) CHECK(at::equal(sum, over_gloo[0]));
  }
}

TEST_CASE("collectives: reduce to a root and broadcast from it") {
  const auto results = run_ranks(3, [](World& world) {
    auto sum = at::full({2}, world.rank() + 1, at::kLong);
    reduce(world, sum, ReduceOp::Sum, 1, "sum");
    auto received = at::full({2}, world.rank(), at::kInt);
    broadcast(world, received, 2, "tensor");
    return std::pair{sum[0].item<int64_t>(), received[1].item<int>()};
  });
  CHECK(results[1].first == 6);
  for (const auto& result : results) CHECK(result.second == 2);
}

TEST_CASE("collectives: all_gather returns the tensors in rank order and keeps their shape") {
  constexpr int kSmall = 2, kLarge = 10'000;
  for (const auto backend : {BackendChoice::Shm, BackendChoice::Gloo})
    for (const auto rows : {kSmall, kLarge}) {
      const auto results = run_ranks(
          3,
          [&](World& world) {
            const auto all =
                all_gather(world, at::full({rows, 2}, world.rank(), at::kFloat), "all");
            return std::pair{all.sizes().vec(), all.select(1, 1).select(1, 0).contiguous()};
          },
          backend);
      for (const auto& [sizes, column] : results) {
        CHECK(sizes == std::vector<int64_t>{3, rows, 2});
        CHECK(at::equal(column, at::arange(3, at::kFloat)));
      }
    }
}

TEST_CASE("collectives: a missing rank is a PeerError with operation, rank and time waited") {
  const RendezvousDirectory directory;
  const auto errors = run_threads(2, [&](int rank) {
    const auto connected = World::connect(rank_options(rank, 2, directory));
    auto& world = *connected;
    if (rank == 0) barrier(world, "the end", std::chrono::milliseconds(300));
    if (rank == 0) return;
    auto never = at::zeros({1});
    all_reduce(world, never, ReduceOp::Sum, "something else");  // until rank 0 is gone
  });
  CHECK_THROWS_AS(std::rethrow_exception(errors[0]), PeerError);
  CHECK_THAT(text_of(errors[0]),
             Catch::Matches(".*barrier 'the end': rank 0 of 2 waited [0-9.]+ s.*"));
  CHECK_THROWS_AS(std::rethrow_exception(errors[1]), PeerError);
  CHECK_THAT(text_of(errors[1]), Catch::Contains("all_reduce 'something else': rank 1 of 2"));
}

TEST_CASE("world: invalid ranks, devices and backends throw before waiting for a peer") {
  const RendezvousDirectory directory;
  auto options = rank_options(2, 2, directory);
  options.local_rank = 0;
  CHECK_THROWS_WITH(World::connect(options), "rank 2 does not exist in a world of 2");
  options = rank_options(0, 2, directory);
  options.backend = BackendChoice::Nccl;
  CHECK_THROWS_WITH(World::connect(options),
                    Catch::Contains("backend 'nccl' does not work on device 'cpu'; use 'shm'"));
}

TEST_CASE(
    "world: a container may have another GPU than number 0, and CUDA_VISIBLE_DEVICES hides all") {
  launch::EnvironmentGuard guard;
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const RendezvousDirectory directory;
  const auto devices = directory.store();
  std::filesystem::create_directories(devices);
  const auto make = [&](const char* name) { std::ofstream(devices / name).flush(); };
  for (const auto* name : {"nvidiactl", "nvidia-uvm", "nvidia"}) make(name);
  CHECK_FALSE(machine_has_gpu(devices));
  make("nvidia3");
  CHECK(machine_has_gpu(devices));
  for (const auto* some : {"3", "GPU-1", "MIG-GPU-1/2/3"}) {
    guard.set("CUDA_VISIBLE_DEVICES", some);
    CHECK(machine_has_gpu(devices));
  }
  for (const auto* none : {"", "-1", "NoDevFiles", ",0"}) {
    guard.set("CUDA_VISIBLE_DEVICES", none);
    CHECK_FALSE(machine_has_gpu(devices));
  }
}

TEST_CASE("world: ranks of one host share memory unless Gloo is configured") {
  const auto name = [](World& world) { return std::string(name_of(world.backend())); };
  CHECK(run_ranks(2, name) == std::vector<std::string>(2, "shm"));
  CHECK(run_ranks(2, name, BackendChoice::Gloo) == std::vector<std::string>(2, "gloo"));
}

TEST_CASE("world: a rendezvous without peers fails after the timeout") {
  const RendezvousDirectory directory;
  CHECK_THROWS_AS(World::connect(rank_options(0, 2, directory, std::chrono::milliseconds(300))),
                  PeerError);
}

TEST_CASE("world: with one rank nothing is opened and collectives return immediately") {
  WorldOptions options;
  options.device = DeviceChoice::Cpu;
  const auto connected = World::connect(options);
  auto& world = *connected;
  auto tensor = at::ones({2});
  all_reduce(world, tensor, ReduceOp::Sum, "alone");
  CHECK(at::equal(tensor, at::ones({2})));
  CHECK(all_gather(world, tensor, "alone").sizes() == at::IntArrayRef({1, 2}));
  CHECK(world.backend() == BackendChoice::Auto);
  world.finish();
}

TEST_CASE("world: a value that rank 0 stores can be read back") {
  const auto results = run_ranks(2, [](World& world) {
    const bool before = world.rank() == 0 && world.get_value("key").has_value();
    if (world.rank() == 0) world.set_value("key", "value");
    return std::pair{
        before, world.rank() == 0 ? world.get_value("key").value_or("") : std::string("value")};
  });
  CHECK_FALSE(results[0].first);
  CHECK(results[0].second == "value");
}
