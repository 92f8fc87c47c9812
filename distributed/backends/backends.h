// Factories of c10d backends. Each is in its own source file, because each needs headers that no
// other file should include.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <exception>
#include <filesystem>
#include <string>

#include "distributed/backends/shm_backend.h"

namespace lockstep::distributed {

// `address`: numeric IP address of the interface to use. Numeric: no name lookup delays the start.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout,
                                                    const std::string& address);

// Whether a collective of Gloo threw `error`.
bool is_gloo_exception(const std::exception& error);

// For ranks that share a file system. A wait that times out throws c10::DistStoreError, as with
// LibTorch's other stores. `path`: of the store's file.
c10::intrusive_ptr<c10d::Store> make_file_store(const std::filesystem::path& path, int world_size);

// Collective. If ranks do not share memory, `backend` is null on every rank and `reason` is set.
struct HostGroup {
  c10::intrusive_ptr<ShmBackend> backend;
  std::string reason;
};
HostGroup make_shm_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                           std::chrono::milliseconds timeout);

struct HierarchicalOptions {
  int rank = 0, world_size = 1;
  std::chrono::milliseconds timeout;
  std::string address;  // as for Gloo
  std::string host = shm::host_identity();
};

// Collective. Ranks with the same `host` form a group if they can share memory; each of the others
// forms a group of one. See distributed/backends/hierarchical_backend.h.
c10::intrusive_ptr<c10d::Backend> make_hierarchical_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const HierarchicalOptions& options);

// How state is divided within each host and replicated between hosts.
struct HostGroups {
  c10::intrusive_ptr<ShmBackend> local;  // the ranks of this host
  // The ranks with the same rank in `local`, one of each host, in the order of the leaders of the
  // hierarchical backend. Null with one host.
  c10::intrusive_ptr<c10d::Backend> peers;
};

// Collective, with the hosts of make_hierarchical_backend(). Throws Config on all ranks if hosts
// have different numbers of ranks, or one rank each.
HostGroups make_host_groups(const c10::intrusive_ptr<c10d::Store>& store,
                            const HierarchicalOptions& options);

// Throws what use_gpu() throws.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout);

}  // namespace lockstep::distributed
