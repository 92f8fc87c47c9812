// The c10d process groups of a World. Only files of distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <string>

#include "distributed/backends/shm_backend.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

// Members are destroyed in reverse order: the groups before the store they were created with.
struct ProcessGroups {
  c10::intrusive_ptr<c10d::Store> base_store;  // lives as long as the job, shared by its attempts
  c10::intrusive_ptr<c10d::Store> store;       // of this attempt
  c10::intrusive_ptr<c10d::ProcessGroup> control;  // CPU tensors: votes, metrics, objects
  c10::intrusive_ptr<c10d::ProcessGroup>
      device;  // gradients; the same object as `control` when those are on the CPU

  c10::intrusive_ptr<ShmBackend> shared;  // backend of `control`; null if ranks share no memory

  // Set by World::host() with a hierarchical backend.
  std::unique_ptr<World> host;
  c10::intrusive_ptr<c10d::Backend> peers;  // see HostGroups; null with one host

  bool is_of_host = false;  // whether these are the groups of World::host()

  c10d::ProcessGroup& of(const at::Tensor& tensor) { return tensor.is_cpu() ? *control : *device; }
};

}  // namespace lockstep::distributed
