// Several ranks in one process, one thread each. Catch2's assertions are not thread-safe: `body`
// returns values or throws, and the test's own thread asserts.
#pragma once

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/world.h"
#include "tests/distributed/run_threads.h"

namespace lockstep::distributed {

// LibTorch's flight recorder is one per process, and concurrent first calls of several groups are
// not thread-safe.
inline const int kNoFlightRecorder = ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);

// A temporary directory.
class RendezvousDirectory {
 public:
  RendezvousDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "lockstep-ranks-XXXXXX").string();
    path_ = ::mkdtemp(path.data());
  }
  ~RendezvousDirectory() { std::filesystem::remove_all(path_); }
  RendezvousDirectory(const RendezvousDirectory&) = delete;
  RendezvousDirectory& operator=(const RendezvousDirectory&) = delete;
  std::filesystem::path store() const { return path_ / "store"; }

 private:
  std::filesystem::path path_;
};

inline WorldOptions rank_options(int rank, int world_size, const RendezvousDirectory& directory,
                                 std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  return {.rank = rank,
          .local_rank = rank,
          .world_size = world_size,
          .local_world_size = world_size,
          .rendezvous = FileRendezvous{directory.store()},
          .device = DeviceChoice::Cpu,
          .timeout = timeout};
}

// Runs body(world) with one World per rank; adapt(options) is called before. Returns the results by
// rank, or rethrows the first exception.
template <class Adapt, class Body>
auto run_adapted_ranks(int world_size, const Adapt& adapt, Body&& body) {
  using Result = std::invoke_result_t<Body, World&>;
  const RendezvousDirectory directory;
  std::vector<Result> results(static_cast<size_t>(world_size));
  const auto errors = run_threads(world_size, [&](int rank) {
    auto options = rank_options(rank, world_size, directory);
    adapt(options);
    const auto connected = World::connect(options);
    auto& world = *connected;
    results[static_cast<size_t>(rank)] = body(world);
    world.finish();
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return results;
}

template <class Body>
auto run_ranks(int world_size, Body&& body, BackendChoice backend = BackendChoice::Auto) {
  return run_adapted_ranks(
      world_size, [&](WorldOptions& options) { options.backend = backend; },
      std::forward<Body>(body));
}

// With a hierarchical backend. `hosts`: the name of each rank's host.
template <class Body>
auto run_ranks_of_hosts(const std::vector<std::string>& hosts, Body&& body) {
  return run_adapted_ranks(
      static_cast<int>(hosts.size()),
      [&](WorldOptions& options) {
        options.backend = BackendChoice::Hierarchical;
        options.host = hosts[static_cast<size_t>(options.rank)];
      },
      std::forward<Body>(body));
}

// The text of the exception, or "" for none.
inline std::string text_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

}  // namespace lockstep::distributed
