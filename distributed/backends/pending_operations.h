// The operations of a process group that have not ended, so that another thread can end them. Only files
// of distributed/ include this.
//
// Note [Operations that Gloo forgets]: when a connection of Gloo closes, the operations that wait for a
// message on it fail, but not the one whose message is half sent or half received: Pair::signalException
// of its TCP transport does not visit them. It waits until its timeout, and so does the destructor of the
// group. When a rank is lost, the others cannot wait that long: they give the operation up. The same
// applies to connections: Gloo waits for one for five times its timeout, and the client of a store tries
// again and again.
#pragma once

#include <ATen/core/ivalue_inl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/system/mutex.h"
#include "distributed/backends/pending_work.h"

namespace lockstep::distributed {

// Thread: any.
class PendingOperations {
 public:
  // A new group begins; operations of the last one have ended, or were given up.
  void begin();

  // All operations, and those that begin before the next group, fail with a c10::DistError. Their tensors
  // stay allocated until their timeouts.
  void give_up();

  // The result of `connect`, which another thread runs, also after this has thrown c10::DistError: it was
  // given up, or has taken longer than `timeout`. Throws what `connect` throws.
  template <class Connect>
  static auto connect(const std::shared_ptr<PendingOperations>& operations, Connect connect,
                      std::chrono::milliseconds timeout) {
    const auto connected = std::make_shared<decltype(connect())>();
    run(
        operations, [connected, connect = std::move(connect)]() mutable { *connected = connect(); },
        timeout);
    return *connected;
  }

 private:
  friend class InterruptibleBackend;
  using Work = c10::intrusive_ptr<PendingWork>;

  static void run(const std::shared_ptr<PendingOperations>& operations, std::function<void()> act,
                  std::chrono::milliseconds timeout);
  bool add(const Work& work);  // false: it is given up
  void remove(const Work& work);

  Mutex mutex_;
  std::set<Work> works_ GUARDED_BY(mutex_);
  bool gives_up_ GUARDED_BY(mutex_) = false;
};

// Forwards to Gloo. The works that it returns can be given up.
class InterruptibleBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Pending = c10::intrusive_ptr<c10d::Work>;

  InterruptibleBackend(c10::intrusive_ptr<c10d::Backend> inner,
                       std::shared_ptr<PendingOperations> operations)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        operations_(std::move(operations)) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }

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
  Pending alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override;

 private:
  template <class Start>
  Pending run(c10d::OpType type, Tensors results, const Start& start);

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::shared_ptr<PendingOperations> operations_;
};

}  // namespace lockstep::distributed
