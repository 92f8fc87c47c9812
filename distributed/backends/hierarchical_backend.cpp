#include "distributed/backends/hierarchical_backend.h"

#include <ATen/ATen.h>

#include <utility>

#include "distributed/backends/pending_work.h"
#include "distributed/shm/peers.h"

namespace lockstep::distributed {
namespace {

using Op = c10d::ReduceOp::RedOpType;

c10d::AllreduceOptions without_average(const c10d::AllreduceOptions& options) {
  auto plain = options;
  if (static_cast<Op>(options.reduceOp) == Op::AVG) plain.reduceOp = Op::SUM;
  return plain;
}

// Errors of a host's group contain ranks within that host.
template <class Call>
void run_on_host(const Call& call) {
  try {
    call()->wait();
  } catch (const shm::PeerLost& lost) {
    throw shm::PeerLost(std::string("among the ranks of this host, counted from 0: ") +
                        lost.what());
  }
}

}  // namespace

HierarchicalBackend::HierarchicalBackend(HostLevels levels)
    : Backend(levels.flat->getRank(), levels.flat->getSize()),
      levels_(std::move(levels)),
      thread_([this] { run_queue(); }) {}

HierarchicalBackend::~HierarchicalBackend() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void HierarchicalBackend::setTimeout(std::chrono::milliseconds timeout) {
  if (levels_.local) levels_.local->setTimeout(timeout);
  if (levels_.leaders) levels_.leaders->setTimeout(timeout);
  levels_.flat->setTimeout(timeout);
}

void HierarchicalBackend::run_queue() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock.native(), [this]() REQUIRES(mutex_) { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

HierarchicalBackend::Pending HierarchicalBackend::enqueue(c10d::OpType type, Tensors results,
                                                          std::function<void()> operation) {
  auto pending = c10::make_intrusive<PendingWork>(type, std::move(results));
  {
    const MutexLock lock(mutex_);
    queue_.push_back([pending, operation = std::move(operation)] {
      try {
        operation();
        pending->complete(nullptr);
      } catch (...) {
        pending->complete(std::current_exception());
      }
    });
  }
  changed_.notify_one();
  return pending;
}

void HierarchicalBackend::reduce_on_all_levels(at::Tensor& tensor,
                                               const c10d::AllreduceOptions& options) {
  const at::NoGradGuard no_grad;
  Tensors tensors = {tensor};
  if (levels_.local) {
    c10d::ReduceOptions to_leader;
    to_leader.reduceOp = options.reduceOp;
    to_leader.timeout = options.timeout;
    run_on_host([&] { return levels_.local->reduce(tensors, to_leader); });
  }
  if (levels_.leaders) levels_.leaders->allreduce(tensors, options)->wait();
  if (!levels_.local) return;
  c10d::BroadcastOptions from_leader;
  from_leader.timeout = options.timeout;
  run_on_host([&] { return levels_.local->broadcast(tensors, from_leader); });
}

HierarchicalBackend::Pending HierarchicalBackend::allreduce(Tensors& tensors,
                                                            const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "hierarchical: expected one tensor, got ", tensors.size());
  const bool average = static_cast<Op>(options.reduceOp) == Op::AVG;
  return enqueue(c10d::OpType::ALLREDUCE, tensors,
                 [this, tensor = tensors[0], plain = without_average(options), average]() mutable {
                   reduce_on_all_levels(tensor, plain);
                   if (average) tensor.div_(size_);
                 });
}

HierarchicalBackend::Pending HierarchicalBackend::barrier(const c10d::BarrierOptions& options) {
  // Runs after the operations that were queued before, like a barrier of Gloo.
  c10d::AllreduceOptions sum;
  sum.timeout = options.timeout;
  return enqueue(c10d::OpType::BARRIER, {}, [this, sum] {
    auto unused = at::zeros({1}, at::kInt);
    reduce_on_all_levels(unused, sum);
  });
}

HierarchicalBackend::Pending HierarchicalBackend::broadcast(Tensors& tensors,
                                                            const c10d::BroadcastOptions& options) {
  return levels_.flat->broadcast(tensors, options);
}

HierarchicalBackend::Pending HierarchicalBackend::reduce(Tensors& tensors,
                                                         const c10d::ReduceOptions& options) {
  return levels_.flat->reduce(tensors, options);
}

HierarchicalBackend::Pending HierarchicalBackend::allgather(std::vector<Tensors>& outputs,
                                                            Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  return levels_.flat->allgather(outputs, inputs, options);
}

HierarchicalBackend::Pending HierarchicalBackend::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return levels_.flat->_allgather_base(output, input, options);
}

HierarchicalBackend::Pending HierarchicalBackend::gather(std::vector<Tensors>& outputs,
                                                         Tensors& inputs,
                                                         const c10d::GatherOptions& options) {
  return levels_.flat->gather(outputs, inputs, options);
}

HierarchicalBackend::Pending HierarchicalBackend::scatter(Tensors& outputs,
                                                          std::vector<Tensors>& inputs,
                                                          const c10d::ScatterOptions& options) {
  return levels_.flat->scatter(outputs, inputs, options);
}

}  // namespace lockstep::distributed
