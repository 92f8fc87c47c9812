// World::interrupt(): ranks leave collectives over Gloo, also those that Gloo itself would not end
// before their timeout.
#include <ATen/ATen.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "distributed/collectives.h"
#include "distributed/step_vote.h"
#include "lockstep/error.h"
#include "tests/distributed/run_ranks.h"

namespace lockstep::distributed {
namespace {

using namespace std::chrono_literals;

constexpr auto kNever = 1h;  // a timeout that the test itself would exceed

// Two ranks call `collective`, in which rank 1 receives the large tensor of rank 0, until they are
// interrupted in the middle of it. Then they form another group. Returns their exceptions.
std::vector<std::exception_ptr> interrupt_ranks(
    const std::function<void(World&, at::Tensor&)>& collective) {
  std::signal(SIGPIPE, SIG_IGN);
  const RendezvousDirectory first, second;
  std::array tensors = {at::ones({16 << 20}), at::zeros({16 << 20})};
  const std::atomic_ref received(*tensors[1].mutable_data_ptr<float>());
  std::array<std::atomic<World*>, 2> worlds{};
  std::atomic<int> running = 2;
  std::jthread interrupting([&] {
    while (received == 0) std::this_thread::yield();
    while (running > 0) {
      for (auto& world : worlds) world.load()->interrupt();
      std::this_thread::sleep_for(50ms);  // repeated, as by LossWatch; the test waits for no time
    }
  });
  return run_threads(2, [&](int rank) {
    const auto own = static_cast<size_t>(rank);
    auto options = rank_options(rank, 2, first, kNever);
    options.backend = BackendChoice::Gloo;
    options.interruptible = true;
    const auto world = World::connect(options);
    worlds[own] = world.get();
    barrier(*world, "begin");
    std::exception_ptr error;
    try {
      while (true) collective(*world, tensors[own]);
    } catch (const PeerError&) {
      error = std::current_exception();
    }
    --running;
    while (running > 0) std::this_thread::yield();
    options.rendezvous = FileRendezvous{second.store()};
    world->regroup(options);
    auto sum = at::ones({3});
    all_reduce(*world, sum, ReduceOp::Sum, "of the new group");
    if (sum.sum().item<double>() != 6) throw environment_error("wrong sum");
    std::rethrow_exception(error);
  });
}

}  // namespace

TEST_CASE("interrupt: ranks leave an operation in the middle of a message") {
  const auto errors =
      interrupt_ranks([](World& world, at::Tensor& large) { broadcast(world, large, 0, "large"); });
  for (const auto& error : errors) CHECK(text_of(error).starts_with("broadcast 'large': rank "));
}

TEST_CASE("interrupt: ranks leave a group with operations that they have not waited for") {
  const auto errors = interrupt_ranks([](World& world, at::Tensor& large) {
    StepVote vote(world);
    vote.begin(1);
    broadcast(world, large, 0, "large");
    vote.finish();
  });
  for (const auto& error : errors) CHECK(text_of(error).starts_with("broadcast 'large': rank "));
}

TEST_CASE("interrupt: a rank leaves a group that another one does not join") {
  const RendezvousDirectory directory;
  auto options = rank_options(0, 1, directory, kNever);
  options.backend = BackendChoice::Gloo;
  options.interruptible = true;
  const auto world = World::connect(options);
  options.world_size = options.local_world_size = 2;
  std::jthread interrupting([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      world->interrupt();
      std::this_thread::sleep_for(50ms);  // as above
    }
  });
  CHECK_THROWS_AS(world->regroup(options), PeerError);
}

}  // namespace lockstep::distributed
