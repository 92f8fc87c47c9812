// A rank that misbehaves on purpose, for tests of the hang report: hang_driver MODE BACKEND,
// started by `lockstep launch --program`. MODE: sleep (in its "data loader"), skip (a collective)
// or shape (of a tensor), always on rank 1.
#include <ATen/ATen.h>
#include <poll.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "distributed/collectives.h"
#include "launch/hangs/stack_reporter.h"
#include "launch/report/error_file.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "lockstep/world.h"

using namespace lockstep;

namespace {

// Prints when the faulty rank starts to misbehave, as the start time of the test.
void tell_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("wrong at %.3f\n", std::chrono::duration<double>(now).count());
  std::fflush(stdout);
}

void sleep_in_loader() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < end) ::poll(nullptr, 0, 60'000);
}

void run(const std::string& mode, const std::string& backend) {
  // If each rank detects the error itself, none is stopped before it has reported it.
  if (mode != "sleep") std::signal(SIGTERM, SIG_IGN);
  const auto ranks = read_rank_env();
  ProgressPage page(std::stoi(environment("LOCKSTEP_PROGRESS_FD").value()));
  page.begin(ranks.rank);
  const launch::StackReporter reporter(page);
  page.set_limits(std::chrono::seconds(3), std::chrono::seconds(8));
  const auto connected =
      World::connect({.rank = ranks.rank,
                      .local_rank = ranks.local_rank,
                      .world_size = ranks.world_size,
                      .local_world_size = ranks.local_world_size,
                      .rendezvous = TcpRendezvous{.host = ranks.master_addr,
                                                  .port = static_cast<uint16_t>(ranks.master_port),
                                                  .listen_fd = ranks.listen_fd},
                      .device = DeviceChoice::Cpu,
                      .backend = ConfigValue<BackendChoice>::read(
                          {.kind = ConfigNode::Kind::Scalar, .scalar = backend}, "backend"),
                      .timeout = std::chrono::seconds(8),
                      .progress = &page});
  auto& world = *connected;
  const bool is_odd = ranks.rank == 1;
  for (int step = 0; step < 5; ++step) {
    page.enter(Phase::DataWait);
    page.set_step(step, 5);
    if (is_odd && step == (mode == "skip" ? 4 : 2)) tell_time();
    if (mode == "sleep" && is_odd && step == 2) sleep_in_loader();
    page.enter(Phase::Backward);
    auto gradients = at::ones({mode == "shape" && is_odd && step == 2 ? 5000 : 1000});
    if (!(mode == "skip" && is_odd && step == 4))
      all_reduce(world, gradients, distributed::ReduceOp::Sum, "gradients");
  }
  page.enter(Phase::Saving);
  page.enter(Phase::Logging);
  distributed::barrier(world, "end of training");
  world.finish();
}

}  // namespace

int main(int, char** argv) {
  try {
    run(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    if (const auto file = environment("TORCHELASTIC_ERROR_FILE"))
      launch::write_error_file(*file, error);
    std::fprintf(stderr, "hang_driver: %s\n", error.what());
    const auto* known = dynamic_cast<const Error*>(&error);
    std::_Exit(known ? known->exit_code() : 70);
  }
}
