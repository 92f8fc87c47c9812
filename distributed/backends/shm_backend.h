// c10d backend for a shared-memory group, used by c10d::ProcessGroup and c10d::Reducer.
// Collectives run on the calling thread and are complete when they return: no thread has to be
// woken, and with one core per rank none is idle. Only files of distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/system/mutex.h"
#include "distributed/shm/group.h"

namespace lockstep::distributed {

// Bytes for types without reductions.
shm::ElementType element_type_of(at::ScalarType type);

class ShmBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Pending = c10::intrusive_ptr<c10d::Work>;

  ShmBackend(std::unique_ptr<shm::Group> group, std::chrono::milliseconds timeout);

  const std::string getBackendName() const override { return "shm"; }
  void setTimeout(std::chrono::milliseconds timeout) override {
    const MutexLock lock(one_at_a_time_);
    timeout_ = timeout;
  }

  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Pending allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  Pending _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  Pending allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  Pending gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  Pending reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  Pending reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  Pending barrier(const c10d::BarrierOptions& options) override;

  // allreduce() of one tensor, complete on return.
  void reduce_to_all(at::Tensor& tensor, const c10d::ReduceOp& op);

  // In place: all ranks receive chunk r of `whole` from rank r. Requires: contiguous, equal chunks.
  void gather_chunks(at::Tensor& whole);

  // Collective. Memory that all_reduce reduces in place (distributed/shm/symmetric_buffer.h).
  std::shared_ptr<shm::SymmetricBuffer> allocate(size_t bytes);
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  // Collective. For c10d::Reducer's buckets; ordinary memory if they are small or allocation fails.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  // Collective. Zeroed memory with one copy for all ranks (shm::allocate_per_host()), or null.
  std::shared_ptr<const shm::Segment> allocate_per_host(size_t bytes);

  // For collectives that c10d does not have: calls body(group, deadline) with exclusive access.
  template <class Body>
  void with_group(const Body& body) {
    const MutexLock lock(one_at_a_time_);
    body(*group_, deadline(c10d::kUnsetTimeout));
  }

 private:
  shm::Clock::time_point deadline(std::chrono::milliseconds timeout) const REQUIRES(one_at_a_time_);
  void reduce_by(shm::Clock::time_point latest, at::Tensor& tensor, const c10d::ReduceOp& op)
      REQUIRES(one_at_a_time_);
  void gather_rows(at::Tensor& output, const at::Tensor& input, shm::Clock::time_point latest)
      REQUIRES(one_at_a_time_);
  void scatter_sums(at::Tensor& output, const Tensors& inputs, const c10d::ReduceOp& op,
                    shm::Clock::time_point latest) REQUIRES(one_at_a_time_);

  Mutex one_at_a_time_;  // autograd may call from its own threads
  std::unique_ptr<shm::Group> group_ GUARDED_BY(one_at_a_time_);
  std::chrono::milliseconds timeout_ GUARDED_BY(one_at_a_time_);
};

}  // namespace lockstep::distributed
