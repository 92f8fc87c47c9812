#include "launch/workers/orphans.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace lockstep::launch {

void reap_orphans(const std::vector<pid_t>& own) {
  if (::getpid() != 1) return;
  std::ifstream children("/proc/1/task/1/children");
  for (pid_t child = 0; children >> child;)
    if (std::ranges::find(own, child) == own.end()) ::waitpid(child, nullptr, WNOHANG);
}

}  // namespace lockstep::launch
