// The processes of a job: rank, device, and the groups in which they communicate.
//
// Example:
//   void meet(const lockstep::RankEnv& env) {
//     lockstep::World world({.rank = env.rank,
//                            .local_rank = env.local_rank,
//                            .world_size = env.world_size,
//                            .rendezvous = lockstep::TcpRendezvous{
//                                env.master_addr, static_cast<uint16_t>(env.master_port)}});
//     // ... train ...
//     world.finish();
//   }
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "lockstep/config_value.h"

namespace lockstep {

class ProgressPage;
namespace distributed {
struct ProcessGroups;
}

// Where to compute. Auto: a GPU if the machine has one.
enum class DeviceChoice { Auto, Cpu, Cuda };
constexpr auto choices(DeviceChoice) { return std::array{"auto", "cpu", "cuda"}; }
bool wants_gpu(DeviceChoice device);

// What carries the tensors of the device group. Auto on CPUs: shared memory if all ranks are on one
// host, else Gloo.
enum class BackendChoice { Auto, Shm, Gloo, Hierarchical, Nccl };
constexpr auto choices(BackendChoice) {
  return std::array{"auto", "shm", "gloo", "hierarchical", "nccl"};
}

// The ranks meet at a TCP store.
struct TcpRendezvous {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  bool serve = true;             // rank 0 serves the store; false: another process does
  std::optional<int> listen_fd;  // a socket that listens on `port` already; rank 0 uses it
  std::string prefix;            // separates attempts that share a store
};

// The ranks meet through a file that all of them can write. It must be new for each job.
struct FileRendezvous {
  std::filesystem::path path;
};

struct WorldOptions {
  int rank = 0, local_rank = 0, node_rank = 0;
  int world_size = 1, local_world_size = 1;
  std::variant<TcpRendezvous, FileRendezvous> rendezvous;  // not used with one rank
  DeviceChoice device = DeviceChoice::Auto;
  BackendChoice backend = BackendChoice::Auto;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // of every collective
  // Where this rank reports its progress to a launcher; outlives the World. nullptr: its own.
  ProgressPage* progress = nullptr;
};

// The processes of a job, seen from one of them. An object, not a singleton: several ranks can live
// in one process, as in tests.
//
// Thread: one thread.
class World {
 public:
  // Collective: returns when all ranks have met. With one rank, opens nothing. Throws Config (a
  // device or backend that cannot be used) or Environment (port in use, peers missing at the
  // timeout).
  explicit World(const WorldOptions& options);
  ~World();  // closes without waiting for the others; finish() is the orderly end
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return options_.rank; }
  int local_rank() const { return options_.local_rank; }
  int node_rank() const { return options_.node_rank; }
  int world_size() const { return options_.world_size; }
  int local_world_size() const { return options_.local_world_size; }
  bool is_distributed() const { return options_.world_size > 1; }
  at::Device device() const { return device_; }
  BackendChoice backend() const { return backend_; }  // what was chosen; Auto with one rank
  std::chrono::milliseconds timeout() const { return options_.timeout; }

  // The timeout of later collectives.
  void set_timeout(std::chrono::milliseconds timeout);
  ProgressPage& progress() const { return *options_.progress; }

  // Collective: waits for all ranks, so that none is disconnected in its last collective, then
  // closes.
  void finish();

  // Values in the store, kept for the life of the job (across restarts when an agent serves the
  // store). Rank 0 only; does not wait. nullopt when `key` is not set, or with one rank.
  std::optional<std::string> recall(const std::string& key);
  void remember(const std::string& key, const std::string& value);

  distributed::ProcessGroups& groups() { return *groups_; }

 private:
  std::unique_ptr<ProgressPage> own_progress_;  // when none was given
  WorldOptions options_;
  at::Device device_;
  BackendChoice backend_ = BackendChoice::Auto;
  std::unique_ptr<distributed::ProcessGroups> groups_;
};

}  // namespace lockstep
