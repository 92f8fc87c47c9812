// How c10d backends are made. One file each, because each needs headers that nothing else should
// see.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "distributed/backends/shm_backend.h"

namespace lockstep::distributed {

// `address`: numeric IP of the interface to use; numeric, so that no name service can stall the
// start.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout,
                                                    const std::string& address);

// Collective. `backend` is null on every rank where they do not share a host; `reason` says why
// not.
struct HostGroup {
  c10::intrusive_ptr<ShmBackend> backend;
  std::string reason;
};
HostGroup make_shm_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                           std::chrono::milliseconds timeout);

// One rank of several hosts.
struct HostPlace {
  int rank = 0, world_size = 1;
  std::chrono::milliseconds timeout;
  std::string address;  // as for Gloo
  std::string host = shm::host_identity();
};

// Collective. Ranks that say the same `host` and really share memory reduce there; the others stand
// alone. distributed/backends/hierarchical_backend.h.
c10::intrusive_ptr<c10d::Backend> make_hierarchical_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const HostPlace& place);

// Throws what use_gpu() throws.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout);

}  // namespace lockstep::distributed
