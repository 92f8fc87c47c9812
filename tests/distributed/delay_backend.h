// A c10d backend that simulates a network link: an all-reduce completes latency + bytes / bandwidth
// after it started, one at a time, without using the CPU. It does not change the data. For tests
// and measurements of overlap with the backward pass.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/ivalue_inl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "distributed/backends/process_groups.h"

namespace lockstep::distributed {

class DelayBackend final : public c10d::Backend {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;

  struct Link {
    Seconds latency{0};
    double s_per_byte = 0;

    Seconds time_of(size_t bytes) const {
      return latency + Seconds(s_per_byte * static_cast<double>(bytes));
    }
  };
  struct Sent {
    Clock::time_point begin;
    size_t bytes;
  };

  DelayBackend(int rank, int num_ranks)
      : Backend(rank, num_ranks), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  const std::string getBackendName() const override { return "delay"; }
  void setTimeout(std::chrono::milliseconds) override {}

  // Requires: no pending operation.
  void set_link(const Link& link) { link_ = link; }
  void set_listener(std::function<void(const Sent&)> listener) { listener_ = std::move(listener); }
  // All-reduces since the last call.
  std::vector<Sent> take_sent() { return std::exchange(sent_, {}); }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions&) override {
    const auto now = Clock::now();
    sent_.push_back({now, tensors[0].nbytes()});
    if (listener_) listener_(sent_.back());
    auto future = make_future();
    const auto time = link_.time_of(tensors[0].nbytes());
    if (time.count() == 0) {
      future->markCompleted(c10::IValue(tensors));
    } else {
      const std::lock_guard lock(mutex_);
      is_free_at_ = std::max(now, is_free_at_) + std::chrono::duration_cast<Clock::duration>(time);
      pending_.push_back({is_free_at_, future, tensors});
      changed_.notify_all();
    }
    return c10::make_intrusive<Delayed>(future);
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions&) override {
    auto future = make_future();
    future->markCompleted(c10::IValue(tensors));
    return c10::make_intrusive<Delayed>(future);
  }

 private:
  struct PendingOperation {
    Clock::time_point end;
    Future future;
    std::vector<at::Tensor> tensors;
  };

  class Delayed final : public c10d::Work {
   public:
    explicit Delayed(Future future)
        : Work(-1, c10d::OpType::ALLREDUCE), future_(std::move(future)) {}
    bool isCompleted() override { return future_->completed(); }
    bool isSuccess() const override { return future_->completed(); }
    bool wait(std::chrono::milliseconds) override {
      future_->wait();
      return true;
    }
    Future getFuture() override { return future_; }

   private:
    Future future_;
  };

  static Future make_future() {
    return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  }

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return !pending_.empty(); })) {
      auto next = pending_.front();
      changed_.wait_until(lock, stop, next.end, [] { return false; });
      pending_.pop_front();
      lock.unlock();
      next.future->markCompleted(c10::IValue(next.tensors));
      lock.lock();
    }
  }

  Link link_;
  std::function<void(const Sent&)> listener_;
  std::vector<Sent> sent_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<PendingOperation> pending_;  // guarded by mutex_
  Clock::time_point is_free_at_{};        // guarded by mutex_
  std::jthread thread_;                   // last: joined first
};

// Routes gradients of `world` through `backend`, for a DataParallel that is created afterwards.
inline void use_for_gradients(World& world, const c10::intrusive_ptr<DelayBackend>& backend) {
  constexpr auto kType = c10d::ProcessGroup::BackendType::CUSTOM;
  auto& groups = world.groups();
  groups.device =
      c10::make_intrusive<c10d::ProcessGroup>(groups.store, world.rank(), world.world_size());
  groups.device->setBackend(at::kCPU, kType, backend);
  groups.device->setDefaultBackend(kType);
  groups.device->setGroupName("delay");
  groups.shared.reset();
}

}  // namespace lockstep::distributed
