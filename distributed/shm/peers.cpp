#include "distributed/shm/peers.h"

#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::distributed::shm {

int count_usable_cores(const std::vector<pid_t>& pids) {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const auto pid : pids) {
    cpu_set_t cores;
    if (::sched_getaffinity(pid, sizeof cores, &cores) == 0) CPU_OR(&all, &all, &cores);
  }
  return CPU_COUNT(&all);
}

Peers::Peers(const std::vector<pid_t>& pids) : pids_(pids) {
  for (const auto pid : pids) {
    handles_.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    had_ended_.push_back(!handles_.back().is_open() && errno == ESRCH);
  }
}

bool Peers::has_ended(int rank) const {
  if (had_ended_[static_cast<size_t>(rank)]) return true;
  const auto& handle = handles_[static_cast<size_t>(rank)];
  if (!handle.is_open()) return false;  // a kernel without pidfds: only the timeout detects it
  pollfd ended{.fd = handle.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 0) == 1;
}

}  // namespace lockstep::distributed::shm
