#include "trainer/prepared/openmp_threads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <latch>
#include <thread>
#include <vector>

#include "launch/environment/worker_env.h"
#include "lockstep/rank_env.h"

namespace lockstep::trainer {
namespace {

constexpr int kMaxYields = 10'000;  // another thread may get the id of one that has exited

// Threads that exist at the same time, and do nothing.
class TrialThreads {
 public:
  // Throws std::system_error if one cannot be started.
  explicit TrialThreads(int count) : ids_(static_cast<size_t>(count)) {
    threads_.reserve(ids_.size());
    try {
      for (auto& id : ids_)
        threads_.emplace_back([&] {
          id = ::gettid();
          end_.wait();
        });
    } catch (...) {
      join();
      throw;
    }
  }
  ~TrialThreads() { join(); }
  TrialThreads(const TrialThreads&) = delete;
  TrialThreads& operator=(const TrialThreads&) = delete;

 private:
  void join() {
    end_.count_down();
    for (auto& thread : threads_) thread.join();
    // A joined thread counts towards the limits until the kernel has removed it.
    for (size_t i = 0; i < threads_.size(); ++i)
      for (int yields = 0; yields < kMaxYields && exists(ids_[i]); ++yields)
        std::this_thread::yield();
  }
  static bool exists(pid_t id) { return ::syscall(SYS_tgkill, ::getpid(), id, 0) == 0; }

  std::latch end_{1};
  std::vector<pid_t> ids_;
  std::vector<std::thread> threads_;
};

}  // namespace

void start_openmp_threads() {
  // OpenMP counts cores by the CPU affinity only.
  if (const int usable = launch::num_usable_cores();
      usable < at::get_num_threads() && !requested_num_threads())
    at::set_num_threads(usable);
  const int count = at::get_num_threads();
  if (count <= 1) return;
  { const TrialThreads trial(count - 1); }
  // OpenMP keeps the threads of its first parallel region.
  at::empty({count * at::internal::GRAIN_SIZE}, at::kByte).fill_(1);
}

}  // namespace lockstep::trainer
