#include "distributed/backends/pending_operations.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <exception>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::distributed {
namespace {

std::exception_ptr communication_error(const std::string& text) {
  return std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text));
}

std::exception_ptr given_up_error() {
  return communication_error("given up: another rank was lost, and Gloo did not end the operation");
}

}  // namespace

void PendingOperations::begin() {
  give_up();
  const MutexLock lock(mutex_);
  gives_up_ = false;
}

void PendingOperations::give_up() {
  std::set<Work> works;
  {
    const MutexLock lock(mutex_);
    gives_up_ = true;
    works = std::exchange(works_, {});
  }
  for (const auto& work : works) work->complete(given_up_error());
}

bool PendingOperations::add(const Work& work) {
  const MutexLock lock(mutex_);
  if (!gives_up_) works_.insert(work);
  return !gives_up_;
}

void PendingOperations::remove(const Work& work) {
  const MutexLock lock(mutex_);
  works_.erase(work);
}

void PendingOperations::run(const std::shared_ptr<PendingOperations>& operations,
                            std::function<void()> act, std::chrono::milliseconds timeout) {
  const auto work =
      c10::make_intrusive<PendingWork>(c10d::OpType::UNKNOWN, std::vector<at::Tensor>());
  if (!operations->add(work)) std::rethrow_exception(given_up_error());
  std::thread([work, operations, act = std::move(act)] {
    std::exception_ptr error;
    try {
      act();
    } catch (...) {
      error = std::current_exception();
    }
    operations->remove(work);
    work->complete(error);
  }).detach();
  try {
    work->wait(timeout);
  } catch (...) {
    operations->remove(work);
    work->complete(communication_error(
        fmt::format("not connected within {} s",
                    std::chrono::duration_cast<std::chrono::seconds>(timeout).count())));
    work->wait();  // throws what ended it
  }
}

template <class Start>
InterruptibleBackend::Pending InterruptibleBackend::run(c10d::OpType type, Tensors results,
                                                        const Start& start) {
  auto work = c10::make_intrusive<PendingWork>(type, std::move(results));
  if (!operations_->add(work)) {
    work->complete(given_up_error());
    return work;
  }
  try {
    start()->getFuture()->addCallback([work, operations = operations_](const auto& ended) {
      operations->remove(work);
      work->complete(ended.exception_ptr());
    });
  } catch (...) {
    operations_->remove(work);
    throw;
  }
  return work;
}

InterruptibleBackend::Pending InterruptibleBackend::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  return run(c10d::OpType::ALLREDUCE, tensors, [&] { return inner_->allreduce(tensors, options); });
}

InterruptibleBackend::Pending InterruptibleBackend::barrier(const c10d::BarrierOptions& options) {
  return run(c10d::OpType::BARRIER, {}, [&] { return inner_->barrier(options); });
}

InterruptibleBackend::Pending InterruptibleBackend::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  return run(c10d::OpType::BROADCAST, tensors, [&] { return inner_->broadcast(tensors, options); });
}

InterruptibleBackend::Pending InterruptibleBackend::reduce(Tensors& tensors,
                                                           const c10d::ReduceOptions& options) {
  return run(c10d::OpType::REDUCE, tensors, [&] { return inner_->reduce(tensors, options); });
}

InterruptibleBackend::Pending InterruptibleBackend::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return run(c10d::OpType::ALLGATHER, outputs.empty() ? Tensors() : outputs.front(),
             [&] { return inner_->allgather(outputs, inputs, options); });
}

InterruptibleBackend::Pending InterruptibleBackend::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return run(c10d::OpType::_ALLGATHER_BASE, {output},
             [&] { return inner_->_allgather_base(output, input, options); });
}

InterruptibleBackend::Pending InterruptibleBackend::gather(std::vector<Tensors>& outputs,
                                                           Tensors& inputs,
                                                           const c10d::GatherOptions& options) {
  return run(c10d::OpType::GATHER, outputs.empty() ? Tensors() : outputs.front(),
             [&] { return inner_->gather(outputs, inputs, options); });
}

InterruptibleBackend::Pending InterruptibleBackend::scatter(Tensors& outputs,
                                                            std::vector<Tensors>& inputs,
                                                            const c10d::ScatterOptions& options) {
  return run(c10d::OpType::SCATTER, outputs,
             [&] { return inner_->scatter(outputs, inputs, options); });
}

InterruptibleBackend::Pending InterruptibleBackend::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
    std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  return run(c10d::OpType::ALLTOALL_BASE, {output}, [&] {
    return inner_->alltoall_base(output, input, output_sizes, input_sizes, options);
  });
}

}  // namespace lockstep::distributed
