// Hierarchical all-reduce over several hosts in three steps: the ranks of a host reduce to their
// leader in shared memory, the leaders all-reduce over Gloo, and each leader broadcasts the result
// on its host. One rank per host uses the network, so the ring has one member per host (2 (H - 1)
// sequential messages instead of 2 (W - 1)). Collectives other than all_reduce and barrier use Gloo
// between all ranks.
//
// Note [Order of sums on several hosts]: a sum of sums. Within a host as in distributed/shm (Note
// [Order of sums]) over its ranks in ascending order; between hosts as in Gloo's ring over the
// hosts, ordered by their lowest rank. The bits depend on which ranks share a host.
//
// All-reduces run on the backend's thread, in the order of the calls, so that they overlap with the
// backward pass; the returned Work completes with them. Only files of distributed/ include this.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "core/system/mutex.h"
#include "distributed/backends/shm_backend.h"

namespace lockstep::distributed {

// The backends below a HierarchicalBackend, for one rank.
struct HostLevels {
  c10::intrusive_ptr<ShmBackend> local;       // of the ranks of this host; null if it is only one
  c10::intrusive_ptr<c10d::Backend> leaders;  // of one rank per host; null if this is not a leader
  c10::intrusive_ptr<c10d::Backend> flat;     // of all ranks
};

class HierarchicalBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Pending = c10::intrusive_ptr<c10d::Work>;

  explicit HierarchicalBackend(HostLevels levels);
  ~HierarchicalBackend() override;  // waits for queued operations

  const std::string getBackendName() const override { return "hierarchical"; }
  void setTimeout(std::chrono::milliseconds timeout) override;

  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Pending barrier(const c10d::BarrierOptions& options) override;
  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  Pending _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  Pending gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;

 private:
  void reduce_on_all_levels(at::Tensor& tensor, const c10d::AllreduceOptions& options);
  Pending enqueue(c10d::OpType type, Tensors results, std::function<void()> operation);
  void run_queue();

  HostLevels levels_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::distributed
