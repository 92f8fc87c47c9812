// One rank of the collective benchmarks: times all-reduces in the control group of a World. Started
// by bench/run.py under `lockstep launch`; rank 0 prints one JSON object.
//   lockstep_bench_collectives BACKEND first   only the time until the first all-reduce completes
//   lockstep_bench_collectives BACKEND SCALE   SCALE: factor on the number of repetitions
// Measures ordinary tensors, then ("placed") tensors from shared_empty().
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "distributed/collectives.h"
#include "distributed/counters.h"
#include "distributed/step_vote.h"
#include "lockstep/rank_env.h"

namespace {

using namespace lockstep;
using Clock = std::chrono::steady_clock;

// `prepare` is excluded from the time.
template <class Body, class Prepare>
double median_us(int rounds, const Body& body, const Prepare& prepare) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    prepare();
    const auto begin = Clock::now();
    body();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<size_t>(rounds) / 2];
}

template <class Body>
double median_us(int rounds, const Body& body) {
  return median_us(rounds, body, [] {});
}

// `make`: creates a tensor with the given number of elements. Each rank writes its tensor before
// each all-reduce, as a backward pass does: otherwise the data of the previous all-reduce would
// still be in its caches.
template <class Make>
nlohmann::json all_reduces(World& world, double scale, const Make& make) {
  nlohmann::json rows;
  for (const int64_t bytes : {int64_t{4}, int64_t{4} << 10, int64_t{64} << 10, int64_t{1} << 20,
                              int64_t{25} << 20, int64_t{100} << 20}) {
    at::Tensor tensor = make(bytes / 4);
    const auto once = [&] { all_reduce(world, tensor, distributed::ReduceOp::Sum, "bench"); };
    const auto write = [&] {
      tensor.fill_(1);
      distributed::barrier(world, "bench");
    };
    const double budget = bytes <= (64 << 10) ? 2000 : bytes <= (1 << 20) ? 200 : 20;
    const int rounds = std::max(5, static_cast<int>(budget * scale));
    median_us(std::max(3, rounds / 10), once, write);
    rows[std::to_string(bytes)] = median_us(rounds, once, write);
  }
  return rows;
}

nlohmann::json metrics(World& world, double scale) {
  distributed::Counters counters;
  for (int i = 0; i < 16; ++i) counters["metric " + std::to_string(i)] = {1.0 * i, 1};
  std::vector<at::Tensor> separate(16);
  for (auto& tensor : separate) tensor = at::zeros({2}, at::kDouble);
  const int rounds = static_cast<int>(500 * scale);
  const auto one_by_one = median_us(rounds, [&] {
    for (auto& tensor : separate) all_reduce(world, tensor, distributed::ReduceOp::Sum, "bench");
  });
  return {{"packed", median_us(rounds, [&] { merge_counters(world, counters); })},
          {"separate", one_by_one}};
}

double vote(World& world, double scale) {
  distributed::StepVote vote(world);
  return median_us(static_cast<int>(2000 * scale), [&] {
    vote.begin(0);
    vote.finish();
  });
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const auto ranks = read_rank_env();
  const auto backend = ConfigValue<BackendChoice>::read(
      {.kind = ConfigNode::Kind::Scalar, .scalar = argc > 1 ? argv[1] : "auto"}, "backend");
  const auto connected =
      World::connect({.rank = ranks.rank,
                      .local_rank = ranks.local_rank,
                      .world_size = ranks.world_size,
                      .local_world_size = ranks.local_world_size,
                      .rendezvous = TcpRendezvous{.host = ranks.master_addr,
                                                  .port = static_cast<uint16_t>(ranks.master_port),
                                                  .serve = !ranks.agent_serves_store,
                                                  .listen_fd = ranks.listen_fd},
                      .device = DeviceChoice::Cpu,
                      .backend = backend});
  auto& world = *connected;
  if (argc > 2 && std::string(argv[2]) == "first") {
    auto tensor = at::ones({1});
    all_reduce(world, tensor, distributed::ReduceOp::Sum, "first");
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    if (ranks.rank == 0) std::printf("{\"first_all_reduce\": %.6f}\n", now.count());
    world.finish();
    return 0;
  }
  const double scale = argc > 2 ? std::stod(argv[2]) : 1;
  const auto ordinary = [](int64_t count) { return at::zeros({count}); };
  const auto placed = [&](int64_t count) {
    return distributed::shared_empty(world, {count}, at::kFloat).zero_();
  };
  const nlohmann::json result = {{"backend", name_of(world.backend())},
                                 {"all_reduce_us", all_reduces(world, scale, ordinary)},
                                 {"placed_all_reduce_us", all_reduces(world, scale, placed)},
                                 {"metrics_us", metrics(world, scale)},
                                 {"vote_us", vote(world, scale)}};
  world.finish();
  if (ranks.rank == 0) std::printf("%s\n", result.dump().c_str());
}
