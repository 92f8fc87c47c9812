// The process group of a job, as seen by one rank: ranks, device and communication.
//
// Example:
//   void connect(const lockstep::RankEnv& env) {
//     const auto world = lockstep::World::connect(
//         {.rank = env.rank,
//          .local_rank = env.local_rank,
//          .world_size = env.world_size,
//          .rendezvous = lockstep::TcpRendezvous{env.master_addr,
//                                                static_cast<uint16_t>(env.master_port)}});
//     // ... train ...
//     world->finish();
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
class GroupSockets;
class PendingOperations;
struct ProcessGroups;
}  // namespace distributed

// The compute device. Auto: a GPU if the machine has one.
enum class DeviceChoice { Auto, Cpu, Cuda };
constexpr auto choices(DeviceChoice) { return std::array{"auto", "cpu", "cuda"}; }
bool selects_gpu(DeviceChoice device);

// The communication backend for tensors. Auto on CPUs: shared memory if all ranks are on one host,
// else Gloo.
enum class BackendChoice { Auto, Shm, Gloo, Hierarchical, Nccl };
constexpr auto choices(BackendChoice) {
  return std::array{"auto", "shm", "gloo", "hierarchical", "nccl"};
}

// The ranks connect through a TCP store.
struct TcpRendezvous {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  bool serve = true;             // rank 0 serves the store; false: another process does
  std::optional<int> listen_fd;  // a socket that already listens on `port`; used by rank 0
  std::string prefix;            // key prefix that separates attempts that share a store
};

// The ranks connect through a file that all of them can write. Use a new file for each job.
struct FileRendezvous {
  std::filesystem::path path;
};

struct WorldOptions {
  int rank = 0, local_rank = 0, node_rank = 0;
  int world_size = 1, local_world_size = 1;
  std::variant<TcpRendezvous, FileRendezvous> rendezvous;  // unused with one rank
  DeviceChoice device = DeviceChoice::Auto;
  BackendChoice backend = BackendChoice::Auto;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // of every collective
  // Shared memory in which this rank reports its progress to a launcher; must outlive the World.
  // nullptr: private memory.
  ProgressPage* progress = nullptr;
  // Hierarchical: ranks with different values are on different hosts. nullopt: detected. For tests.
  std::optional<std::string> host;
  bool interruptible = false;  // World::interrupt() may be called; SIGPIPE must be ignored
};

// The process group of a job, as seen by one rank. Not a singleton: one process can host several
// ranks, as in tests. Thread: one thread.
class World {
 public:
  // Collective: returns when all ranks are connected. With one rank, opens no connection. Throws
  // Config (device or backend not available) or Environment (port in use, peers missing after the
  // timeout).
  static std::unique_ptr<World> connect(const WorldOptions& options);
  ~World();  // closes without waiting for other ranks; call finish() for a clean shutdown
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return options_.rank; }
  int local_rank() const { return options_.local_rank; }
  int node_rank() const { return options_.node_rank; }
  int world_size() const { return options_.world_size; }
  int local_world_size() const { return options_.local_world_size; }
  bool is_distributed() const { return options_.world_size > 1; }
  at::Device device() const { return device_; }
  BackendChoice backend() const { return backend_; }  // the backend in use; Auto with one rank
  std::chrono::milliseconds timeout() const { return options_.timeout; }

  // Sets the timeout of subsequent collectives.
  void set_timeout(std::chrono::milliseconds timeout);
  ProgressPage& progress() const { return *options_.progress; }

  // Collective: waits for all ranks, so that none is disconnected during its last collective, then
  // closes the connections.
  void finish();

  // Collective over the ranks of a new group, some of which may have been in the current one: closes
  // the connections without waiting for other ranks, then connects to the new ones. The device and
  // the progress page stay. Objects that communicate through this World must be destroyed before.
  // Throws as connect() does; may be called again then.
  void regroup(const WorldOptions& options);

  // Makes collectives and the connection of the current groups fail on this rank and on ranks that
  // wait for it, with a PeerError. Repeat it every 100 ms until this rank has left them: for new
  // connections, and as Gloo may forget operations, which the 20th call gives up. No effect in shared
  // memory, where ranks notice a loss themselves. Thread: any.
  void interrupt();

  // Reads and writes values in the store, which exist for the lifetime of the job (across restarts
  // if an agent serves the store). Rank 0 only; does not block. get_value() returns nullopt if
  // `key` is not set, or with one rank.
  std::optional<std::string> get_value(const std::string& key);
  void set_value(const std::string& key, const std::string& value);

  // The ranks of this host as a separate World, with BackendChoice::Hierarchical; otherwise this one.
  // The first call is collective. Lives as long as this one; do not call finish() on it. Throws
  // Config on all ranks if hosts have different numbers of ranks, or one rank each.
  World& host();

  distributed::ProcessGroups& groups() { return *groups_; }
  const distributed::ProcessGroups& groups() const { return *groups_; }

 private:
  explicit World(const WorldOptions& options);
  void open_groups();
  void close_groups();
  std::unique_ptr<World> open_host();

  std::unique_ptr<ProgressPage> own_progress_;  // when none was given
  WorldOptions options_;
  at::Device device_;
  BackendChoice backend_ = BackendChoice::Auto;
  std::unique_ptr<distributed::GroupSockets> sockets_;
  std::shared_ptr<distributed::PendingOperations> operations_;
  std::unique_ptr<distributed::ProcessGroups> groups_;
};

}  // namespace lockstep
