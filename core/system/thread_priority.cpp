#include "core/system/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep {
namespace {

constexpr int kNicer = 10;
// linux/ioprio.h: the lowest priority of the class "best effort".
constexpr int kIoPriorityOfProcess = 1;
constexpr int kLowestBestEffort = (2 << 13) | 7;

}  // namespace

// Failures are ignored.
void lower_thread_priority() {
  const int nice = ::getpriority(PRIO_PROCESS, 0) + kNicer;
  [[maybe_unused]] const auto set = ::setpriority(PRIO_PROCESS, 0, nice);
  const sched_param none{};
  [[maybe_unused]] const auto batch = ::sched_setscheduler(0, SCHED_BATCH, &none);
  [[maybe_unused]] const auto io =
      ::syscall(SYS_ioprio_set, kIoPriorityOfProcess, 0, kLowestBestEffort);
}

}  // namespace lockstep
