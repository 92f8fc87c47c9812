// The processes of a job, as one of them sees it: who it is, its device, and the groups it
// communicates in. An object, not a singleton: several ranks can live in one process (tests do).
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "core/system/progress_page.h"

namespace lockstep {

// All ranks meet at a TCP store.
struct TcpRendezvous {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  bool serve = true;  // rank 0 serves the store (false: somebody else does, e.g. torchrun's agent)
  std::optional<int> listen_fd;  // a socket that listens on `port` already; rank 0 takes it over
  std::string prefix;            // separates attempts that share one store
};

// All ranks meet through a file that every one of them can write; it must be new for each job.
struct FileRendezvous {
  std::filesystem::path path;
};

struct WorldOptions {
  int rank = 0, local_rank = 0, node_rank = 0;
  int world_size = 1, local_world_size = 1;
  std::variant<TcpRendezvous, FileRendezvous> rendezvous;  // not used when world_size is 1
  std::string device = "auto";  // auto | cpu | cuda: auto takes a GPU where the machine has one
  // auto | shm | gloo | hierarchical | nccl, for the device group. auto on a CPU: shared memory
  // where all ranks are on one host, else Gloo.
  std::string backend = "auto";
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // of every collective
  ProgressPage* progress = nullptr;  // where this rank tells what it does; outlives the World
};

// The c10d half of a World; distributed/backends/process_groups.h, for this folder only.
struct ProcessGroups;

class World {
 public:
  // Collective: returns when all ranks have met. With one rank nothing is opened.
  // Throws Config (an impossible device or backend) or Environment (port taken, peers do not come
  // in time).
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
  const std::string& backend() const { return backend_; }  // "none" with one rank
  std::chrono::milliseconds timeout() const { return options_.timeout; }

  // From now on collectives fail after `timeout`.
  void set_timeout(std::chrono::milliseconds timeout);
  ProgressPage& progress() const { return *options_.progress; }

  // Collective: waits for all ranks, so that none loses its connection in another's last
  // collective, then closes.
  void finish();

  // Remembered in the store for the life of the job, restarts under an agent's store included. Rank
  // 0 only, no wait. nullopt when nobody remembered `key`, or with one rank.
  std::optional<std::string> recall(const std::string& key);
  void remember(const std::string& key, const std::string& value);

  ProcessGroups& groups() { return *groups_; }

 private:
  std::unique_ptr<ProgressPage> own_progress_;  // when none was given
  WorldOptions options_;
  at::Device device_;
  std::string backend_ = "none";
  std::unique_ptr<ProcessGroups> groups_;
};

}  // namespace lockstep
